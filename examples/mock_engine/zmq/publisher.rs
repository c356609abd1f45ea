//! Sends batches under rising sequence numbers, and breaks that on request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zeromq::{PubSocket, RouterSocket, Socket, SocketSend, ZmqMessage};

use super::buffer::ReplayBuffer;
use super::replay;
use crate::mock_engine::config::MockConfig;
use crate::mock_engine::error::MockError;
use crate::mock_engine::events::Dialect;
use crate::mock_engine::listen::listen_in_a_row;

/// A running publisher: its address, and the way to hand it batches.
#[derive(Debug)]
pub(crate) struct Publisher {
    orders: mpsc::UnboundedSender<Order>,
    state: Arc<Mutex<StreamState>>,
    events_endpoint: String,
    replay_endpoint: String,
    topic: String,
}

/// Where a stream stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct StreamState {
    /// Sequence number of the next batch.
    pub(crate) next_sequence: u64,
    /// How often the publisher was restarted.
    pub(crate) generation: u64,
    /// Batches still to be lost.
    pub(crate) drop_batches: u64,
    /// Batches still to go out empty.
    pub(crate) hollow_batches: u64,
    /// Time that every batch is held back.
    pub(crate) delay_ms: u64,
}

/// What can be broken about a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StreamFault {
    /// The next batches are lost on the wire and stay in the replay buffer.
    Drop(u64),
    /// The next batches go out without their events, under their numbers, and are whole in the replay buffer: nobody on the wire can tell.
    Hollow(u64),
    /// Every batch goes out this much later; its timestamp stays.
    Delay(Duration),
    /// Sequence numbers start over and the replay buffer is empty, as after a crash of the publisher alone: the cache
    /// stays. The sockets stay open, so that nothing but the sequence gives it away.
    Restart,
}

enum Order {
    Publish { payload: Bytes, created: Instant },
    Fault(StreamFault, oneshot::Sender<()>),
}

impl Publisher {
    /// Opens the sockets of all ranks of engine `engine`.
    pub(crate) async fn open_all(
        config: &MockConfig,
        engine: usize,
        http_address: &str,
        stop: &CancellationToken,
    ) -> Result<Vec<Self>, MockError> {
        let (events_port, replay_port) = ports(config, engine);
        let events = listen_in_a_row("events", config.host, events_port, config.ranks)?;
        let replays = listen_in_a_row("replay", config.host, replay_port, config.ranks)?;
        let topic = topic(config, http_address);
        let mut publishers = Vec::new();
        for (events, replay) in events.into_iter().zip(replays) {
            publishers.push(Self::open(config, topic.clone(), events, replay, stop).await?);
        }
        Ok(publishers)
    }

    async fn open(
        config: &MockConfig,
        topic: String,
        events: std::net::TcpListener,
        replay: std::net::TcpListener,
        stop: &CancellationToken,
    ) -> Result<Self, MockError> {
        let (socket, events_endpoint) = adopt::<PubSocket>("events", events).await?;
        let (router, replay_endpoint) = adopt::<RouterSocket>("replay", replay).await?;
        let (orders, inbox) = mpsc::unbounded_channel();
        let buffer = Arc::new(Mutex::new(ReplayBuffer::new(config.replay_batches)));
        let state = Arc::new(Mutex::new(StreamState::default()));
        let frame = Bytes::from(topic.clone());
        tokio::spawn(replay::serve(router, Arc::clone(&buffer), config.replay_layout, frame.clone(), stop.clone()));
        let worker = Worker { socket, topic: frame, buffer, state: Arc::clone(&state), delay: Duration::ZERO };
        tokio::spawn(worker.run(inbox, stop.clone()));
        Ok(Self { orders, state, events_endpoint, replay_endpoint, topic })
    }

    /// Sends a batch that was made now. Never blocks; lost without a trace once the fleet stops.
    pub(crate) fn publish(&self, payload: Vec<u8>) {
        let order = Order::Publish { payload: payload.into(), created: Instant::now() };
        let _ = self.orders.send(order);
    }

    /// Breaks the stream behind the batches handed over so far, and returns once it is broken.
    pub(crate) async fn inject(&self, fault: StreamFault) {
        let (done, applied) = oneshot::channel();
        if self.orders.send(Order::Fault(fault, done)).is_ok() {
            let _ = applied.await;
        }
    }

    pub(crate) fn state(&self) -> StreamState {
        *self.state.lock()
    }

    pub(crate) fn events_endpoint(&self) -> &str {
        &self.events_endpoint
    }

    pub(crate) fn replay_endpoint(&self) -> &str {
        &self.replay_endpoint
    }

    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }
}

