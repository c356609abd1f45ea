//! Blocks in pages that a snapshot shares until one of them changes.
//!
//! A cut copies the list of pages and no block: 16,000 counters for a million blocks. Whoever changes a block of a page that
//! a cut still holds copies that page first, 64 blocks of 64 bytes. So neither the cut nor any change after it takes
//! longer than some hundred microseconds, however large the state is.

use std::sync::Arc;

use super::block::{LiveBlock, ROOT};

/// A block's place in the pages.
pub(in crate::relay) type Slot = u32;

/// A page, as a cut shares it.
pub(in crate::relay) type Page = Arc<[Option<LiveBlock>; PAGE_BLOCKS]>;

/// All blocks of a rank.
#[derive(Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the pages are what there is")]
pub(in crate::relay) struct Pages {
    pages: Vec<Page>,
    free: Vec<Slot>,
    len: usize,
}

impl Pages {
    /// How many blocks there are.
    pub(in crate::relay) fn len(&self) -> usize {
        self.len
    }

    /// The pages as they are now, for as long as the caller wants to look at them.
    pub(in crate::relay) fn share(&self) -> Vec<Page> {
        self.pages.clone()
    }

    pub(super) fn block(&self, slot: Slot) -> &LiveBlock {
        block_in(&self.pages, slot).expect("a slot is looked up while its block is there")
    }

    pub(super) fn block_mut(&mut self, slot: Slot) -> &mut LiveBlock {
        let (page, place) = split(slot);
        Arc::make_mut(&mut self.pages[page])[place].as_mut().expect("a slot is looked up while its block is there")
    }

    /// Puts `block` into a free slot, and counts it at its parent.
    pub(super) fn insert(&mut self, block: LiveBlock) -> Slot {
        if self.free.is_empty() {
            self.add_page();
        }
        let slot = self.free.pop().expect("a page was added when none was free");
        let (page, place) = split(slot);
        let (parent_page, parent_place) = split(block.parent);
        if parent_page != page && block.parent != ROOT {
            self.block_mut(block.parent).children += 1;
        }
        let blocks = Arc::make_mut(&mut self.pages[page]);
        if parent_page == page
            && let Some(parent) = &mut blocks[parent_place]
        {
            parent.children += 1;
        }
        blocks[place] = Some(block);
        self.len += 1;
        slot
    }

    #[cold]
    fn add_page(&mut self) {
        let first = slot_of(self.pages.len(), 0);
        self.pages.push(Arc::new(std::array::from_fn(|_| None)));
        self.free.extend((first..slot_of(self.pages.len(), 0)).rev());
    }

    pub(super) fn remove(&mut self, slot: Slot) -> LiveBlock {
        let (page, place) = split(slot);
        let block = Arc::make_mut(&mut self.pages[page])[place].take().expect("a slot is freed once");
        self.free.push(slot);
        self.len -= 1;
        block
    }
}

/// The block at `slot`, if there is one.
pub(in crate::relay) fn block_in(pages: &[Page], slot: Slot) -> Option<&LiveBlock> {
    let (page, place) = split(slot);
    pages.get(page)?[place].as_ref()
}

fn split(slot: Slot) -> (usize, usize) {
    (slot as usize / PAGE_BLOCKS, slot as usize % PAGE_BLOCKS)
}

fn slot_of(page: usize, place: usize) -> Slot {
    Slot::try_from(page * PAGE_BLOCKS + place).expect("a rank has at most BLOCKS_MAX blocks")
}

/// Small enough that the first change of a page after a cut copies little, large enough that a cut has few pages to share.
pub(in crate::relay) const PAGE_BLOCKS: usize = 64;

#[cfg(test)]
mod tests {
    use kv_index::BlockName;

    use super::*;
    use crate::relay::live::block::LiveBlock;

    fn block(name: u64) -> LiveBlock {
        LiveBlock::for_test(BlockName(name))
    }

    #[test]
    fn what_is_shared_does_not_change() {
        let mut pages = Pages::default();
        let slots: Vec<_> = (0..200).map(|name| pages.insert(block(name))).collect();
        let shared = pages.share();
        pages.block_mut(slots[3]).name = BlockName(1_000);
        pages.remove(slots[70]);
        assert_eq!(pages.insert(block(2_000)), slots[70], "a free slot is used again");
        let names: Vec<_> = slots.iter().map(|&slot| block_in(&shared, slot).unwrap().name.0).collect();
        assert_eq!(names, (0..200).collect::<Vec<_>>());
        assert_eq!((pages.block(slots[3]).name.0, pages.block(slots[70]).name.0, pages.len()), (1_000, 2_000, 200));
    }

    #[test]
    fn only_pages_that_change_are_copied() {
        let mut pages = Pages::default();
        let slots: Vec<_> = (0..200).map(|name| pages.insert(block(name))).collect();
        let shared = pages.share();
        pages.block_mut(slots[3]).name = BlockName(1_000);
        let same: Vec<_> = shared.iter().zip(pages.share()).map(|(then, now)| Arc::ptr_eq(then, &now)).collect();
        assert_eq!(same, [false, true, true, true]);
    }
}
