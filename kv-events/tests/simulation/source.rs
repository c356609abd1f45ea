//! An engine with its sockets, and the links from them to whoever listens.

use std::time::Duration;

use kv_events::wire::frame;

use crate::engine::{Engine, Published};
use crate::plan::{RankPlan, Socket};
use crate::random::Random;

/// What reaches a listener of the live side.
#[derive(Clone, Debug)]
pub(crate) enum Live {
    Connected,
    Message(Vec<Vec<u8>>),
    Lagged,
    Disconnected,
}

/// What reaches whoever asked for a replay.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Message(Vec<Vec<u8>>),
    Complete,
    Incomplete,
}

/// A publisher and its replay socket.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) engine: Engine,
    pub(crate) socket: Socket,
    topic: bool,
    /// The process runs.
    pub(crate) alive: bool,
    pub(crate) link: Link,
}

/// The connection from the publisher to its listener: in order, but not without losses.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) up: bool,
    /// Counts connections.
    pub(crate) number: u64,
    /// What these and former connections had under way never arrives.
    pub(crate) lost: u64,
    drop_next: u8,
    lag_next: u8,
    duplicate_next: bool,
    swap_next: bool,
    /// A message that waits for the next one to overtake it.
    overtaken: Option<Vec<Vec<u8>>>,
    pub(crate) delay: Duration,
    /// When the last message arrives: none overtakes another.
    last_arrival: Duration,
}

impl Source {
    pub(crate) fn new(rank: u32, plan: &RankPlan) -> Self {
        let mut engine = Engine::new(rank, plan.clears_at_start, plan.window);
        engine.restart();
        Self { engine, socket: Socket::Complete, topic: plan.topic, alive: true, link: Link::default() }
    }

    /// Answers a question now; each answer with the time that it takes from there.
    pub(crate) fn answer(&self, from: u64, random: &mut Random) -> Vec<(Duration, Answer)> {
        if !self.alive || self.socket == Socket::Dead {
            return vec![(Duration::from_millis(1), Answer::Incomplete)];
        }
        let kept: Vec<&Published> = self.engine.kept.iter().filter(|batch| batch.sequence >= from).collect();
        let pace = if self.socket == Socket::Slow { 4000 } else { 2 };
        let mut at = Duration::ZERO;
        let mut answers = Vec::new();
        let (breaks_at, hole) = (random.index(kept.len() + 1), ROUTER_QUEUE + random.index(kept.len() + 1));
        let hole_end = hole + random.index(4);
        for (number, batch) in kept.iter().enumerate() {
            at += random.within_ms(pace);
            match self.socket {
                Socket::Silent => return Vec::new(),
                Socket::Breaks if number >= breaks_at => return end(answers, at, Answer::Incomplete),
                Socket::Drops if (hole..hole_end).contains(&number) => {}
                Socket::Misframed => answers.push((at, Answer::Message(vec![vec![1], batch.sequence.to_be_bytes().to_vec()]))),
                _ => answers.push((at, Answer::Message(self.frames(batch)))),
            }
        }
        match self.socket {
            Socket::Silent | Socket::Misframed => answers,
            Socket::Drops if random.once_in(2) => answers,
            _ => end(answers, at, Answer::Complete),
        }
    }

    fn frames(&self, batch: &Published) -> Vec<Vec<u8>> {
        let sequence = batch.sequence.to_be_bytes().to_vec();
        if self.topic {
            vec![vec![], b"kv".to_vec(), sequence, batch.payload.clone()]
        } else {
            vec![vec![], sequence, batch.payload.clone()]
        }
    }
}

impl Link {
    /// What of a published batch arrives, and when.
    pub(crate) fn carry(&mut self, now: Duration, batch: &Published, random: &mut Random) -> Vec<(Duration, Live)> {
        if !self.up {
            return Vec::new();
        }
        if self.drop_next > 0 {
            self.drop_next -= 1;
            return Vec::new();
        }
        if self.lag_next > 0 {
            self.lag_next -= 1;
            return vec![(self.arrival(now, random), Live::Lagged)];
        }
        let frames = message(batch.sequence, &batch.payload);
        if std::mem::take(&mut self.swap_next) {
            self.overtaken = Some(frames);
            return Vec::new();
        }
        let times = 1 + usize::from(std::mem::take(&mut self.duplicate_next));
        let sent = std::iter::repeat_n(frames, times).chain(self.overtaken.take());
        sent.map(|frames| (self.arrival(now, random), Live::Message(frames))).collect()
    }

    /// When something that is sent now arrives.
    pub(crate) fn arrival(&mut self, now: Duration, random: &mut Random) -> Duration {
        let at = now + self.delay + random.within_ms(5);
        self.last_arrival = self.last_arrival.max(at);
        self.last_arrival
    }

    pub(crate) fn drop_next(&mut self, batches: u8) {
        self.drop_next = batches;
    }

    pub(crate) fn lag_next(&mut self, batches: u8) {
        self.lag_next = batches;
    }

    pub(crate) fn duplicate_next(&mut self) {
        self.duplicate_next = true;
    }

    pub(crate) fn swap_next(&mut self) {
        self.swap_next = true;
    }

    /// Another connection. What waited to be overtaken was of the former one.
    pub(crate) fn open(&mut self) {
        (self.up, self.overtaken) = (true, None);
        self.number += 1;
    }

    /// No fault of it is left. What waited to be overtaken is lost.
    pub(crate) fn heal(&mut self) {
        (self.drop_next, self.lag_next, self.duplicate_next, self.delay) = (0, 0, false, Duration::ZERO);
        (self.swap_next, self.overtaken) = (false, None);
    }
}

/// The message of the live side that carries `payload` under `sequence`.
pub(crate) fn message(sequence: u64, payload: &[u8]) -> Vec<Vec<u8>> {
    vec![b"kv".to_vec(), sequence.to_be_bytes().to_vec(), payload.to_vec()]
}

/// A message that an answer holds, if it can be read.
pub(crate) fn read_answer(frames: &[Vec<u8>]) -> Option<frame::Message<'_>> {
    match frame::replayed_to_dealer(frames) {
        Ok(frame::ReplayAnswer::Batch(message)) => Some(message),
        _ => None,
    }
}

/// Answers that a publisher's socket queues before it drops any.
const ROUTER_QUEUE: usize = 3;

fn end(mut answers: Vec<(Duration, Answer)>, at: Duration, answer: Answer) -> Vec<(Duration, Answer)> {
    answers.push((at, answer));
    answers
}
