//! What one rank of an engine holds now, block by block with its tokens: all that a reader who comes late must be told.
//!
//! It follows the batches as a [`Stream`](crate::Stream) over an index does, by the same normalizer, the same copies and the
//! same waiting stores, so that whoever is told this state holds what a reader of every batch holds. The differences: it keeps
//! tokens instead of an index, and blocks of every tier, since which are served is the reader's choice.
//!
//! # A block's life
//! ```text
//!            store                     last copy removed, no block below it
//!  (nothing) ------> held ------------------------------------------------> (nothing)
//!                    |  ^                                                       ^
//!  last copy removed,|  | store of a block                                      |
//!  blocks below it   v  | at its place        the last block below it goes      |
//!                    step ------------------------------------------------------+
//! ```
//! A *step* is kept for the blocks below it: they stand where they stand, and a reader must be told the way to them.
//!
//! # Rules
//! * A name stands at one place. Stored at another, it is lost at the old one, on every shelf.
//! * A copy is counted for its shelf (cache group and tier); a block is gone with its last copy on any.
//! * A removal of a copy that is not there changes nothing and is counted.
//! * A store below a block that is not held waits for it.
//! * A clear forgets all blocks. What was learned of the engine's wire (its groups above all) outlives it.

pub(super) mod block;
pub(super) mod pages;
mod place;
mod shared;
mod table;
mod units;
mod windows;

use std::sync::Arc;

use kv_index::BlockName;

use self::block::{Added, Place, ROOT, Shelf};
use self::pages::{Pages, SharedPages, Slot};
use self::table::{Key, SlotTable};
pub(super) use self::units::Units;
use crate::copies::CopyRule;
use crate::dialect::Evidence;
use crate::namespace::Namespaces;
use crate::normalize::{Change, GroupId, Normalizer};
use crate::orphans::{Orphans, PendingStore};
use crate::tier::{Tier, Tiers};
use crate::{Batch, Event, Loss, Losses};

/// The live blocks of one rank, and what was learned of its wire.
#[derive(Debug)]
pub(super) struct Live {
    rule: CopyRule,
    blocks_max: usize,
    normalizer: Normalizer,
    evidence: Evidence,
    namespaces: Namespaces,
    orphans: Orphans<Arc<Units<'static>>>,
    pages: Pages,
    /// Held blocks by name.
    names: SlotTable,
    /// Steps by place, so that a store heals a hole and no step is kept twice, but below two blocks of one place.
    steps: SlotTable,
    /// Held blocks by shelf.
    held: [u64; Shelf::COUNT],
    copies: u64,
    /// Stores that there was no room for, since the rank last held nothing.
    crowded_out: u64,
    counts: LiveCounts,
    /// Where the names of the store at hand stand. Kept for its memory.
    found: Vec<(Key, Option<Slot>)>,
}

/// What became of a rank's events in the relay's own state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// Copies that were stored.
    pub stored: u64,
    /// Copies that were removed.
    pub removed: u64,
    /// Names that were stored at another place than they stood at.
    pub moved: u64,
    /// Clears of the rank.
    pub clears: u64,
    /// Copies beyond the most that are counted of one block.
    pub saturated: u64,
    /// What was left out, by reason. A removal of a copy that was not there is [`Loss::UnknownBlock`].
    pub losses: Losses,
}

type Pending = PendingStore<Arc<Units<'static>>>;

impl Live {
    /// Nothing, of an engine of which nothing is known. At most `blocks_max` blocks are kept.
    pub(super) fn new(rule: CopyRule, blocks_max: usize) -> Self {
        Self {
            rule,
            blocks_max,
            normalizer: Normalizer::new(Tiers::of(&Tier::ALL), None),
            evidence: Evidence::default(),
            namespaces: Namespaces::default(),
            orphans: Orphans::default(),
            pages: Pages::default(),
            names: SlotTable::default(),
            steps: SlotTable::default(),
            held: [0; Shelf::COUNT],
            copies: 0,
            crowded_out: 0,
            counts: LiveCounts::default(),
            found: Vec::new(),
        }
    }

