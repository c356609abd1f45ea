//! What a lane does for one rank: it applies the steps of the rank's stream, and tells what came of them.

use std::sync::Arc;
use std::thread;

use kv_events::{Batch, Stream};
use kv_index::{Worker, lanes};

use super::engine::Engine;
use super::rank::Rank;

/// One change of a stream. A rank's lane has them in the order of its feed.
#[derive(Debug)]
pub(super) enum Step {
    /// The next batch, of a message of so many bytes.
    Apply { batch: Batch, progress: Progress, bytes: u64 },
    /// Everything that the rank holds is forgotten.
    Clear,
    /// The same, and what was learned of the engine's wire.
    Restart,
}

/// Where a stream stands in its publisher's sequence once a step is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) sequence: u64,
    pub(super) missed: u64,
}

/// A rank's stream, in the hands of the lanes.
#[derive(Debug)]
pub(super) struct Applier<W> {
    stream: Stream<W>,
    engine: Arc<Engine>,
    /// The rank's place in the engine.
    rank: usize,
}

impl<W: Worker> Applier<W> {
    /// The stream of the rank at the place `rank` of `engine`, which is shown as one that holds nothing.
    pub(super) fn new(stream: Stream<W>, engine: Arc<Engine>, rank: usize) -> Self {
        let applier = Self { stream, engine, rank };
        applier.publish(None);
        applier
    }

    fn take(&mut self, step: Step) -> Option<Progress> {
        match step {
            Step::Apply { batch, progress, .. } => {
                self.stream.apply(&batch);
                return Some(progress);
            }
            Step::Clear => self.stream.clear(),
            Step::Restart => self.stream.restart(),
        }
        None
    }

    fn publish(&self, progress: Option<Progress>) {
        let stream = &self.stream;
        self.rank().publish(|state| {
            state.worker = Some(stream.worker());
            state.profile = stream.profile().clone();
            state.counts = stream.counts().clone();
            state.sequence = progress.map(|progress| progress.sequence);
            state.missed = progress.map_or(0, |progress| progress.missed);
            state.waiting_blocks = stream.waiting_blocks();
            state.crowded_out = stream.crowded_out();
        });
    }

    fn rank(&self) -> &Rank {
        &self.engine.ranks()[self.rank]
    }
}

impl<W: Worker + 'static> lanes::Stream for Applier<W> {
    type Event = Step;

    fn apply(&mut self, step: Step) -> Option<Step> {
        let alarm = Alarm(self.engine.clone(), self.rank);
        let progress = self.take(step);
        drop(alarm);
        self.publish(progress);
        if self.stream.crowded_out() > 0 {
            self.rank().doubt();
        }
        None
    }

    fn cost(step: &Step) -> u64 {
        if let Step::Apply { bytes, .. } = step { *bytes } else { 0 }
    }
}

/// Tells of a panic while it lives: the pool keeps it to itself until somebody asks.
struct Alarm(Arc<Engine>, usize);

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            let rank = &self.0.ranks()[self.1];
            rank.publish(|state| state.unlearned = true);
            rank.doubt();
        }
    }
}
