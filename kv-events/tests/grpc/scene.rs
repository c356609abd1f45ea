//! A relay whose engine is the test, its server, and readers of it.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kv_events::adapter::grpc::smg::SmgCounts;
use kv_events::adapter::grpc::{Subscription, SubscriptionEvent, serve};
use kv_events::adapter::hub::{Hub, Input};
use kv_events::admission::{Change, Request};
use kv_events::relay::{Options, RankStatus};
use kv_events::{Follower, Source, Stream, StreamOptions, Trust};
use kv_index::{Digest, Index, ReferenceIndex, ReferenceWorker, View};
use rmp::encode::{write_array_len, write_f64, write_nil, write_str, write_uint};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A relay and its server.
pub(crate) struct Scene {
    pub(crate) hub: Hub,
    pub(crate) address: SocketAddr,
    pub(crate) smg: Arc<SmgCounts>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// Fails a test that would hang.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// The relay's options without a replay socket.
pub(crate) fn options(ranks: u32) -> Options {
    Options { ranks, replays: false, ..Options::default() }
}

impl Scene {
    pub(crate) async fn start(options: Options) -> Self {
        Self::at("127.0.0.1:0", 7, options).await
    }

    /// At `address`, as the relay that `watcher` names.
    pub(crate) async fn at(address: &str, watcher: u64, options: Options) -> Self {
        let listener = loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                // A port just closed may be taken for a moment longer.
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let address = listener.local_addr().unwrap();
        let (hub, _) = Hub::spawn(watcher, options);
        for rank in 0..options.ranks {
            hub.tell(Input::Connected { rank }).await.unwrap();
        }
        let (stop, stopped) = oneshot::channel();
        let smg = Arc::<SmgCounts>::default();
        let server = serve(listener, hub.clone(), smg.clone(), async { _ = stopped.await });
        let serving = tokio::spawn(async { server.await.unwrap() });
        Self { hub, address, smg, stop, serving }
    }

    /// The engine publishes.
    pub(crate) async fn publish(&self, rank: u32, sequence: u64, payload: Vec<u8>) {
        self.hub.tell(Input::Live { rank, sequence, payload: payload.into() }).await.unwrap();
    }

    pub(crate) async fn publish_all(&self, sequences: std::ops::Range<u64>) {
        for sequence in sequences {
            self.publish(0, sequence, store(sequence)).await;
        }
    }

    pub(crate) async fn status(&self, rank: usize) -> RankStatus {
        self.hub.status().await.unwrap().0[rank].clone()
    }

    /// Waits until the relay has taken in what was published.
    pub(crate) async fn settle(&self, last: u64) {
        within("the relay", async {
            while self.status(0).await.last != Some(last) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// A connection without our client.
    pub(crate) async fn channel(&self) -> tonic::transport::Channel {
        tonic::transport::Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    pub(crate) fn reader(&self, rank: u32) -> Reader {
        Reader::of(self.address, rank)
    }

    pub(crate) async fn stop(self) {
        self.hub.stop();
        _ = self.stop.send(());
        within("the server's end", self.serving).await.unwrap();
    }
}

/// What a relay's reader does in a router, for one rank.
pub(crate) struct Reader {
    pub(crate) subscription: Subscription,
    pub(crate) follower: Follower,
    index: ReferenceIndex,
    stream: Stream<ReferenceWorker>,
    begun: Instant,
    /// What came, one word each.
    pub(crate) said: Vec<String>,
}

impl Reader {
    pub(crate) fn of(address: SocketAddr, rank: u32) -> Self {
        let index = ReferenceIndex::new();
        Self {
            subscription: Subscription::new(&format!("grpc://{address}").parse().unwrap(), rank),
            follower: Follower::new(Source::Relay, 1),
            stream: Stream::new(index.add_worker().unwrap(), StreamOptions::default()),
            index,
            begun: Instant::now(),
            said: Vec::new(),
        }
    }

    /// One event of the subscription.
    pub(crate) async fn step(&mut self) {
        let event = self.subscription.next().await;
        let now = self.begun.elapsed();
        let word = match event {
            SubscriptionEvent::Connected => {
                self.follower.handle_connected(now);
                "connected".to_owned()
            }
            SubscriptionEvent::Update { update, bytes } => {
                let word = match &update.news {
                    kv_events::adapter::grpc::News::Published { .. } => format!("{}", update.sequence),
                    kv_events::adapter::grpc::News::Chunk { index, count, .. } => format!("chunk {index}/{count}"),
                    kv_events::adapter::grpc::News::Heartbeat { vouched } => format!("beat {vouched}"),
                };
                update.hand_to(now, bytes, &mut self.follower);
                word
            }
            SubscriptionEvent::Rejected { status } => {
                self.follower.handle_rejected(now);
                format!("{:?}", status.code())
            }
            SubscriptionEvent::Disconnected { .. } => {
                self.follower.handle_disconnected(now);
                "disconnected".to_owned()
            }
            SubscriptionEvent::Unreachable { .. } => "unreachable".to_owned(),
            SubscriptionEvent::Unreadable(error) => error.to_string(),
            SubscriptionEvent::Unsupported { status } => format!("{:?}", status.code()),
        };
        self.said.push(word);
        while let Some(step) = self.follower.poll_step() {
            match step.change {
                Change::Apply { batch, .. } => self.stream.apply(&batch),
                Change::Clear => self.stream.clear(),
                Change::Restart => self.stream.restart(),
                Change::Nothing => {}
            }
        }
        if let Some(Request::Resubscribe { after }) = self.follower.poll_request() {
            self.subscription.resubscribe(after);
        }
    }

    /// Goes on until `sequence` is the last batch taken.
    pub(crate) async fn read_to(&mut self, sequence: u64) {
        within(&format!("batch {sequence}"), async {
            while self.follower.position().map(|at| at.sequence) != Some(sequence) {
                self.step().await;
            }
        })
        .await;
    }

    /// Goes on until `word` was said.
    pub(crate) async fn read_until(&mut self, word: &str) {
        within(word, async {
            while self.said.last().map(String::as_str) != Some(word) {
                self.step().await;
            }
        })
        .await;
    }

    pub(crate) fn digest(&self) -> Digest {
        self.index.digest(self.stream.worker(), View::MAIN)
    }

    pub(crate) fn trust(&self) -> Trust {
        self.follower.trust()
    }
}

/// A batch that stores the block `name`, the first of a prompt of its own.
pub(crate) fn store(name: u64) -> Vec<u8> {
    long_store(name, 4)
}

/// The same with a block of so many tokens.
pub(crate) fn long_store(name: u64, tokens: u32) -> Vec<u8> {
    let mut out = Vec::new();
    write_array_len(&mut out, 3).unwrap();
    write_f64(&mut out, 1.0).unwrap();
    write_array_len(&mut out, 1).unwrap();
    write_array_len(&mut out, 7).unwrap();
    write_str(&mut out, "BlockStored").unwrap();
    write_array_len(&mut out, 1).unwrap();
    write_uint(&mut out, name + 1).unwrap();
    write_nil(&mut out).unwrap();
    write_array_len(&mut out, tokens).unwrap();
    (0..u64::from(tokens)).for_each(|at| _ = write_uint(&mut out, (name << 16) + at).unwrap());
    write_uint(&mut out, tokens.into()).unwrap();
    write_nil(&mut out).unwrap();
    write_str(&mut out, "GPU").unwrap();
    write_uint(&mut out, 0).unwrap();
    out
}
