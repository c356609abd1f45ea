//! What a publisher, its replay socket, a relay and a clock can do to the follower of a stream.

use std::time::Duration;

use kv_events::admission::{Change, Delivery, Findings, Follower, ReplayOutcome, Request, SnapshotPart, Source, Trust};
use kv_events::{Batch, Cleared, Event, Incarnation, Position};

/// Any calls in any order: every one ends with the trust that it has shown, exact is only who is connected, and batches are applied in
/// the order of their numbers.
pub fn follower(data: &[u8]) {
    let Some((&source, calls)) = data.split_first() else { return };
    let source = [Source::EngineWithReplay, Source::Engine, Source::Relay][usize::from(source % 3)];
    let mut run =
        Run { follower: Follower::new(source, 1), now: Duration::ZERO, session: 0, shown: Trust::default(), applied: None };
    for call in calls.chunks_exact(3) {
        run.call(call[0], call[1], call[2]);
    }
}

struct Run {
    follower: Follower,
    now: Duration,
    /// The latest question to the replay socket.
    session: u64,
    /// The trust of the last step.
    shown: Trust,
    /// The last batch that was applied since the stream was cleared.
    applied: Option<u64>,
}

impl Run {
    fn call(&mut self, what: u8, number: u8, wait: u8) {
        self.pass(wait);
        let (now, session) = (self.now, self.session);
        let is_snapshot = what & 15 == 11;
        match what & 15 {
            0 => self.follower.handle_connected(now),
            1 => self.follower.handle_disconnected(now),
            2 | 3 => self.follower.handle_live(now, delivery(what, number)),
            4 | 5 => self.follower.handle_replayed(now, session, delivery(what, number)),
            6 => self.follower.handle_replay_end(now, session, ReplayOutcome::Complete),
            7 => self.follower.handle_replay_end(now, session, ReplayOutcome::Incomplete),
            8 => self.follower.handle_lagged(now),
            9 => {
                // The index has an empty stream in its place.
                self.applied = None;
                self.follower.handle_failed(now);
            }
            10 => self.follower.handle_heartbeat(now, life(what), sequence(number), what & 32 != 0),
            11 => self.follower.handle_snapshot(now, part(what, number)),
            12 => self.follower.handle_rejected(now),
            13 => self.follower.handle_findings(now, Findings { crowded_out: number.into(), ..Findings::default() }),
            _ => self.follower.handle_timeout(now),
        }
        self.take_steps(is_snapshot);
        assert_eq!(self.follower.trust(), self.shown);
        assert!(self.shown != Trust::Exact || self.follower.is_connected());
    }

    /// Clocks go on, stand still, jump to the end of time, and back to its beginning.
    fn pass(&mut self, wait: u8) {
        self.now = match wait {
            255 => Duration::ZERO,
            254 => Duration::MAX,
            wait => self.now.saturating_add(Duration::from_millis(u64::from(wait) * u64::from(wait))),
        };
    }

    fn take_steps(&mut self, is_snapshot: bool) {
        while let Some(step) = self.follower.poll_step() {
            self.shown = step.trust;
            match step.change {
                Change::Apply { sequence, .. } => {
                    let in_order = |last| if is_snapshot { last <= sequence } else { last < sequence };
                    assert!(self.applied.is_none_or(in_order), "{sequence} after {:?}", self.applied);
                    self.applied = Some(sequence);
                }
                Change::Clear | Change::Restart => self.applied = None,
                Change::Nothing => {}
            }
        }
        while let Some(request) = self.follower.poll_request() {
            match request {
                Request::Replay { session, .. } => self.session = session,
                Request::Resubscribe { after: Some(Position { sequence, .. }) } => assert_eq!(self.applied, Some(sequence)),
                _ => {}
            }
        }
    }
}

/// Two lives, which say different things under one number.
fn life(what: u8) -> Incarnation {
    let first = Incarnation::first(9);
    if what & 16 == 0 { first } else { first.next() }
}

/// Few numbers, so that they meet, and the largest.
fn sequence(number: u8) -> u64 {
    if number < 240 { u64::from(number) } else { u64::MAX - u64::from(255 - number) }
}

fn delivery(what: u8, number: u8) -> Delivery {
    let events = if what & 64 == 0 { Vec::new() } else { vec![Event::Cleared(Cleared::default())] };
    let named = what & 128 != 0;
    Delivery {
        sequence: sequence(number),
        incarnation: named.then(|| life(what)),
        fingerprint: (!named).then(|| u64::from(number) << 8 | u64::from(what & 0x50)),
        bytes: 10,
        batch: Batch { events, ..Batch::default() },
    }
}

fn part(what: u8, number: u8) -> SnapshotPart {
    SnapshotPart {
        incarnation: life(what),
        through: sequence(number & 0xf0),
        index: u32::from(number & 3),
        count: u32::from(number >> 2 & 3),
        unknown_before: u64::from(what >> 6 & 1),
        lost: u64::from(what >> 7),
        bytes: 10,
        batch: Batch::default(),
    }
}
