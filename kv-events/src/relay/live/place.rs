//! Putting the blocks of a store where they belong.

use std::ops::Range;
use std::sync::Arc;

use kv_index::BlockName;

use super::block::{CopySet, Extra, LiveBlock, Place, ROOT, Shelf};
use super::pages::Slot;
use super::table::Key;
use super::units::{Placing, Units};
use super::{Live, Pending};
use crate::Loss;
use crate::orphans::PendingStore;

/// A store's parent is not held: it has to wait.
#[derive(Clone, Copy, Debug)]
struct NotHeld;

/// Places for which the memory of a search is kept: several steps of the largest engines.
const FOUND_KEPT_MAX: usize = 1 << 14;

impl Live {
    /// Stores, and then whatever waited for what was stored.
    pub(super) fn store(&mut self, store: PendingStore<Units<'_>>) {
        let Ok(parent) = self.parent_slot(store.parent) else { return self.wait(store) };
        let shelf = Shelf::new(store.group, store.tier);
        let (blocks, namespace, units) = (&store.blocks, store.namespace.as_ref(), &store.detail);
        let mut ready = self.place(&Placing { shelf, blocks, namespace, units }, parent);
        while let Some(store) = ready.pop() {
            match self.parent_slot(store.parent) {
                Ok(parent) => {
                    let shelf = Shelf::new(store.group, store.tier);
                    let (blocks, namespace, units) = (&store.blocks, store.namespace.as_ref(), &*store.detail);
                    ready.extend(self.place(&Placing { shelf, blocks, namespace, units }, parent));
                }
                Err(NotHeld) => self.wait_again(store),
            }
        }
    }

    /// Where the block before a store stands.
    fn parent_slot(&self, parent: Option<BlockName>) -> Result<Slot, NotHeld> {
        parent.map_or(Ok(ROOT), |parent| self.find(parent).ok_or(NotHeld))
    }

    fn wait(&mut self, store: PendingStore<Units<'_>>) {
        let PendingStore { group, tier, parent, blocks, namespace, detail } = store;
        self.wait_again(PendingStore { group, tier, parent, blocks, namespace, detail: Arc::new(detail.into_owned()) });
    }

    fn wait_again(&mut self, store: Pending) {
        let expired = self.orphans.wait(store);
        self.counts.losses.add_many(Loss::OrphanExpired, expired);
    }

    /// Puts blocks below `parent`, if there is room. Returns what waited for them, the last to be stored first.
    fn place(&mut self, placing: &Placing<'_>, parent: Slot) -> Vec<Pending> {
        if self.pages.len() + placing.blocks.len() > self.blocks_max {
            self.crowded_out += 1;
            self.counts.losses.add(Loss::OverBudget);
            return Vec::new();
        }
        // One after the other, and before anything changes: a million blocks' names lie in no cache, and searches that do not
        // wait for each other wait for memory together. No block of a store moves another's name.
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        found.extend(placing.blocks.iter().map(|block| (self.names.key(block.name.unwrap_or(BlockName(0)).0), None)));
        self.names.fetch(found.iter().map(|found| found.0));
        self.pages.fetch_free(placing.blocks.len());
        for (found, block) in found.iter_mut().zip(placing.blocks) {
            found.1 = block.name.and_then(|name| self.names.find(found.0, |slot| self.pages.block(slot).name == name));
        }
        self.place_at(placing, parent, &found);
        if found.capacity() <= FOUND_KEPT_MAX {
            self.found = found;
        }
        if self.orphans.blocks() == 0 {
            return Vec::new();
        }
        placing.blocks.iter().filter_map(|block| block.name).flat_map(|name| self.orphans.take(name)).rev().collect()
    }

