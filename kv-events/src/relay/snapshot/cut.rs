//! One rank's state at one moment, held on to while it is told.

use std::sync::{Arc, OnceLock};

use super::language::Language;
use super::listing::Plan;
use crate::Incarnation;
use crate::orphans::PendingStore;
use crate::relay::live::block::{LiveBlock, Shelf};
use crate::relay::live::pages::{SharedPages, Slot};
use crate::relay::live::{Live, Units};

/// Where a cut stands in its rank's sequence, and what it may lack.
#[derive(Clone, Copy, Debug)]
pub(in crate::relay) struct Standing {
    pub(in crate::relay) rank: u32,
    pub(in crate::relay) incarnation: Incarnation,
    /// The last batch that is in it.
    pub(in crate::relay) through: u64,
    /// The engine's clock with that batch.
    pub(in crate::relay) timestamp_s: f64,
    /// Batches that were published before what is known, and lost.
    pub(in crate::relay) unknown_before: u64,
    /// Batches lost since.
    pub(in crate::relay) lost: u64,
    /// The publisher may be another than before.
    pub(in crate::relay) doubted: bool,
}

/// A state as it was. Taking it copies no block.
#[derive(Debug)]
pub(in crate::relay) struct Cut {
    pub(super) standing: Standing,
    pub(super) language: Language,
    pub(super) shelves: Vec<Shelf>,
    pub(super) copies: u64,
    /// Copies in a chunk.
    pub(super) chunk_blocks: u64,
    pub(super) waiting: Vec<Arc<PendingStore<Arc<Units<'static>>>>>,
    pages: SharedPages,
    /// How many chunks it makes: worked out by its first reader.
    pub(super) plan: OnceLock<Plan>,
}

impl Cut {
    pub(in crate::relay) fn take(live: &mut Live, standing: Standing, chunk_blocks: u64) -> Self {
        Self {
            standing,
            language: Language::of(live.normalizer(), live.evidence()),
            shelves: live.shelves(),
            copies: live.copies(),
            chunk_blocks,
            waiting: live.waiting().cloned().collect(),
            pages: live.share(),
            plan: OnceLock::new(),
        }
    }

    pub(in crate::relay) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// No block has this slot or a higher one.
    pub(super) fn slots(&self) -> Slot {
        self.pages.slots()
    }

    pub(super) fn block(&self, slot: Slot) -> Option<&LiveBlock> {
        self.pages.block(slot)
    }

    /// The tokens that the content of the block at `slot` covers.
    pub(super) fn tokens(&self, slot: Slot) -> &[u32] {
        self.pages.tokens(slot)
    }
}
