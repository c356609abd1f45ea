//! What a lane does for one rank: it makes the changes of the rank's stream, and tells what came of them.

use std::sync::Arc;
use std::thread;

use kv_events::admission::{Change, Step};
use kv_events::{Stream, Trust};
use kv_index::{Worker, lanes};

use super::engine::Engine;
use super::rank::Rank;

/// A rank's stream, in the hands of the lanes.
#[derive(Debug)]
pub(super) struct Applier<W> {
    stream: Stream<W>,
    engine: Arc<Engine>,
    /// The rank's place in the engine.
    rank: usize,
    /// The last batch applied, since the stream last held nothing.
    sequence: Option<u64>,
}

impl<W: Worker> Applier<W> {
    /// The stream of the rank at the place `rank` of `engine`, which is shown as one that holds nothing.
    pub(super) fn new(stream: Stream<W>, engine: Arc<Engine>, rank: usize) -> Self {
        let applier = Self { stream, engine, rank, sequence: None };
        applier.publish(Trust::Unheard);
        applier
    }

    fn make(&mut self, change: Change) {
        match change {
            Change::Apply { sequence, batch, .. } => {
                self.stream.apply(&batch);
                self.sequence = Some(sequence);
            }
            Change::Clear => {
                self.stream.clear();
                self.sequence = None;
            }
            Change::Restart => {
                self.stream.restart();
                self.sequence = None;
            }
            Change::Nothing => {}
        }
    }

    /// Shows the stream as it is, with what it is worth; whether it was found to be worth more or less than before.
    fn publish(&self, trust: Trust) -> bool {
        let stream = &self.stream;
        let mut finds = false;
        self.rank().publish(|state| {
            state.worker = Some(stream.worker());
            state.profile = stream.profile().clone();
            state.counts = stream.counts().clone();
            state.sequence = self.sequence;
            state.trust = trust;
            finds = state.findings != stream.findings();
            state.findings = stream.findings();
            state.hashes = stream.hashes().copied();
            state.failed = false;
        });
        finds
    }

    fn rank(&self) -> &Rank {
        &self.engine.ranks()[self.rank]
    }
}

impl<W: Worker + 'static> lanes::Stream for Applier<W> {
    type Event = Step;

    fn apply(&mut self, step: Step) -> Option<Step> {
        let alarm = Alarm(self.engine.clone(), self.rank);
        self.make(step.change);
        drop(alarm);
        if self.publish(step.trust) {
            self.rank().doubt();
        }
        None
    }

    fn cost(step: &Step) -> u64 {
        if let Change::Apply { bytes, .. } = step.change { bytes as u64 } else { 0 }
    }
}

/// Tells of a panic while it lives: the pool keeps it to itself until somebody asks.
struct Alarm(Arc<Engine>, usize);

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            let rank = &self.0.ranks()[self.1];
            rank.publish(|state| state.failed = true);
            rank.doubt();
        }
    }
}
