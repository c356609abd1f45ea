//! What a gateway has of one rank: the follower that decides, and the stream that applies.

use std::time::Duration;

use kv_events::admission::{Change, FollowerCounts, Request, SnapshotPart, Step};
use kv_events::wire::frame;
use kv_events::{Batch, Delivery, Follower, Incarnation, Position, ReplayOutcome, Source, Stream, StreamOptions, Trust};
use kv_index::{BlockName, Digest, Index, View};

use crate::engine::Engine;
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
    /// Of the live batches that came, the one that was published last.
    pub(crate) heard: Option<u32>,
    /// The one that came last: another one only if one has overtaken it.
    pub(crate) heard_last: Option<u32>,
    /// How far its clock is ahead of the world's.
    pub(crate) ahead: Duration,
    /// It has changed since this was last asked.
    changed: bool,
}

/// What a relay says, and whether it doubts that its publisher is still the same.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) doubted: bool,
    pub(crate) news: News,
}

/// What it says of the rank's blocks.
#[derive(Debug)]
pub(crate) enum News {
    Batch { incarnation: Incarnation, sequence: u64, batch: Batch },
    Part(SnapshotPart),
    Heartbeat { incarnation: Incarnation, sequence: u64, vouched: bool },
}

impl<I: Index> Gateway<I> {
    pub(crate) fn new(index: &I, source: Source, watcher: u64) -> Self {
        let stream = Stream::new(index.add_worker().expect("few workers"), StreamOptions::default());
        let follower = Follower::new(source, watcher);
        let (trust, ahead) = (Trust::Unheard, Duration::ZERO);
        Self { follower, stream, trust, last: None, heard: None, heard_last: None, ahead, changed: true }
    }

    pub(crate) fn live(&mut self, now: Duration, live: &Live) -> Option<Request> {
        match live {
            Live::Connected => return self.connected(now),
            Live::Disconnected => return self.disconnected(now),
            Live::Lagged => self.follower.handle_lagged(now + self.ahead),
            Live::Message(frames) => {
                if let Ok(message) = frame::live(frames) {
                    let delivery = Delivery::decode(&message);
                    let number = number_of(delivery.batch.timestamp_s);
                    (self.heard, self.heard_last) = (self.heard.max(number), number.or(self.heard_last));
                    self.follower.handle_live(now + self.ahead, delivery);
                }
            }
        }
        self.pump(now)
    }

    pub(crate) fn connected(&mut self, now: Duration) -> Option<Request> {
        self.follower.handle_connected(now + self.ahead);
        self.pump(now)
    }

    pub(crate) fn disconnected(&mut self, now: Duration) -> Option<Request> {
        self.follower.handle_disconnected(now + self.ahead);
        self.pump(now)
    }

    pub(crate) fn rejected(&mut self, now: Duration) -> Option<Request> {
        self.follower.handle_rejected(now + self.ahead);
        self.pump(now)
    }

    /// Takes in what a relay says, as the adapter does.
    pub(crate) fn relayed(&mut self, now: Duration, update: Update) -> Option<Request> {
        let moment = now + self.ahead;
        self.follower.handle_doubt(moment, update.doubted);
        match update.news {
            News::Batch { incarnation, sequence, batch } => {
                let incarnation = Some(incarnation);
                self.follower.handle_live(moment, Delivery { sequence, incarnation, fingerprint: None, bytes: 0, batch });
            }
            News::Part(part) => self.follower.handle_snapshot(moment, part),
            News::Heartbeat { incarnation, sequence, vouched } => {
                self.follower.handle_heartbeat(moment, incarnation, sequence, vouched);
            }
        }
        self.pump(now)
    }

    pub(crate) fn answer(&mut self, now: Duration, session: u64, answer: &Answer) -> Option<Request> {
        let moment = now + self.ahead;
        match answer {
            Answer::Message(frames) => {
                if let Some(message) = read_answer(frames) {
                    self.follower.handle_replayed(moment, session, Delivery::decode(&message));
                }
            }
            Answer::Complete => self.follower.handle_replay_end(moment, session, ReplayOutcome::Complete),
            Answer::Incomplete => self.follower.handle_replay_end(moment, session, ReplayOutcome::Incomplete),
        }
        self.pump(now)
    }

    /// When it wants to be woken, by the world's clock.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        Some(self.follower.next_timeout()?.saturating_sub(self.ahead))
    }

    pub(crate) fn timeout(&mut self, now: Duration) -> Option<Request> {
        self.follower.handle_timeout(now + self.ahead);
        self.pump(now)
    }

    /// Its clock jumps. Who waits for a time of day looks at the clock now and then.
    pub(crate) fn jump(&mut self, now: Duration, ahead: Duration) -> Option<Request> {
        self.ahead = ahead;
        self.timeout(now)
    }

    /// The index loses the stream, and gives it an empty one.
    pub(crate) fn fail(&mut self, now: Duration, index: &I) -> Option<Request> {
        self.stream = Stream::new(index.add_worker().expect("few workers"), StreamOptions::default());
        self.last = None;
        self.follower.handle_failed(now + self.ahead);
        self.pump(now)
    }

    pub(crate) fn digest(&self, index: &I) -> Digest {
        index.digest(self.stream.worker(), View::MAIN)
    }

    pub(crate) fn position(&self) -> Option<Position> {
        self.follower.position()
    }

    pub(crate) fn counts(&self) -> &FollowerCounts {
        self.follower.counts()
    }

    /// Whether anything has changed since this was asked last.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// What must hold at every moment: what is called exact is what the engine held after the batch that was applied last, and what
    /// may lack blocks has no others.
    pub(crate) fn check(&self, index: &I, engine: &Engine) -> Result<(), &'static str> {
        if self.trust.is_exact_as_of_last() {
            let expected = self.last.map(|last| engine.digest_after(last)).unwrap_or_default();
            let is_right = self.digest(index) == expected;
            return if is_right { Ok(()) } else { Err("wrong, and called exact as of the last batch") };
        }
        let overstates = !self.trust.may_overstate() && self.holds_what_was_gone(index, engine);
        if overstates { Err("it holds what was gone, and does not say so") } else { Ok(()) }
    }

    /// Whether what it holds is of the engine's present life, if it is of any.
    pub(crate) fn is_of_this_life(&self, engine: &Engine) -> bool {
        self.last.is_none_or(|last| engine.is_of_this_life(last))
    }

    /// Whether the index holds what the engine did not after the batch that was applied last.
    fn holds_what_was_gone(&self, index: &I, engine: &Engine) -> bool {
        let was_held = |name: BlockName| self.last.is_some_and(|last| engine.held_after(last, name));
        let mut overstates = false;
        index.for_each_holding(self.stream.worker(), &mut |holding| overstates |= !was_held(holding.name));
        overstates
    }

    /// Makes all changes, tells what they found, and returns what is asked for.
    fn pump(&mut self, now: Duration) -> Option<Request> {
        loop {
            while let Some(step) = self.follower.poll_step() {
                self.step(step);
            }
            self.follower.handle_findings(now + self.ahead, self.stream.findings());
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
        (self.trust, self.changed) = (step.trust, true);
    }
}

/// Batches are known again by the time of their publication, which is a number from 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "engines publish whole numbers from 1 to 2^32")]
pub(crate) fn number_of(timestamp_s: f64) -> Option<u32> {
    (timestamp_s >= 1.0).then_some(timestamp_s as u32)
}
