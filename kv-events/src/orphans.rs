//! Stores whose parent is not held: they wait for it, bounded, and are never hung up anywhere else.
//!
//! A store re-rooted on a guess would credit blocks that nobody holds; a store thrown away would take its whole
//! continuation with it. While one waits, the stream says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kv_index::{Block, BlockName};

use crate::limits::ORPHAN_BLOCKS_MAX;
use crate::namespace::OwnedNamespace;
use crate::normalize::GroupId;
use crate::tier::Tier;

/// A store as it is applied, with whatever else its user must know of it when it comes back.
#[derive(Clone, Debug)]
pub(crate) struct PendingStore<D = ()> {
    pub(crate) group: GroupId,
    pub(crate) tier: Tier,
    pub(crate) parent: Option<BlockName>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) namespace: Option<Arc<OwnedNamespace>>,
    pub(crate) detail: D,
}

/// The waiting stores of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Orphans<D = ()> {
    /// By number, in the order in which they came. Shared with whoever copied them.
    stores: BTreeMap<u64, Arc<PendingStore<D>>>,
    /// The number of the next store.
    next: u64,
    /// Blocks of all `stores`.
    blocks: usize,
    /// Blocks of stores that gave way. What became of them is not known before a clear.
    given_up: usize,
    /// Each parent that is waited for, with the number of a store that does.
    by_parent: BTreeSet<(BlockName, u64)>,
    /// Where each waiting name stands, so that the removal of a block that nobody holds costs one probe: a stream that
    /// joined late sees thousands of them.
    by_name: BTreeSet<Standing>,
}

/// A name of a group on a tier, the number of the store that lists it, and its place in that store.
type Standing = (GroupId, Tier, BlockName, u64, usize);

impl<D> Default for Orphans<D> {
    fn default() -> Self {
        Self { stores: BTreeMap::new(), next: 0, blocks: 0, given_up: 0, by_parent: BTreeSet::new(), by_name: BTreeSet::new() }
    }
}

impl<D: Clone> Orphans<D> {
    /// Makes `store` wait. Returns how many stores had to give way: the oldest, or this one if it is too long by itself.
    pub(crate) fn wait(&mut self, store: PendingStore<D>) -> u64 {
        let Some(parent) = store.parent else { return 0 };
        if store.blocks.len() > ORPHAN_BLOCKS_MAX {
            self.given_up += store.blocks.len();
            return 1;
        }
        let number = self.next;
        self.next += 1;
        self.blocks += store.blocks.len();
        self.by_parent.insert((parent, number));
        self.by_name.extend(standings(number, &store));
        self.stores.insert(number, Arc::new(store));
        let mut expired = 0;
        while self.blocks > ORPHAN_BLOCKS_MAX
            && let Some((&oldest, _)) = self.stores.first_key_value()
        {
            self.given_up += self.take_out(oldest).map_or(0, |store| store.blocks.len());
            expired += 1;
        }
        expired
    }

    /// The stores that waited for `parent`, in the order in which they came.
    pub(crate) fn take(&mut self, parent: BlockName) -> Vec<PendingStore<D>> {
        let numbers: Vec<u64> = self.by_parent.range((parent, 0)..=(parent, u64::MAX)).map(|waiting| waiting.1).collect();
        numbers.into_iter().filter_map(|number| self.take_out(number)).map(Arc::unwrap_or_clone).collect()
    }

    /// What waits, in the order in which it came.
    pub(crate) fn stores(&self) -> impl Iterator<Item = &Arc<PendingStore<D>>> {
        self.stores.values()
    }

    /// The engine removed a block of a waiting store, the oldest if there are several. Whether there was one.
    pub(crate) fn remove(&mut self, group: GroupId, tier: Tier, name: BlockName) -> bool {
        let all = (group, tier, name, 0, 0)..=(group, tier, name, u64::MAX, usize::MAX);
        let Some(standing) = self.by_name.range(all).next().copied() else { return false };
        self.by_name.remove(&standing);
        let (.., number, at) = standing;
        if let Some(store) = self.stores.get_mut(&number) {
            let store = Arc::make_mut(store);
            store.blocks[at].name = None;
            // Steps behind the last named block lead nowhere, and a store that names nothing waits for nothing.
            let named = store.blocks.iter().rposition(|block| block.name.is_some()).map_or(0, |last| last + 1);
            self.blocks -= store.blocks.len() - named;
            store.blocks.truncate(named);
            if named == 0 {
                self.take_out(number);
            }
        }
        true
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Blocks that wait, or that gave way to later ones.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks + self.given_up
    }

