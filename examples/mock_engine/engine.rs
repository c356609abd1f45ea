//! One engine: its ranks, and what the HTTP side shares with them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::config::MockConfig;
use super::engine_core::{Command, EngineCore, Links};
use super::error::MockError;
use super::events::StreamFormat;
use super::load::Load;
use super::log::RequestLog;
use super::mirror::CacheMirror;
use super::scheduler::Scheduler;
use super::sequence::Prompt;
use super::zmq::{Publisher, StreamState};

/// A running engine of a fleet.
#[derive(Debug)]
pub struct MockEngine {
    index: usize,
    address: SocketAddr,
    http_url: String,
    pub(super) ranks: Vec<Rank>,
    pub(super) http_faults: Mutex<HttpFaults>,
    next_rank: AtomicUsize,
}

/// One data-parallel rank.
#[derive(Debug)]
pub(super) struct Rank {
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) publisher: Arc<Publisher>,
    pub(super) mirror: Arc<CacheMirror>,
    load: Arc<Mutex<Load>>,
}

/// What is broken about an engine's HTTP side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct HttpFaults {
    /// Generations are answered with this status.
    pub(super) fail_status: Option<u16>,
    /// Streams break off after this many tokens.
    pub(super) fail_after_tokens: Option<usize>,
    /// Requests are held back this long before the scheduler sees them.
    pub(super) admit_delay_ms: u64,
    /// Questions for the load are answered with this status.
    pub(super) load_status: Option<u16>,
    /// They are answered with what no load can be.
    pub(super) load_garbled: bool,
}

/// Where the faults of an engine stand.
#[derive(Debug, Serialize)]
pub(super) struct FaultReport {
    pub(super) worker: usize,
    pub(super) http: HttpFaults,
    pub(super) streams: Vec<StreamState>,
}

impl MockEngine {
    /// Position in the fleet, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Base of the HTTP endpoints, without a slash at the end.
    pub fn http_url(&self) -> &str {
        &self.http_url
    }

    /// Event stream of rank 0, a `tcp://` endpoint to connect a SUB socket to.
    pub fn events_endpoint(&self) -> &str {
        self.ranks[0].publisher.events_endpoint()
    }

    /// Replay socket of rank 0, a `tcp://` endpoint to connect a DEALER socket to.
    pub fn replay_endpoint(&self) -> &str {
        self.ranks[0].publisher.replay_endpoint()
    }

    /// `(events, replay)` of every rank; ports rise by one from rank to rank.
    pub fn rank_endpoints(&self) -> Vec<(&str, &str)> {
        self.ranks.iter().map(|rank| (rank.publisher.events_endpoint(), rank.publisher.replay_endpoint())).collect()
    }

    /// The load of every rank.
    pub fn loads(&self) -> Vec<Load> {
        self.ranks.iter().map(|rank| *rank.load.lock()).collect()
    }

    /// How many of `tokens` each rank would serve from its cache if they came as a prompt now.
    pub(super) async fn truth(&self, tokens: &[u32], block_size: usize) -> Vec<usize> {
        let mut served = Vec::with_capacity(self.ranks.len());
        for rank in &self.ranks {
            served.push(rank.truth(Prompt::new(tokens.to_vec(), block_size)).await);
        }
        served
    }

