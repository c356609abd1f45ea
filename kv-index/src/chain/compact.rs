//! Closing the holes that content leaves behind.
//!
//! When content goes and other content comes, slabs stay half full: the sizes differ, and old and new share them. Once a ninth
//! of the memory lies in such holes, every call of a writer moves a few records down into them, until whole slabs are empty and
//! go back. Readers of a record that moves look again; nothing else is seen of it.

use super::core::Core;
use crate::raw::segments::SegmentId;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct Compaction {
    runs: AtomicBool,
    /// The next segment to look at.
    next: Mutex<u32>,
}

/// A call looks at one segment for so many blocks of its own work, and at a few at least: a few nanoseconds each, and some
/// 100 for one that moves.
const BLOCKS_PER_LOOK: usize = 6;
const LOOKS_MIN: usize = 4;

impl Compaction {
    pub(crate) fn new() -> Self {
        Self { runs: AtomicBool::new(false), next: Mutex::new(1) }
    }
}

impl Core {
    /// Moves a few records if memory is sparse, in the course of a call about `blocks` blocks. The caller holds no lock but its
    /// own worker's.
    #[inline]
    pub(crate) fn compact(&self, blocks: usize) {
        if self.compaction.runs.load(Ordering::Relaxed) || self.segments.slabs.is_sparse() {
            self.compact_some(LOOKS_MIN.max(blocks / BLOCKS_PER_LOOK));
        }
    }

    #[cold]
    fn compact_some(&self, looks: usize) {
        let Some(mut next) = self.compaction.next.try_lock() else { return };
        self.compaction.runs.store(!self.segments.slabs.is_compact(), Ordering::Relaxed);
        let end = self.segments.end();
        for _ in 0..looks {
            *next = if *next + 1 < end { *next + 1 } else { 1 };
            self.segments.move_down(SegmentId(*next));
        }
    }
}
