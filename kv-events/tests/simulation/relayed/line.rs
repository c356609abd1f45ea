//! A relay's process, and the connection from it to one reader: in order and without losses, until it breaks.

use std::collections::VecDeque;
use std::time::Duration;

use kv_events::relay::{Code, Options, Relay};

use crate::gateway::Update;
use crate::random::Random;

/// A relay as it runs somewhere.
#[derive(Debug)]
pub(super) struct Sidecar {
    pub(super) relay: Relay,
    /// It takes no reader before.
    up_at: Duration,
}

/// What is under way to a reader.
#[derive(Debug, Default)]
pub(super) struct Line {
    queue: VecDeque<(Duration, Sent)>,
    pub(super) delay: Duration,
    /// The reader takes nothing before.
    stalled_until: Duration,
    /// No connection can be had before.
    pub(super) down_until: Duration,
    /// When the last message arrives: none overtakes another.
    last_arrival: Duration,
}

/// What a relay sends.
#[derive(Debug)]
pub(super) enum Sent {
    /// The subscription is accepted.
    Accepted,
    /// It is not.
    Refused(Code),
    Update(Box<Update>),
    /// Nothing more.
    Ended(Code),
}

impl Sidecar {
    /// Lives of two relays never share a name: the moment of its start is as good as a random number.
    pub(super) fn new(now: Duration, options: Options, up_at: Duration) -> Self {
        let watcher = u64::try_from(now.as_nanos()).expect("a run is short");
        Self { relay: Relay::new(now, watcher, options), up_at }
    }

    pub(super) fn is_up(&self, now: Duration) -> bool {
        self.up_at <= now
    }
}

impl Line {
    /// Whether the relay may send another message: HTTP/2 takes a few.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < UNDER_WAY_MAX
    }

    pub(super) fn send(&mut self, now: Duration, sent: Sent, random: &mut Random) {
        self.last_arrival = self.last_arrival.max(now + self.delay + random.within_ms(5));
        self.queue.push_back((self.last_arrival, sent));
    }

    /// What the reader takes next.
    pub(super) fn take(&mut self, now: Duration) -> Option<Sent> {
        self.next_arrival().filter(|at| *at <= now)?;
        self.queue.pop_front().map(|sent| sent.1)
    }

    pub(super) fn next_arrival(&self) -> Option<Duration> {
        self.queue.front().map(|sent| sent.0.max(self.stalled_until))
    }

    /// What is under way never arrives.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }

    pub(super) fn stall(&mut self, until: Duration) {
        self.stalled_until = self.stalled_until.max(until);
    }

    pub(super) fn heal(&mut self) {
        (self.delay, self.stalled_until, self.down_until) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    }
}

/// As many as the adapter queues.
const UNDER_WAY_MAX: usize = 4;