    pub(super) async fn start(
        config: &MockConfig,
        index: usize,
        address: SocketAddr,
        log: &Arc<RequestLog>,
        stop: &CancellationToken,
    ) -> Result<Self, MockError> {
        let publishers = Publisher::open_all(config, index, &address.to_string(), stop).await?;
        let ranks = publishers.into_iter().enumerate().map(|(rank, publisher)| {
            let place = Place { worker: index, rank };
            Rank::start(config, place, publisher, Arc::clone(log), stop.clone())
        });
        Ok(Self {
            index,
            address,
            http_url: format!("http://{address}"),
            ranks: ranks.collect(),
            http_faults: Mutex::default(),
            next_rank: AtomicUsize::new(0),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The rank that was asked for, or the next one in turn.
    pub(super) fn choose_rank(&self, asked: Option<usize>) -> usize {
        asked.unwrap_or_else(|| self.next_rank.fetch_add(1, Ordering::Relaxed) % self.ranks.len())
    }

    /// The longest prefix in blocks that any rank's cache held at the end of its last pass.
    pub(super) fn best_match(&self, names: &[u64]) -> usize {
        self.ranks.iter().map(|rank| rank.mirror.matched(names)).max().unwrap_or(0)
    }

    /// Sends every rank a command and waits until each has carried it out.
    pub(super) async fn command_all(&self, command: impl Fn(oneshot::Sender<()>) -> Command) {
        for rank in &self.ranks {
            let (done, carried_out) = oneshot::channel();
            if rank.commands.send(command(done)).is_ok() {
                let _ = carried_out.await;
            }
        }
    }

    pub(super) fn fault_report(&self) -> FaultReport {
        let streams = self.ranks.iter().map(|rank| rank.publisher.state()).collect();
        FaultReport { worker: self.index, http: *self.http_faults.lock(), streams }
    }

    /// The event sources by rank, as vLLM lists them.
    pub(super) fn event_sources(&self, replay_batches: usize) -> BTreeMap<usize, EventSource<'_>> {
        let sources = self.ranks.iter().map(|rank| EventSource::of(&rank.publisher, replay_batches));
        sources.enumerate().collect()
    }
}

impl Rank {
    fn start(config: &MockConfig, place: Place, publisher: Publisher, log: Arc<RequestLog>, stop: CancellationToken) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let publisher = Arc::new(publisher);
        let mirror = Arc::new(CacheMirror::default());
        let capacity_tokens = config.kv_blocks.saturating_mul(config.block_size);
        let load = Arc::new(Mutex::new(Load { capacity_tokens, ..Load::default() }));
        let links = Links {
            worker: place.worker,
            rank: place.rank,
            format: StreamFormat {
                dialect: config.dialect,
                rank: u32::try_from(place.rank).expect("the config's ranks were checked"),
                block_size: config.block_size,
            },
            publisher: Arc::clone(&publisher),
            mirror: Arc::clone(&mirror),
            load: Arc::clone(&load),
            log,
        };
        let core = EngineCore::new(Scheduler::new(config.scheduler()), config.timing.clone(), links, inbox);
        tokio::spawn(core.run(stop));
        Self { commands, publisher, mirror, load }
    }

    async fn truth(&self, prompt: Prompt) -> usize {
        let (answer, served) = oneshot::channel();
        if self.commands.send(Command::Truth(prompt, answer)).is_err() {
            return 0;
        }
        served.await.unwrap_or(0)
    }
}

#[derive(Clone, Copy)]
struct Place {
    worker: usize,
    rank: usize,
}

/// One entry of vLLM's `/kv_event_sources`.
#[derive(Debug, Serialize)]
pub(super) struct EventSource<'a> {
    publisher: &'static str,
    endpoint: &'a str,
    replay_endpoint: &'a str,
    topic: &'a str,
    buffer_steps: usize,
    hwm: usize,
    max_queue_size: usize,
}

impl<'a> EventSource<'a> {
    fn of(publisher: &'a Publisher, buffer_steps: usize) -> Self {
        Self {
            publisher: "zmq",
            endpoint: publisher.events_endpoint(),
            replay_endpoint: publisher.replay_endpoint(),
            topic: publisher.topic(),
            buffer_steps,
            hwm: PUBLISHER_QUEUE,
            max_queue_size: PUBLISHER_QUEUE,
        }
    }
}

/// What vLLM reports by default; the `zeromq` crate queues as many for each subscriber.
const PUBLISHER_QUEUE: usize = 100_000;
