//! What a gateway has of one rank: the follower that decides, and the stream that applies.

use std::time::Duration;

use kv_events::admission::{Change, FollowerCounts, Request, Step};
use kv_events::wire::frame;
use kv_events::{Delivery, Follower, ReplayOutcome, Source, Stream, StreamOptions, Trust};
use kv_index::{BlockName, Digest, Index, View};

use crate::source::{Answer, Live, read_answer};

/// One rank, followed into an index.
#[derive(Debug)]
pub(crate) struct Gateway<I: Index> {
    follower: Follower,
    stream: Stream<I::Worker>,
    /// What the latest step said of the index.
    pub(crate) trust: Trust,
    /// The batch that was applied last, by its number over all lives.
    pub(crate) last: Option<u32>,
    /// Live batches that came, the latest of them.
    pub(crate) heard: Option<u32>,
    /// How far its clock is ahead of the world's.
    pub(crate) ahead: Duration,
    pub(crate) applied: u64,
}

impl<I: Index> Gateway<I> {
    pub(crate) fn new(index: &I, replays: bool, watcher: u64) -> Self {
        let source = if replays { Source::EngineWithReplay } else { Source::Engine };
        let stream = Stream::new(index.add_worker().expect("few workers"), StreamOptions::default());
        let follower = Follower::new(source, watcher);
        Self { follower, stream, trust: Trust::Unheard, last: None, heard: None, ahead: Duration::ZERO, applied: 0 }
    }

    pub(crate) fn live(&mut self, now: Duration, live: &Live) -> Option<Request> {
        let now = now + self.ahead;
        match live {
            Live::Connected => self.follower.handle_connected(now),
            Live::Disconnected => self.follower.handle_disconnected(now),
            Live::Lagged => self.follower.handle_lagged(now),
            Live::Message(frames) => {
                if let Ok(message) = frame::live(frames) {
                    let delivery = Delivery::decode(&message);
                    self.heard = number_of(delivery.batch.timestamp_s).or(self.heard);
                    self.follower.handle_live(now, delivery);
                }
            }
        }
        self.pump(now)
    }

    pub(crate) fn answer(&mut self, now: Duration, session: u64, answer: &Answer) -> Option<Request> {
        let now = now + self.ahead;
        match answer {
            Answer::Message(frames) => {
                if let Some(message) = read_answer(frames) {
                    self.follower.handle_replayed(now, session, Delivery::decode(&message));
                }
            }
            Answer::Complete => self.follower.handle_replay_end(now, session, ReplayOutcome::Complete),
            Answer::Incomplete => self.follower.handle_replay_end(now, session, ReplayOutcome::Incomplete),
        }
        self.pump(now)
    }

    /// When it wants to be woken, by the world's clock.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        Some(self.follower.next_timeout()?.saturating_sub(self.ahead))
    }

    pub(crate) fn timeout(&mut self, now: Duration) -> Option<Request> {
        let now = now + self.ahead;
        self.follower.handle_timeout(now);
        self.pump(now)
    }

    /// The index loses the stream, and gives it an empty one.
    pub(crate) fn fail(&mut self, now: Duration, index: &I) -> Option<Request> {
        let now = now + self.ahead;
        self.stream = Stream::new(index.add_worker().expect("few workers"), StreamOptions::default());
        self.last = None;
        self.follower.handle_failed(now);
        self.pump(now)
    }

    pub(crate) fn digest(&self, index: &I) -> Digest {
        index.digest(self.stream.worker(), View::MAIN)
    }

    /// The names that the index holds of it.
    pub(crate) fn names(&self, index: &I) -> Vec<BlockName> {
        let mut names = Vec::new();
        index.for_each_holding(self.stream.worker(), &mut |holding| names.push(holding.name));
        names
    }

    pub(crate) fn counts(&self) -> &FollowerCounts {
        self.follower.counts()
    }

    /// Makes all changes, tells what they found, and returns what is asked for.
    fn pump(&mut self, now: Duration) -> Option<Request> {
        loop {
            while let Some(step) = self.follower.poll_step() {
                self.step(step);
            }
            self.follower.handle_findings(now, self.stream.findings());
            let Some(step) = self.follower.poll_step() else { break };
            self.step(step);
        }
        self.follower.poll_request()
    }

    fn step(&mut self, step: Step) {
        match step.change {
            Change::Apply { batch, .. } => {
                self.stream.apply(&batch);
                self.last = number_of(batch.timestamp_s).or(self.last);
                self.applied += 1;
            }
            Change::Clear => {
                self.stream.clear();
                self.last = None;
            }
            Change::Restart => {
                self.stream.restart();
                self.last = None;
            }
            Change::Nothing => {}
        }
        self.trust = step.trust;
    }
}

/// Batches are known again by the time of their publication, which is a number from 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "engines publish whole numbers from 1 to 2^32")]
fn number_of(timestamp_s: f64) -> Option<u32> {
    (timestamp_s >= 1.0).then_some(timestamp_s as u32)
}
