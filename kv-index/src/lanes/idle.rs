//! Which lanes look for work and find none: one bit each.

use crate::sync::atomic::{AtomicU64, Ordering};

/// A lane sets its own bit; whoever clears it, for a lane that it did not set, owes that lane a wake-up.
///
/// Relaxed throughout: the locks of the ready lists order these accesses with what they are about (see
/// [`schedule`](super::schedule)), and a wake-up goes through the parker's lock.
#[derive(Debug)]
pub(super) struct IdleLanes(AtomicU64);

impl IdleLanes {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(super) fn announce(&self, lane: usize) {
        self.0.fetch_or(1 << lane, Ordering::Relaxed);
    }

    pub(super) fn withdraw(&self, lane: usize) {
        self.0.fetch_and(!(1 << lane), Ordering::Relaxed);
    }

    /// Takes an idle lane's bit, `preferred`'s if it is set. The caller wakes the lane.
    pub(super) fn choose(&self, preferred: usize) -> Option<usize> {
        loop {
            let idle = self.0.load(Ordering::Relaxed);
            if idle == 0 {
                return None;
            }
            let lane = if idle >> preferred & 1 == 1 { preferred } else { idle.trailing_zeros() as usize };
            if self.0.fetch_and(!(1 << lane), Ordering::Relaxed) >> lane & 1 == 1 {
                return Some(lane);
            }
        }
    }
}