    /// Applies the next batch.
    pub(super) fn apply(&mut self, batch: &Batch) {
        batch.events.iter().for_each(|event| self.evidence.observe(event));
        let normalized = self.normalizer.normalize(batch, &self.namespaces);
        self.counts.losses.merge(&normalized.losses);
        for (change, origin) in normalized.changes.into_iter().zip(normalized.origins) {
            match change {
                Change::Store { group, tier, parent, blocks, namespace } => {
                    let Some(Event::Stored(told)) = batch.events.get(origin.event) else { continue };
                    let Some(scheme) = self.normalizer.scheme() else { continue };
                    let units = Units::new(told, scheme, origin.keys);
                    self.store(PendingStore { group, tier, parent, blocks, namespace, detail: units });
                }
                Change::Announce { group, tier, names } => names.iter().for_each(|&name| self.announce(group, tier, name)),
                Change::Remove { group, tier, names } => {
                    self.names.fetch(names.iter().map(|name| self.names.key(name.0)));
                    names.iter().for_each(|&name| self.remove(group, tier, name));
                }
                Change::Clear => self.clear(),
            }
        }
    }

    /// Forgets all blocks. What was learned of the wire stays.
    fn clear(&mut self) {
        self.counts.clears += 1;
        self.namespaces.clear();
        self.orphans.clear();
        (self.pages, self.names, self.steps) = (Pages::default(), SlotTable::default(), SlotTable::default());
        (self.held, self.copies, self.crowded_out) = ([0; Shelf::COUNT], 0, 0);
    }

    pub(super) fn counts(&self) -> &LiveCounts {
        &self.counts
    }

    /// Names that are held.
    pub(super) fn blocks(&self) -> usize {
        self.names.len()
    }

    /// Physical copies of all held blocks.
    pub(super) fn copies(&self) -> u64 {
        self.copies
    }

    /// Stores that there was no room for, since the rank last held nothing.
    pub(super) fn crowded_out(&self) -> u64 {
        self.crowded_out
    }

    /// Blocks that wait for their parents.
    pub(super) fn waiting_blocks(&self) -> usize {
        self.orphans.blocks()
    }

