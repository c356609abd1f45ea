//! What a pool counts. Counting steers nothing.

use std::ops::AddAssign;
// The standard library's, not the shim's: no model needs to see a count.
use std::sync::atomic::{AtomicU64, Ordering};

use super::stream::{Load, StreamState};

/// What happened to a stream's events. Beside running lanes a reading may be out of date; with none running,
/// `accepted` is `applied + panicked + unapplied` and what is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Events that were taken.
    pub accepted: u64,
    /// Events that came back to the caller: at the bound, or because the stream had ended.
    pub returned: u64,
    /// Events applied to their ends.
    pub applied: u64,
    /// Events whose application panicked.
    pub panicked: u64,
    /// Events that had not been applied when their stream was removed.
    pub unapplied: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.returned += other.returned;
        self.applied += other.applied;
        self.panicked += other.panicked;
        self.unapplied += other.unapplied;
    }
}

/// How one stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamMetrics {
    /// Where.
    pub state: StreamState,
    /// What waits or is being applied.
    pub held: Load,
    /// What happened so far. Zeros once it is removed: the pool's total has them.
    pub counts: Counts,
}

/// How a pool stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// Streams that are not removed, failed ones with them.
    pub streams: usize,
    /// Streams that a panic ended and that are not removed yet.
    pub failed: usize,
    /// What waits or is being applied, over all streams.
    pub held: Load,
    /// What happened so far, removed streams included.
    pub counts: Counts,
    /// By lane. One more than the pool was made with: the last is the pool's own, which works only in a shutdown.
    pub lanes: Vec<LaneMetrics>,
}

/// What one lane did so far. A lane is busy all the time if `parked` stands still while `turns` grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneMetrics {
    /// Streams on its ready list now.
    pub ready: usize,
    /// Turns it gave to streams.
    pub turns: u64,
    /// Of these, turns with a stream from another lane's list.
    pub stolen: u64,
    /// Events that it applied to their ends.
    pub applied: u64,
    /// How often it found nothing to do anywhere and slept.
    pub parked: u64,
}

#[derive(Debug, Default)]
pub(super) struct LaneTallies {
    pub(super) turns: Tally,
    pub(super) stolen: Tally,
    pub(super) applied: Tally,
    pub(super) parked: Tally,
}

/// Written by its lane only, so adding is a load and a store.
#[derive(Debug, Default)]
pub(super) struct Tally(AtomicU64);

impl Tally {
    // Relaxed: each number stands for itself.
    pub(super) fn add(&self, count: u64) {
        self.0.store(self.read() + count, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl LaneTallies {
    pub(super) fn read(&self, ready: usize) -> LaneMetrics {
        LaneMetrics {
            ready,
            turns: self.turns.read(),
            stolen: self.stolen.read(),
            applied: self.applied.read(),
            parked: self.parked.read(),
        }
    }
}
