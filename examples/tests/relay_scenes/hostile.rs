//! An engine's side that is no engine, through real sockets: bounded, counted, and no other rank's loss.

use std::time::Duration;

use kv_events::adapter::hub::Hub;
use kv_events::adapter::zmq::{Intake, IntakeOptions, IntakeStatus, SubscriberOptions};
use kv_events::limits::PAYLOAD_BYTES_MAX;
use kv_events::relay::{Options, RankStatus};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zeromq::{PubSocket, Socket, SocketSend, ZmqMessage};

use crate::site::free_ports;

/// A relay of two ranks, without replay sockets, and their publishers.
struct Scene {
    publishers: [PubSocket; 2],
    hub: Hub,
    statuses: Vec<watch::Receiver<IntakeStatus>>,
    _tasks: JoinSet<()>,
}

impl Scene {
    async fn start() -> Self {
        let base = free_ports(2);
        let mut publishers = [PubSocket::new(), PubSocket::new()];
        for (rank, publisher) in (0..).zip(&mut publishers) {
            publisher.bind(&format!("tcp://127.0.0.1:{}", base + rank)).await.unwrap();
        }
        let (hub, _) = Hub::spawn(7, Options { ranks: 2, replays: false, ..Options::default() });
        let options = IntakeOptions {
            events: format!("tcp://127.0.0.1:{base}").parse().unwrap(),
            replay: None,
            bind: false,
            subscriber: SubscriberOptions::default(),
        };
        let (mut tasks, mut statuses) = (JoinSet::new(), Vec::new());
        for rank in 0..2 {
            let intake = Intake::open(hub.clone(), rank, &options).await.unwrap();
            statuses.push(intake.status());
            tasks.spawn(intake.run());
        }
        let mut scene = Self { publishers, hub, statuses, _tasks: tasks };
        // A PUB socket does not say when a subscription has arrived.
        for rank in 0..2 {
            let heard = timeout(Duration::from_secs(10), async {
                while scene.status(rank).await.last.is_none() {
                    scene.send(rank, &[b"", &0_u64.to_be_bytes(), b"\x92\x01\x90"]).await;
                    sleep(Duration::from_millis(10)).await;
                }
            });
            heard.await.expect("the subscription arrives");
        }
        scene
    }

    async fn send(&mut self, rank: usize, frames: &[&[u8]]) {
        let frames: Vec<_> = frames.iter().map(|frame| bytes::Bytes::copy_from_slice(frame)).collect();
        self.publishers[rank].send(ZmqMessage::try_from(frames).unwrap()).await.unwrap();
    }

    async fn status(&self, rank: usize) -> RankStatus {
        self.hub.status().await.unwrap().0[rank].clone()
    }

    /// Waits until `rank` has taken in batch `sequence`.
    async fn hears(&self, rank: usize, sequence: u64) {
        let heard = timeout(Duration::from_secs(20), async {
            while self.status(rank).await.last != Some(sequence) {
                sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(heard.await.is_ok(), "rank {rank}: {:?}, {:?}", self.status(rank).await, *self.statuses[rank].borrow());
    }
}

const EMPTY: &[u8] = b"\x92\x01\x90";

/// P45, P19: messages that are none are counted, and the stream goes on behind them.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_none_are_counted_and_cost_nothing_else() {
    let mut scene = Scene::start().await;
    let long = [0_u8; 300];
    let bad: [&[&[u8]]; 5] = [
        &[b"alone"],
        &[b"t", b"short", EMPTY],
        &[b"t", &long, EMPTY],
        &[b"t", &[0; 8], EMPTY, b"more"],
        &[b"t", b"", b"", b"", b""],
    ];
    for frames in bad {
        scene.send(0, frames).await;
    }
    scene.send(0, &[b"t", &1_u64.to_be_bytes(), EMPTY]).await;
    scene.hears(0, 1).await;
    let status = scene.statuses[0].borrow().clone();
    assert_eq!((status.misframed, status.connected, status.connections), (5, true, 1), "{status:?}");
    assert_eq!(scene.status(0).await.lost, 0);
}

/// The end marker's number as a live one, a number far beyond, an undecodable payload.
#[tokio::test(flavor = "multi_thread")]
async fn absurd_numbers_and_payloads_are_counted_and_the_stream_goes_on() {
    let mut scene = Scene::start().await;
    scene.send(0, &[b"t", &u64::MAX.to_be_bytes(), EMPTY]).await;
    scene.send(0, &[b"t", &1_u64.to_be_bytes(), b"\xc1\xc1 no msgpack"]).await;
    scene.send(0, &[b"t", &2_u64.to_be_bytes(), EMPTY]).await;
    scene.hears(0, 2).await;
    let status = scene.status(0).await;
    assert_eq!((status.counts.unreadable, status.live_counts.losses.total()), (1, 1), "{status:?}");
    scene.send(0, &[b"t", &(u64::MAX - 1).to_be_bytes(), EMPTY]).await;
    scene.hears(0, u64::MAX - 1).await;
    let status = scene.status(0).await;
    assert!(status.history_batches <= Options::default().history_batches, "no room is made for what is missing: {status:?}");
}

/// A flood on one rank, of messages as large as any, holds up no other and is bounded.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_rank_holds_up_no_other() {
    let mut scene = Scene::start().await;
    let payload = vec![0xc1; 4 << 20];
    for sequence in 1..60_u64 {
        scene.send(0, &[b"t", &sequence.to_be_bytes(), &payload]).await;
        scene.send(1, &[b"t", &sequence.to_be_bytes(), EMPTY]).await;
    }
    scene.hears(1, 59).await;
    assert_eq!((scene.status(1).await.lost, scene.status(1).await.counts.gaps), (0, 0));
    scene.hears(0, 59).await;
    let status = scene.status(0).await;
    assert!(status.history_bytes <= Options::default().history_bytes, "{}", status.history_bytes);
}

/// A message beyond every bound ends its connection, which is made again; the other rank does not notice.
#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_message_costs_its_own_connection() {
    let mut scene = Scene::start().await;
    let huge = vec![0; PAYLOAD_BYTES_MAX + 8192];
    scene.send(0, &[b"t", &1_u64.to_be_bytes(), &huge]).await;
    let reconnected = timeout(Duration::from_secs(20), async {
        while scene.statuses[0].borrow().connections < 2 {
            sleep(Duration::from_millis(10)).await;
        }
    });
    reconnected.await.expect("it connects again");
    scene.send(1, &[b"t", &1_u64.to_be_bytes(), EMPTY]).await;
    scene.hears(1, 1).await;
    assert_eq!(scene.statuses[1].borrow().connections, 1);
    // The number that the connection took with it is a gap.
    let goes_on = timeout(Duration::from_secs(10), async {
        while scene.status(0).await.last != Some(2) {
            scene.send(0, &[b"t", &2_u64.to_be_bytes(), EMPTY]).await;
            sleep(Duration::from_millis(20)).await;
        }
    });
    goes_on.await.expect("the stream goes on");
    assert_eq!(scene.status(0).await.counts.lost, 1);
}
