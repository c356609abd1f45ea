//! A rank's whole state, told to a reader that comes late.
//!
//! A [`Snapshot`] is an iterator that its reader owns: nothing waits for it, and while it is read, nothing of it changes. It
//! makes each [`Chunk`] when it is asked for, and the batches after [`through`](Chunk::through) follow it without a gap.

mod chunk;
mod cut;
mod language;
mod listing;
mod run;

use std::sync::Arc;

pub use self::chunk::Chunk;
use self::chunk::Filling;
pub(super) use self::cut::{Cut, Standing};
use self::listing::{Listing, Plan};
use super::load::LoadSample;
use crate::{Batch, Incarnation};

/// A rank's state as of one batch, chunk by chunk.
#[derive(Debug)]
pub struct Snapshot {
    cut: Arc<Cut>,
    listing: Listing,
    index: u64,
    load: Option<LoadSample>,
}

impl Snapshot {
    pub(super) fn new(cut: Arc<Cut>, load: Option<LoadSample>) -> Self {
        Self { listing: Listing::new(Arc::clone(&cut)), cut, index: 0, load }
    }

    /// The rank.
    pub fn rank(&self) -> u32 {
        self.cut.standing.rank
    }

    /// The life of the rank's publisher.
    pub fn incarnation(&self) -> Incarnation {
        self.cut.standing.incarnation
    }

    /// The last batch that it covers.
    pub fn through(&self) -> u64 {
        self.cut.standing.through
    }
}

impl Iterator for Snapshot {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        // The first reader of a cut walks it once to count. The others wait for that.
        let plan = *self.cut.plan.get_or_init(|| Plan::of(&self.cut));
        if self.index == plan.chunks {
            return None;
        }
        let cut = Arc::clone(&self.cut);
        let mut filling = Filling::new(Some(&cut.language), plan.limits);
        let is_long = cut.language.is_long();
        match self.index {
            0 => filling.begin_with(cut.language.prologue()),
            1 if is_long => filling.begin_with(cut.language.prologue_end()),
            _ => {}
        }
        if self.index > 0 || !is_long {
            let has_more = self.listing.fill(&mut filling);
            debug_assert_eq!(has_more, self.index + 1 < plan.chunks, "both walks take the same way");
        }
        let index = self.index;
        self.index += 1;
        let Standing { rank, incarnation, through, timestamp_s, unknown_before, lost, doubted } = cut.standing;
        let batch = Batch { timestamp_s, rank: Some(rank), events: filling.finish(), ..Batch::default() };
        let unknown_before = unknown_before.saturating_add(plan.untold);
        let load = self.load.clone();
        if let Some(load) = &mut self.load {
            load.telemetry = None;
        }
        Some(Chunk {
            rank,
            incarnation,
            index,
            count: plan.chunks,
            through,
            total: cut.copies,
            unknown_before,
            lost,
            doubted,
            load,
            batch,
        })
    }
}
