//! A follower, driven by hand.

use std::time::Duration;

use kv_events::admission::{Change, Request};
use kv_events::{Batch, Cleared, Delivery, Event, Follower, ReplayOutcome, Source};

/// A follower, and the time.
#[derive(Clone, Debug)]
pub(crate) struct Rig {
    pub(crate) follower: Follower,
    pub(crate) now: Duration,
    /// What was asked for last, and not taken yet.
    pub(crate) asked: Option<Request>,
}

/// A batch of the life `life`.
pub(crate) fn batch(life: u64, sequence: u64) -> Delivery {
    let fingerprint = Some(life << 32 | sequence);
    Delivery { sequence, incarnation: None, fingerprint, bytes: 10, batch: Batch::default() }
}

/// The same with a clear of the rank.
pub(crate) fn clear(life: u64, sequence: u64) -> Delivery {
    let cleared = Batch { events: vec![Event::Cleared(Cleared::default())], ..Batch::default() };
    Delivery { batch: cleared, ..batch(life, sequence) }
}

impl Rig {
    pub(crate) fn new(source: Source) -> Self {
        Self { follower: Follower::new(source, 1), now: Duration::ZERO, asked: None }
    }

    /// Connected to the life 1, which has published the batches up to `last`, all applied, and one of them live.
    pub(crate) fn at(source: Source, last: u64) -> Self {
        let mut rig = Self::new(source);
        rig.connect();
        rig.replay_to(1, last, ReplayOutcome::Complete);
        if source == Source::EngineWithReplay {
            rig.live(batch(1, last));
            rig.replay_to(1, last, ReplayOutcome::Complete);
        } else {
            (0..=last).for_each(|sequence| _ = rig.live(batch(1, sequence)));
        }
        rig
    }

    pub(crate) fn connect(&mut self) -> String {
        self.follower.handle_connected(self.now);
        self.told()
    }

    pub(crate) fn disconnect(&mut self) -> String {
        self.follower.handle_disconnected(self.now);
        self.told()
    }

    pub(crate) fn live(&mut self, delivery: Delivery) -> String {
        self.follower.handle_live(self.now, delivery);
        self.told()
    }

    pub(crate) fn lives(&mut self, life: u64, sequences: impl IntoIterator<Item = u64>) -> String {
        sequences.into_iter().map(|sequence| self.live(batch(life, sequence))).collect::<Vec<_>>().join(" ").trim().to_owned()
    }

    /// Answers the question that was asked, whatever it was, and those that it leads to, with the batches of `life` up to `last`.
    pub(crate) fn replay_to(&mut self, life: u64, last: u64, outcome: ReplayOutcome) -> String {
        let mut told = Vec::new();
        while let Some(Request::Replay { session, from }) = self.asked.take() {
            for sequence in from..=last {
                self.follower.handle_replayed(self.now, session, batch(life, sequence));
                told.push(self.told());
            }
            self.follower.handle_replay_end(self.now, session, outcome);
            told.push(self.told());
        }
        told.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Answers the question that was asked with these.
    pub(crate) fn answer(&mut self, answers: impl IntoIterator<Item = Delivery>, outcome: ReplayOutcome) -> String {
        let Some(Request::Replay { session, .. }) = self.asked.take() else { panic!("no replay was asked for") };
        let mut told = Vec::new();
        for answer in answers {
            self.follower.handle_replayed(self.now, session, answer);
            told.push(self.told());
        }
        self.follower.handle_replay_end(self.now, session, outcome);
        told.push(self.told());
        told.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Lets so many seconds pass, and everything happen that is due in them.
    pub(crate) fn pass(&mut self, s: u64) -> String {
        let end = self.now + Duration::from_secs(s);
        let mut told = Vec::new();
        while let Some(due) = self.follower.next_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.follower.handle_timeout(self.now);
            told.push(self.told());
            assert!(told.len() < 1000, "it wakes for ever");
        }
        self.now = end;
        told.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The steps, in short: numbers of applied batches, `clear`, `restart`; then what is asked for, as `?from` or `?stop`.
    pub(crate) fn told(&mut self) -> String {
        let mut told = Vec::new();
        while let Some(step) = self.follower.poll_step() {
            match step.change {
                Change::Apply { sequence, .. } => told.push(sequence.to_string()),
                Change::Clear => told.push("clear".to_owned()),
                Change::Restart => told.push("restart".to_owned()),
                Change::Nothing => {}
            }
        }
        if let Some(request) = self.follower.poll_request() {
            self.asked = Some(request);
            told.push(match request {
                Request::Replay { from, .. } => format!("?{from}"),
                Request::StopReplay => "?stop".to_owned(),
                Request::Resubscribe { after: None } => "?resubscribe".to_owned(),
                Request::Resubscribe { after: Some(position) } => format!("?resubscribe>{}", position.sequence),
            });
        }
        told.join(" ")
    }

    pub(crate) fn trust(&self) -> &'static str {
        self.follower.trust().as_str()
    }
}
