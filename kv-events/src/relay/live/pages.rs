//! Blocks in pages that a snapshot shares until one of them changes.
//!
//! A cut copies the lists of pages and of their tokens, and no block: 32,000 pointers for a million blocks of 16 tokens. Whoever
//! changes a block of a page that a cut still holds copies that page first, 64 blocks of 48 bytes, and likewise the tokens.
//! So a cut takes a millisecond for a million blocks, and a change after it some microseconds, however large the state is.

use std::hint::black_box;

use super::block::{LiveBlock, ROOT};
use super::shared::{Row, SharedRow};
use super::windows::{SharedWindows, Windows};

/// A block's place in the pages.
pub(in crate::relay) type Slot = u32;

/// All blocks of a rank, with their tokens.
#[derive(Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the pages are what there is")]
pub(in crate::relay) struct Pages {
    pages: Vec<Row<Option<LiveBlock>>>,
    windows: Windows,
    free: Vec<Slot>,
    len: usize,
}

/// The blocks of a rank as they were.
#[derive(Debug)]
pub(in crate::relay) struct SharedPages {
    pages: Vec<SharedRow<Option<LiveBlock>>>,
    windows: SharedWindows,
}

impl Pages {
    /// How many blocks there are.
    pub(in crate::relay) fn len(&self) -> usize {
        self.len
    }

    /// The blocks as they are now, for as long as the caller wants to look at them.
    pub(in crate::relay) fn share(&mut self) -> SharedPages {
        SharedPages { pages: self.pages.iter_mut().map(Row::share).collect(), windows: self.windows.share() }
    }

    #[inline]
    pub(super) fn block(&self, slot: Slot) -> &LiveBlock {
        let (page, place) = split(slot);
        self.pages[page].get()[place].as_ref().expect("a slot is looked up while its block is there")
    }

    #[inline]
    pub(super) fn block_mut(&mut self, slot: Slot) -> &mut LiveBlock {
        let (page, place) = split(slot);
        self.pages[page].get_mut()[place].as_mut().expect("a slot is looked up while its block is there")
    }

    /// Looks at the slots that the next blocks will be put into, and does nothing with it: see [`SlotTable::fetch`].
    ///
    /// [`SlotTable::fetch`]: super::table::SlotTable::fetch
    pub(super) fn fetch_free(&self, blocks: usize) {
        let next = &self.free[self.free.len().saturating_sub(blocks)..];
        let looks = next.iter().map(|&slot| split(slot)).map(|(page, place)| self.pages[page].get()[place].is_none());
        black_box(looks.fold(true, |all, look| all & look));
    }

    /// Puts `block` into a free slot, and counts it at its parent.
    pub(super) fn insert(&mut self, block: LiveBlock, tokens: &[u32]) -> Slot {
        if block.parent != ROOT {
            self.block_mut(block.parent).children += 1;
        }
        self.put(block, tokens)
    }

    /// Puts blocks into free slots, the first below `parent` and each other one below the one before it. `placed` is told where each
    /// is. Each counts the one below it already.
    pub(super) fn append<'t>(
        &mut self,
        mut parent: Slot,
        blocks: impl Iterator<Item = (LiveBlock, &'t [u32])>,
        mut placed: impl FnMut(Slot),
    ) {
        if parent != ROOT {
            self.block_mut(parent).children += 1;
        }
        for (mut block, tokens) in blocks {
            block.parent = parent;
            parent = self.put(block, tokens);
            placed(parent);
        }
    }

    #[inline]
    fn put(&mut self, block: LiveBlock, tokens: &[u32]) -> Slot {
        if self.free.is_empty() {
            self.add_page();
        }
        let slot = self.free.pop().expect("a page was added when none was free");
        let (page, place) = split(slot);
        self.pages[page].get_mut()[place] = Some(block);
        self.windows.put(slot, tokens);
        self.len += 1;
        slot
    }

    #[cold]
    fn add_page(&mut self) {
        let first = slot_of(self.pages.len(), 0);
        self.pages.push(Row::new(vec![None; PAGE_BLOCKS].into()));
        self.free.extend((first..slot_of(self.pages.len(), 0)).rev());
    }

    pub(super) fn remove(&mut self, slot: Slot) -> LiveBlock {
        let (page, place) = split(slot);
        let block = self.pages[page].get_mut()[place].take().expect("a slot is freed once");
        self.windows.free(slot);
        self.free.push(slot);
        self.len -= 1;
        block
    }
}

impl SharedPages {
    /// No block has this slot or a higher one.
    pub(in crate::relay) fn slots(&self) -> Slot {
        slot_of(self.pages.len(), 0)
    }

    /// The block at `slot`, if there is one.
    pub(in crate::relay) fn block(&self, slot: Slot) -> Option<&LiveBlock> {
        let (page, place) = split(slot);
        self.pages.get(page)?[place].as_ref()
    }

    /// The tokens that the content of the block at `slot` covers.
    pub(in crate::relay) fn tokens(&self, slot: Slot) -> &[u32] {
        self.windows.of(slot)
    }
}

fn split(slot: Slot) -> (usize, usize) {
    (slot as usize / PAGE_BLOCKS, slot as usize % PAGE_BLOCKS)
}

fn slot_of(page: usize, place: usize) -> Slot {
    Slot::try_from(page * PAGE_BLOCKS + place).expect("a rank has at most BLOCKS_MAX blocks")
}

/// Small enough that the first change of a page after a cut copies little, large enough that a cut has few pages to share.
const PAGE_BLOCKS: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kv_index::BlockName;

    use super::*;
    use crate::relay::live::block::LiveBlock;

    fn filled() -> (Pages, Vec<Slot>) {
        let mut pages = Pages::default();
        let insert = |name| pages.insert(LiveBlock::for_test(BlockName(name)), &[u32::try_from(name).unwrap(); 16]);
        let slots = (0..200).map(insert).collect();
        (pages, slots)
    }

    #[test]
    fn what_is_shared_does_not_change() {
        let (mut pages, slots) = filled();
        let shared = pages.share();
        pages.block_mut(slots[3]).name = BlockName(1_000);
        pages.remove(slots[70]);
        assert_eq!(pages.insert(LiveBlock::for_test(BlockName(2_000)), &[9; 16]), slots[70], "a free slot is used again");
        let names: Vec<_> = slots.iter().map(|&slot| shared.block(slot).unwrap().name.0).collect();
        assert_eq!(names, (0..200).collect::<Vec<_>>());
        assert_eq!((shared.tokens(slots[70]), pages.share().tokens(slots[70])), (&[70; 16][..], &[9; 16][..]));
        assert_eq!((pages.block(slots[3]).name.0, pages.block(slots[70]).name.0, pages.len()), (1_000, 2_000, 200));
    }

    #[test]
    fn only_pages_that_change_are_copied() {
        let (mut pages, slots) = filled();
        let shared = pages.share();
        pages.block_mut(slots[3]).name = BlockName(1_000);
        let now = pages.share();
        let same: Vec<_> = shared.pages.iter().zip(&now.pages).map(|(then, now)| Arc::ptr_eq(then, now)).collect();
        assert_eq!(same, [false, true, true, true]);
    }
}
