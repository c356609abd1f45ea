//! Which workers have all their names for themselves, so that a shared name at a place that they cover is not theirs.

use crate::limits::WORKERS_MAX;
use crate::raw::holders::Slot;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A bit for each worker. A hint for writers: a claim that nobody stands for is taken back a little earlier or later.
#[derive(Debug)]
pub(crate) struct PrivateSlots {
    bits: Box<[AtomicU64]>,
    count: AtomicUsize,
}

impl PrivateSlots {
    pub(crate) fn new() -> Self {
        let words = if cfg!(any(kv_loom, kv_shuttle)) { 1 } else { WORKERS_MAX as usize / 64 };
        Self { bits: (0..words).map(|_| AtomicU64::new(0)).collect(), count: AtomicUsize::new(0) }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.bits)
    }

    /// Whether any worker is private.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    #[inline]
    pub(crate) fn contains(&self, slot: Slot) -> bool {
        let worker = slot.worker();
        self.bits[worker as usize / 64].load(Ordering::Relaxed) >> (worker % 64) & 1 == 1
    }

    pub(crate) fn insert(&self, worker: u32) {
        self.bits[worker as usize / 64].fetch_or(1 << (worker % 64), Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, worker: u32) {
        self.bits[worker as usize / 64].fetch_and(!(1 << (worker % 64)), Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