    /// Puts blocks, whose names stand where `found` says, below `parent`. Steps get a block only where a held one comes below them.
    fn place_at(&mut self, placing: &Placing<'_>, parent: Slot, found: &[(Key, Option<Slot>)]) {
        let &Placing { shelf, blocks, namespace, units } = placing;
        let plain = namespace.map(|namespace| Arc::new(Extra { namespace: Some(namespace.clone()), keys: Vec::new() }));
        let block = |unit, place, parent| {
            let extra = units.extra(unit, plain.as_ref(), namespace);
            LiveBlock { name: BlockName(0), place, parent, children: 0, copies: CopySet::default(), extra }
        };
        let mut at = parent;
        let mut place = self.place_of(parent);
        let mut steps: Vec<(usize, Place)> = Vec::new();
        let mut unit = 0;
        while let (Some(next), Some(&(key, slot))) = (blocks.get(unit), found.get(unit)) {
            if steps.is_empty() && slot.is_none() && self.is_end(at) {
                let new = blocks[unit..]
                    .iter()
                    .zip(&found[unit..])
                    .take_while(|(next, found)| next.name.is_some() && found.1.is_none());
                let run = unit..unit + new.count();
                if !run.is_empty() {
                    unit = run.end;
                    (at, place) = self.append(placing, found, run, (at, place), plain.as_ref());
                    continue;
                }
            }
            place = place.below(next.content);
            let Some(name) = next.name else {
                steps.push((unit, place));
                unit += 1;
                continue;
            };
            let standing = slot.filter(|&slot| self.stands_at(slot, place));
            if let Some(slot) = standing {
                steps.clear();
                at = slot;
            } else {
                for (unit, place) in steps.drain(..) {
                    at = self.step(block(unit, place, at), units.tokens(unit));
                }
            }
            if let Some(slot) = standing.or_else(|| self.settle_step(name, key, at, place)) {
                at = slot;
                self.add_copy(slot, shelf);
            } else {
                let held = LiveBlock { name, copies: CopySet::one(shelf), ..block(unit, place, at) };
                at = self.pages.insert(held, units.tokens(unit));
                self.names.insert(key, at);
                self.held[shelf.index()] += 1;
                self.copies += 1;
                self.counts.stored += 1;
            }
            self.namespaces.note(name, namespace);
            unit += 1;
        }
    }

    /// Puts a run of blocks that are held nowhere, each with a name, below a block that none is below: nearly all that is ever stored
    /// comes so. Where the last one is, and its place.
    fn append(
        &mut self,
        placing: &Placing<'_>,
        found: &[(Key, Option<Slot>)],
        run: Range<usize>,
        (mut at, mut place): (Slot, Place),
        plain: Option<&Arc<Extra>>,
    ) -> (Slot, Place) {
        let &Placing { shelf, blocks, namespace, units } = placing;
        let copies = CopySet::one(shelf);
        let mut keys = found[run.clone()].iter();
        let new = run.clone().zip(&blocks[run.clone()]).map(|(unit, next)| {
            place = place.below(next.content);
            let name = next.name.unwrap_or(BlockName(0));
            let extra = units.extra(unit, plain, namespace);
            let children = u32::from(unit + 1 < run.end);
            (LiveBlock { name, place, parent: ROOT, children, copies: copies.clone(), extra }, units.tokens(unit))
        });
        self.pages.append(at, new, |slot| {
            at = slot;
            if let Some((key, _)) = keys.next() {
                self.names.insert(*key, slot);
            }
        });
        let count = run.len() as u64;
        self.held[shelf.index()] += count;
        self.copies += count;
        self.counts.stored += count;
        if namespace.is_some() || !self.namespaces.is_empty() {
            blocks[run].iter().filter_map(|next| next.name).for_each(|name| self.namespaces.note(name, namespace));
        }
        (at, place)
    }

    /// Whether no block is below the one at `slot`. Prompts start below [`ROOT`], so there may be steps.
    fn is_end(&self, slot: Slot) -> bool {
        if slot == ROOT { self.steps.len() == 0 } else { self.pages.block(slot).children == 0 }
    }

    /// Whether the held block at `slot` stands at `place`. If not, it is lost where it stands.
    fn stands_at(&mut self, slot: Slot, place: Place) -> bool {
        if self.pages.block(slot).place == place {
            return true;
        }
        self.counts.moved += 1;
        let copies = std::mem::take(&mut self.pages.block_mut(slot).copies);
        for copies in copies.iter() {
            self.held[copies.shelf().index()] -= 1;
            self.copies -= u64::from(copies.count());
        }
        self.vacate(slot);
        false
    }

    /// The step where `block` would stand, which is that block if there is none yet.
    fn step(&mut self, block: LiveBlock, tokens: &[u32]) -> Slot {
        let place = block.place;
        if let Some(slot) = self.find_step_below(block.parent, place) {
            return slot;
        }
        let slot = self.pages.insert(block, tokens);
        self.steps.insert(self.steps.key(place.word()), slot);
        slot
    }

    /// Gives `name` the step at `place` below `parent`, if there is one.
    fn settle_step(&mut self, name: BlockName, key: Key, parent: Slot, place: Place) -> Option<Slot> {
        let slot = self.find_step_below(parent, place)?;
        self.steps.remove(self.steps.key(place.word()), slot);
        self.pages.block_mut(slot).name = name;
        self.names.insert(key, slot);
        Some(slot)
    }
}