    fn take_out(&mut self, number: u64) -> Option<Arc<PendingStore<D>>> {
        let store = self.stores.remove(&number)?;
        self.blocks -= store.blocks.len();
        if let Some(parent) = store.parent {
            self.by_parent.remove(&(parent, number));
        }
        for standing in standings(number, &store) {
            self.by_name.remove(&standing);
        }
        Some(store)
    }
}

fn standings<D>(number: u64, store: &PendingStore<D>) -> impl Iterator<Item = Standing> + '_ {
    let named = store.blocks.iter().enumerate().filter_map(|(at, block)| Some((at, block.name?)));
    named.map(move |(at, name)| (store.group, store.tier, name, number, at))
}

#[cfg(test)]
mod tests {
    use kv_index::ContentHash;

    use super::*;

    fn store(parent: u64, names: &[u64]) -> PendingStore {
        let blocks = names.iter().map(|&name| Block::named(BlockName(name), ContentHash(name))).collect();
        PendingStore {
            group: GroupId(0),
            tier: Tier::Device,
            parent: Some(BlockName(parent)),
            blocks,
            namespace: None,
            detail: (),
        }
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
        assert_eq!(orphans.blocks(), 1, "the last block is no step to anywhere");
        assert!(!orphans.remove(GroupId(0), Tier::Device, BlockName(3)), "once");
        orphans.wait(store(7, &[2, 3]));
        assert!(orphans.remove(GroupId(0), Tier::Device, BlockName(2)), "the older of two copies");
        assert!(orphans.take(BlockName(1)).is_empty(), "a store that names nothing any more does not wait");
        assert!(orphans.remove(GroupId(0), Tier::Device, BlockName(2)));
        let names: Vec<_> = orphans.take(BlockName(7))[0].blocks.iter().map(|block| block.name).collect();
        assert_eq!((names, orphans.blocks()), (vec![None, Some(BlockName(3))], 0));
    }

    #[test]
    fn what_came_back_is_not_found_by_a_later_removal() {
        let mut orphans = Orphans::default();
        orphans.wait(store(1, &[2, 3]));
        orphans.take(BlockName(1));
        assert!(!orphans.remove(GroupId(0), Tier::Device, BlockName(2)));
        orphans.wait(store(1, &[2]));
        orphans.clear();
        assert!(!orphans.remove(GroupId(0), Tier::Device, BlockName(2)) && orphans.blocks() == 0);
    }

    // P32.
    #[test]
    fn nothing_is_kept_of_what_came_back_was_removed_or_gave_way() {
        let mut orphans = Orphans::default();
        orphans.wait(store(1, &[2, 3]));
        orphans.wait(store(4, &[5]));
        orphans.take(BlockName(1));
        orphans.remove(GroupId(0), Tier::Device, BlockName(5));
        (0..=ORPHAN_BLOCKS_MAX as u64).for_each(|name| _ = orphans.wait(store(7, &[name])));
        orphans.take(BlockName(7));
        assert!(orphans.by_parent.is_empty() && orphans.by_name.is_empty() && orphans.stores.is_empty());
        assert_eq!((orphans.blocks, orphans.given_up), (0, 1));
    }

    #[test]
    fn removals_of_unknown_blocks_do_not_search_what_waits() {
        let mut orphans = Orphans::default();
        (0..ORPHAN_BLOCKS_MAX as u64).for_each(|name| _ = orphans.wait(store(name + 1, &[name])));
        // Searched one by one, these would be 4 * 10^9 steps.
        assert!((0..1 << 16).all(|name| !orphans.remove(GroupId(0), Tier::Device, BlockName(u64::MAX - name))));
        assert!((0..ORPHAN_BLOCKS_MAX as u64).rev().all(|name| orphans.remove(GroupId(0), Tier::Device, BlockName(name))));
        assert_eq!(orphans.blocks(), 0);
    }

    #[test]
    fn the_oldest_give_way_at_the_bound() {
        let mut orphans = Orphans::default();
        let many: Vec<u64> = (0..ORPHAN_BLOCKS_MAX as u64 / 2).collect();
        assert_eq!((orphans.wait(store(1, &many)), orphans.wait(store(2, &many)), orphans.wait(store(3, &many))), (0, 0, 1));
        assert!(orphans.take(BlockName(1)).is_empty() && orphans.take(BlockName(3)).len() == 1);
        let too_many: Vec<u64> = (0..=ORPHAN_BLOCKS_MAX as u64).collect();
        assert_eq!(orphans.wait(store(9, &too_many)), 1, "one that is too long by itself takes nobody's place");
        assert_eq!((orphans.take(BlockName(2)).len(), orphans.take(BlockName(9)).len()), (1, 0));
        assert_eq!(orphans.blocks(), many.len() + too_many.len(), "what gave way is still not known");
        orphans.clear();
        assert_eq!(orphans.blocks(), 0);
    }
}
