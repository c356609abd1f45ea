//! The ranks' subscriptions and replays, into the journal.

use std::time::Duration;

use kv_events::adapter::zmq::{Endpoint, Replay, ReplayEvent, ReplayOptions, Subscriber, SubscriberEvent, SubscriberOptions};
use kv_events::wire::frame::replay_request;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::journal::{Journal, Line, hex};
use super::{RecordError, RecordOptions};

/// All ranks of one engine.
#[derive(Debug)]
pub(super) struct Streams {
    ranks: Vec<Rank>,
    /// Reads the subscriptions; ends with this value.
    _readers: JoinSet<()>,
}

#[derive(Debug)]
struct Rank {
    endpoint: Endpoint,
    replay: Option<(u32, Replay)>,
    state: watch::Receiver<State>,
}

/// What a reader has seen last.
#[derive(Clone, Debug)]
struct State {
    connected: bool,
    cause: String,
    /// When the last message came.
    message: Instant,
}

impl Streams {
    /// Subscribes to every rank.
    pub(super) fn open(options: &RecordOptions, journal: &Journal) -> Result<Self, RecordError> {
        let host = options.engine.host_str().unwrap_or("127.0.0.1");
        let (events, replay) = (options.events.on_host(host), options.replay.as_ref().map(|replay| replay.on_host(host)));
        let (mut ranks, mut readers) = (Vec::new(), JoinSet::new());
        for rank in 0..options.ranks {
            let endpoint = events.for_rank(rank)?;
            let subscriber = SubscriberOptions { topic: options.topic.clone().into_bytes(), ..Default::default() };
            let subscriber = Subscriber::connect(endpoint.clone(), subscriber);
            let (seen, state) = watch::channel(State { connected: false, cause: String::new(), message: Instant::now() });
            readers.spawn(read(subscriber, port(&endpoint, rank), seen, journal.clone()));
            let replay = replay.as_ref().map(|base| base.for_rank(rank)).transpose()?;
            let replay = replay.map(|at| (port(&at, rank), Replay::new(at, ReplayOptions::default())));
            ranks.push(Rank { endpoint, replay, state });
        }
        Ok(Self { ranks, _readers: readers })
    }

    /// Waits until every rank's publisher has answered.
    pub(super) async fn connected(&mut self) -> Result<(), RecordError> {
        let deadline = Instant::now() + CONNECT_MAX;
        for rank in &mut self.ranks {
            let answered = tokio::time::timeout_at(deadline, rank.state.wait_for(|state| state.connected)).await.is_ok();
            if !answered {
                let cause = rank.state.borrow().cause.clone();
                return Err(RecordError::NoPublisher { endpoint: rank.endpoint.clone(), within_s: CONNECT_MAX.as_secs(), cause });
            }
        }
        Ok(())
    }

    /// Asks every rank for all that it still has.
    pub(super) async fn replay(&self, journal: &Journal) {
        for (port, replay) in self.ranks.iter().filter_map(|rank| rank.replay.as_ref()) {
            record_replay(replay, *port, journal).await;
        }
    }

    /// Waits until the last request's events have come: none for a while, on any rank.
    pub(super) async fn quiet(&self, journal: &Journal) {
        let began = journal.now();
        let newest = || self.ranks.iter().map(|rank| rank.state.borrow().message).max();
        let settled = async {
            while newest().is_some_and(|at| at.elapsed() < QUIET) {
                sleep(QUIET / 10).await;
            }
        };
        sleep(QUIET).await;
        if timeout(QUIET_MAX, settled).await.is_err() {
            eprintln!("events still arrive {:.1} s after the last request; the recording ends here", journal.now() - began);
        }
    }
}

async fn read(mut subscriber: Subscriber, port: u32, seen: watch::Sender<State>, journal: Journal) {
    loop {
        let (event, t) = (subscriber.next().await, journal.now());
        let line = match event {
            SubscriberEvent::Message(frames) => {
                seen.send_modify(|state| state.message = Instant::now());
                Line::Live { port, t, frames: hex(&frames) }
            }
            SubscriberEvent::Lagged { lost } => Line::Lagged { port, t, lost },
            SubscriberEvent::Connected => link(port, t, "connected", None, &seen),
            SubscriberEvent::Disconnected { cause } => link(port, t, "disconnected", Some(cause.to_string()), &seen),
            SubscriberEvent::Unreachable { cause, .. } => link(port, t, "unreachable", Some(cause.to_string()), &seen),
        };
        journal.add(line).await;
    }
}

fn link(port: u32, t: f64, state: &'static str, cause: Option<String>, seen: &watch::Sender<State>) -> Line {
    seen.send_modify(|seen| {
        seen.connected = cause.is_none();
        seen.cause = cause.clone().unwrap_or_default();
    });
    Line::Link { port, t, state, cause }
}

async fn record_replay(replay: &Replay, port: u32, journal: &Journal) {
    let (socket, frames) = ("dealer", replay_request(0).map(Into::into));
    journal.add(Line::ReplayRequest { socket, port, t: journal.now(), frames: hex(&frames) }).await;
    let mut answers = replay.request(0);
    loop {
        match answers.next().await {
            ReplayEvent::Message(frames) => {
                journal.add(Line::ReplayResponse { socket, port, t: journal.now(), frames: hex(&frames) }).await;
            }
            ReplayEvent::End(end) => {
                let end = if end.is_complete() { "complete".to_owned() } else { format!("{end:?}") };
                return journal.add(Line::ReplayEnd { port, t: journal.now(), end }).await;
            }
        }
    }
}

fn port(endpoint: &Endpoint, rank: u32) -> u32 {
    endpoint.port().map_or(rank, u32::from)
}

/// How long the publishers may take to answer: an engine that is up has them up.
const CONNECT_MAX: Duration = Duration::from_secs(15);

/// No event for so long means that the last request's have come: engines publish within a step of the answer.
const QUIET: Duration = Duration::from_secs(1);

/// How long to wait for that, where others use the engine too.
const QUIET_MAX: Duration = Duration::from_secs(10);