struct Worker {
    socket: PubSocket,
    topic: Bytes,
    buffer: Arc<Mutex<ReplayBuffer>>,
    state: Arc<Mutex<StreamState>>,
    delay: Duration,
}

impl Worker {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Order>, stop: CancellationToken) {
        let work = async {
            while let Some(order) = inbox.recv().await {
                self.carry_out(order).await;
            }
        };
        stop.run_until_cancelled(work).await;
        self.socket.unbind_all().await;
    }

    async fn carry_out(&mut self, order: Order) {
        match order {
            Order::Publish { payload, created } => {
                if !self.delay.is_zero() {
                    tokio::time::sleep_until(created + self.delay).await;
                }
                self.publish(payload).await;
            }
            Order::Fault(fault, done) => {
                self.apply(fault);
                let _ = done.send(());
            }
        }
    }

    async fn publish(&mut self, payload: Bytes) {
        let (sequence, lost, hollow) = {
            let mut state = self.state.lock();
            let lost = state.drop_batches > 0;
            state.drop_batches -= u64::from(lost);
            let hollow = !lost && state.hollow_batches > 0;
            state.hollow_batches -= u64::from(hollow);
            state.next_sequence += 1;
            (state.next_sequence - 1, lost, hollow)
        };
        self.buffer.lock().push(sequence, payload.clone());
        if !lost {
            let mut message = ZmqMessage::from(self.topic.clone());
            message.push_back(Bytes::copy_from_slice(&sequence.to_be_bytes()));
            message.push_back(if hollow { without_events(&payload) } else { payload });
            // A PUB socket reports nothing that a publisher could act on: without a subscriber the batch is lost.
            let _ = self.socket.send(message).await;
        }
    }

    fn apply(&mut self, fault: StreamFault) {
        let mut state = self.state.lock();
        match fault {
            StreamFault::Drop(batches) => state.drop_batches = batches,
            StreamFault::Hollow(batches) => state.hollow_batches = batches,
            StreamFault::Delay(delay) => {
                self.delay = delay;
                state.delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            }
            StreamFault::Restart => {
                self.buffer.lock().clear();
                state.next_sequence = 0;
                state.generation += 1;
            }
        }
    }
}

/// The batch `[time, events, rank]` with its time and no events.
fn without_events(payload: &[u8]) -> Bytes {
    let (head_and_time, no_events_and_no_rank) = (payload.iter().take(10), [0x90, 0xc0]);
    head_and_time.copied().chain(no_events_and_no_rank).collect()
}

async fn adopt<S: Socket>(purpose: &'static str, listener: std::net::TcpListener) -> Result<(S, String), MockError> {
    let mut socket = S::new();
    let endpoint = socket.bind_listener(listener).await.map_err(|source| MockError::Zmq { purpose, source })?;
    Ok((socket, endpoint.to_string()))
}

/// Two ports a rank: all event streams of an engine, then all its replay sockets, so that each kind is `base + rank`.
fn ports(config: &MockConfig, engine: usize) -> (u16, u16) {
    if config.events_port == 0 {
        return (0, 0);
    }
    let port = |offset: usize| config.events_port + u16::try_from(offset).expect("the config's ports were checked");
    let events = 2 * engine * config.ranks;
    (port(events), port(events + config.ranks))
}

fn topic(config: &MockConfig, http_address: &str) -> String {
    match (&config.topic, config.dialect) {
        (Some(topic), _) => topic.clone(),
        (None, Dialect::Vllm) => format!("kv@{http_address}@{}", config.model),
        (None, Dialect::Sglang) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_one_kind_follow_each_other() {
        let config = MockConfig { events_port: 5_000, ranks: 2, ..MockConfig::default() };
        assert_eq!((ports(&config, 0), ports(&config, 1)), ((5_000, 5_002), (5_004, 5_006)));
        let config = MockConfig { events_port: 5_000, ..MockConfig::default() };
        assert_eq!((ports(&config, 0), ports(&config, 1)), ((5_000, 5_001), (5_002, 5_003)));
    }

    #[tokio::test]
    async fn a_subscriber_that_does_not_read_holds_nobody_up() {
        let stop = CancellationToken::new();
        let publishers = Publisher::open_all(&MockConfig::default(), 0, "host:1", &stop).await.unwrap();
        let mut subscriber = zeromq::SubSocket::new();
        subscriber.connect(publishers[0].events_endpoint()).await.unwrap();
        subscriber.subscribe("").await.unwrap();
        // 64 MB: more than the socket buffers of both ends take.
        for _ in 0..1_000 {
            publishers[0].publish(vec![0; 1 << 16]);
        }
        let all_sent = async {
            while publishers[0].state().next_sequence < 1_000 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), all_sent).await.expect("the publisher goes on");
        stop.cancel();
    }
}
