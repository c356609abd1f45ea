//! Stores whose parent is not held: they wait for it, bounded, and are never hung up anywhere else.
//!
//! A store re-rooted on a guess would credit blocks that nobody holds; a store thrown away would take its whole
//! continuation with it. While one waits, the stream says so.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use kv_index::{Block, BlockName};

use crate::limits::ORPHAN_BLOCKS_MAX;
use crate::namespace::OwnedNamespace;
use crate::normalize::GroupId;
use crate::tier::Tier;

/// A store as it is applied.
#[derive(Clone, Debug)]
pub(crate) struct PendingStore {
    pub(crate) group: GroupId,
    pub(crate) tier: Tier,
    pub(crate) parent: Option<BlockName>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) namespace: Option<Arc<OwnedNamespace>>,
}

/// The waiting stores of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orphans {
    waiting: VecDeque<PendingStore>,
    blocks: usize,
    /// How many waiting stores name each parent, so that a store with no child waiting costs one probe.
    parents: HashMap<BlockName, usize>,
}

impl Orphans {
    /// Makes `store` wait. Returns how many older stores had to give way.
    pub(crate) fn wait(&mut self, store: PendingStore) -> u64 {
        let Some(parent) = store.parent else { return 0 };
        self.blocks += store.blocks.len();
        *self.parents.entry(parent).or_default() += 1;
        self.waiting.push_back(store);
        let mut expired = 0;
        while self.blocks > ORPHAN_BLOCKS_MAX && self.waiting.len() > 1 {
            self.take_at(0);
            expired += 1;
        }
        expired
    }

    /// The stores that waited for `parent`, in the order in which they came.
    pub(crate) fn take(&mut self, parent: BlockName) -> Vec<PendingStore> {
        let waiting = self.parents.get(&parent).copied().unwrap_or(0);
        let mut taken = Vec::with_capacity(waiting);
        let mut at = 0;
        while taken.len() < waiting {
            if self.waiting[at].parent == Some(parent) {
                taken.push(self.take_at(at));
            } else {
                at += 1;
            }
        }
        taken
    }

    /// The engine removed a block of a waiting store. Whether there was one.
    pub(crate) fn remove(&mut self, group: GroupId, tier: Tier, name: BlockName) -> bool {
        let stores = self.waiting.iter_mut().filter(|store| (store.group, store.tier) == (group, tier));
        let found = stores.flat_map(|store| &mut store.blocks).find(|block| block.name == Some(name));
        found.map(|block| block.name = None).is_some()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Blocks that wait.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    fn take_at(&mut self, at: usize) -> PendingStore {
        let store = self.waiting.remove(at).expect("the caller looked");
        self.blocks -= store.blocks.len();
        if let Some(hashbrown::hash_map::EntryRef::Occupied(mut count)) =
            store.parent.as_ref().map(|parent| self.parents.entry_ref(parent))
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        store
    }
}

#[cfg(test)]
mod tests {
    use kv_index::ContentHash;

    use super::*;

    fn store(parent: u64, names: &[u64]) -> PendingStore {
        let blocks = names.iter().map(|&name| Block::named(BlockName(name), ContentHash(name))).collect();
        PendingStore { group: GroupId(0), tier: Tier::Device, parent: Some(BlockName(parent)), blocks, namespace: None }
    }

    #[test]
    fn stores_come_back_in_order_and_once() {
        let mut orphans = Orphans::default();
        for waiting in [store(1, &[2]), store(9, &[3]), store(1, &[4, 5])] {
            assert_eq!(orphans.wait(waiting), 0);
        }
        assert_eq!(orphans.blocks(), 4);
        let taken: Vec<_> = orphans.take(BlockName(1)).iter().map(|store| store.blocks.len()).collect();
        assert_eq!(taken, [1, 2]);
        assert!(orphans.take(BlockName(1)).is_empty() && orphans.blocks() == 1);
    }

    #[test]
    fn a_removed_block_is_no_longer_held_when_its_store_comes_back() {
        let mut orphans = Orphans::default();
        orphans.wait(store(1, &[2, 3]));
        assert!(!orphans.remove(GroupId(0), Tier::Host, BlockName(3)));
        assert!(orphans.remove(GroupId(0), Tier::Device, BlockName(3)));
        assert_eq!(orphans.take(BlockName(1))[0].blocks[1].name, None);
    }

    #[test]
    fn the_oldest_give_way_at_the_bound() {
        let mut orphans = Orphans::default();
        let many: Vec<u64> = (0..ORPHAN_BLOCKS_MAX as u64 / 2).collect();
        assert_eq!((orphans.wait(store(1, &many)), orphans.wait(store(2, &many)), orphans.wait(store(3, &many))), (0, 0, 1));
        assert!(orphans.take(BlockName(1)).is_empty() && orphans.take(BlockName(3)).len() == 1);
    }
}