    /// The blocks as they are now.
    pub(super) fn share(&mut self) -> SharedPages {
        self.pages.share()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Arc<Pending>> {
        self.orphans.stores()
    }

    pub(super) fn normalizer(&self) -> &Normalizer {
        &self.normalizer
    }

    pub(super) fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Shelves that hold a block, the faster tiers first.
    pub(super) fn shelves(&self) -> Vec<Shelf> {
        Shelf::all().filter(|shelf| self.held[shelf.index()] > 0).collect()
    }

    fn add_copy(&mut self, slot: Slot, shelf: Shelf) {
        match self.pages.block_mut(slot).copies.add(shelf, self.rule) {
            Added::First => self.held[shelf.index()] += 1,
            Added::Further => {}
            Added::Again => return,
            Added::Full => return self.counts.saturated += 1,
        }
        self.copies += 1;
        self.counts.stored += 1;
    }

    /// One more copy of a block that the group holds and that is told by its name alone.
    fn announce(&mut self, group: GroupId, tier: Tier, name: BlockName) {
        match self.find(name).filter(|&slot| self.is_held_by(slot, group)) {
            Some(slot) => self.add_copy(slot, Shelf::new(group, tier)),
            None => self.counts.losses.add(Loss::Placeholder),
        }
    }

    fn remove(&mut self, group: GroupId, tier: Tier, name: BlockName) {
        let shelf = Shelf::new(group, tier);
        let slot = self.find(name);
        let left = slot.filter(|&slot| self.pages.block(slot).copies.on(shelf) > 0).and_then(|slot| {
            let block = self.pages.block_mut(slot);
            Some((slot, block.copies.remove(shelf)?, block.is_held()))
        });
        let Some((slot, left, held)) = left else {
            if !self.orphans.remove(group, tier, name) {
                self.counts.losses.add(Loss::UnknownBlock);
            }
            return;
        };
        self.copies -= 1;
        self.counts.removed += 1;
        self.held[shelf.index()] -= u64::from(left == 0);
        if !held {
            self.namespaces.forget(name);
            self.vacate(slot);
        }
    }

    /// The block at `slot` is held no more: it becomes a step, or goes, and with it the steps that led to it only.
    fn vacate(&mut self, slot: Slot) {
        let block = self.pages.block(slot);
        self.names.remove(self.names.key(block.name.0), slot);
        if block.children > 0 {
            // A step may stand there already: two names of one place were held, and there were blocks below both.
            if self.find_step(block.place).is_none() {
                self.steps.insert(self.steps.key(block.place.word()), slot);
            }
            return;
        }
        let mut parent = self.pages.remove(slot).parent;
        while parent != ROOT {
            let above = self.pages.block_mut(parent);
            above.children -= 1;
            if above.children > 0 || above.is_held() {
                break;
            }
            self.steps.remove(self.steps.key(self.pages.block(parent).place.word()), parent);
            parent = self.pages.remove(parent).parent;
        }
    }

    fn find(&self, name: BlockName) -> Option<Slot> {
        self.look_up(name).1
    }

    /// Where `name` stands, and the key to put it there.
    fn look_up(&self, name: BlockName) -> (Key, Option<Slot>) {
        let key = self.names.key(name.0);
        (key, self.names.find(key, |slot| self.pages.block(slot).name == name))
    }

    /// The step at `place`, which is below `parent`. Below a block that no block names as its parent is none: most blocks are new, and so
    /// are those before them.
    #[inline]
    fn find_step_below(&self, parent: Slot, place: Place) -> Option<Slot> {
        if parent != ROOT && self.pages.block(parent).children == 0 { None } else { self.find_step(place) }
    }

    fn find_step(&self, place: Place) -> Option<Slot> {
        if self.steps.len() == 0 {
            return None;
        }
        self.steps.find(self.steps.key(place.word()), |slot| self.pages.block(slot).place == place)
    }

    fn place_of(&self, slot: Slot) -> Place {
        if slot == ROOT { Place::START } else { self.pages.block(slot).place }
    }

    fn is_held_by(&self, slot: Slot, group: GroupId) -> bool {
        self.pages.block(slot).copies.iter().any(|copies| copies.shelf().group() == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EngineHash, Removed, Stored, Tokens};

    /// One batch: the names below `parent`, whose blocks of one token contain what stands beside them.
    fn store(live: &mut Live, parent: Option<u64>, blocks: &[(u64, u32)]) {
        let stored = Stored {
            hashes: blocks.iter().map(|(name, _)| EngineHash::from(*name)).collect(),
            parent: parent.map(EngineHash::from),
            tokens: Tokens::Ids(blocks.iter().map(|(_, token)| *token).collect()),
            block_size: 1,
            ..Stored::default()
        };
        live.apply(&Batch { events: vec![stored.into()], ..Batch::default() });
    }

    fn remove(live: &mut Live, names: &[u64]) {
        let hashes = names.iter().map(|name| EngineHash::from(*name)).collect();
        live.apply(&Batch { events: vec![Removed { hashes, ..Removed::default() }.into()], ..Batch::default() });
    }

    /// Names, steps, and blocks of either kind.
    fn kept(live: &Live) -> (usize, usize, usize) {
        (live.blocks(), live.steps.len(), live.pages.len())
    }

    fn live() -> Live {
        Live::new(CopyRule::Counted, 100)
    }

    #[test]
    fn a_block_that_comes_back_takes_its_step() {
        let mut live = live();
        store(&mut live, None, &[(1, 11), (2, 12), (3, 13)]);
        remove(&mut live, &[1, 2]);
        assert_eq!(kept(&live), (1, 2, 3), "the way to the third");
        store(&mut live, None, &[(1, 11), (2, 12)]);
        assert_eq!(kept(&live), (3, 0, 3), "under the old names");
        remove(&mut live, &[2]);
        store(&mut live, Some(1), &[(20, 12)]);
        assert_eq!(kept(&live), (3, 0, 3), "and under another");
        remove(&mut live, &[1, 20, 3]);
        assert_eq!(kept(&live), (0, 0, 0));
    }

    #[test]
    fn steps_below_two_names_of_one_place_go_with_what_is_below_them() {
        let mut live = live();
        store(&mut live, None, &[(1, 11), (2, 12), (3, 13)]);
        store(&mut live, None, &[(10, 11)]);
        remove(&mut live, &[2]);
        store(&mut live, Some(10), &[(20, 12), (30, 13)]);
        remove(&mut live, &[20, 1, 10]);
        assert_eq!(live.blocks(), 2);
        remove(&mut live, &[30]);
        assert_eq!(kept(&live), (1, 2, 3), "the way to the third");
        remove(&mut live, &[3]);
        assert_eq!(kept(&live), (0, 0, 0));
    }
}
