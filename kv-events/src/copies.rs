//! When a block is really gone.
//!
//! vLLM does not de-duplicate: it stores a block again for a second physical copy, and removes it once for each. And
//! one block lives on the device and on the host at a time. So a name leaves a view when its last copy on any
//! tier goes. Counting is sparse: a held name without an entry has exactly one copy, on the device.

use hashbrown::HashMap;
use kv_index::BlockName;

use crate::normalize::GroupId;
use crate::sparse;
use crate::tier::Tier;

/// What a repeated store of one block on one tier means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CopyRule {
    /// One more physical copy, which needs a removal of its own.
    #[default]
    Counted,
    /// Nothing: the engine announces again what it has (vLLM asked for `kv_cache_report_mode=full`).
    Reannounced,
}

/// The copies of one stream's blocks that are not just one on the device.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    rule: CopyRule,
    counts: HashMap<(GroupId, BlockName), Count>,
}

/// What is left of a block after one copy was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing: the block is gone.
    Nothing,
    /// Copies elsewhere, none on the tier.
    Elsewhere,
    /// Further copies on the tier.
    Here,
    /// There was no copy on the tier: nothing changed.
    Unknown,
}

/// Copies on each tier. 65,535 of one block on one tier are more than any pool holds; beyond them the count stays.
type Count = [u16; Tier::ALL.len()];

const ONE_ON_DEVICE: Count = [1, 0, 0, 0];

impl Copies {
    /// No copies yet.
    pub fn new(rule: CopyRule) -> Self {
        Self { rule, counts: HashMap::new() }
    }

    /// A copy came. `held` says whether the group held the block before.
    pub fn add(&mut self, group: GroupId, tier: Tier, name: BlockName, held: bool) {
        let before = if held { self.of(group, name) } else { Count::default() };
        let mut count = before;
        let on_tier = &mut count[tier as usize];
        *on_tier = match self.rule {
            CopyRule::Counted => on_tier.saturating_add(1),
            CopyRule::Reannounced => 1,
        };
        self.set(group, name, count);
    }

    /// A copy went. `held` says whether the group holds the block.
    pub fn remove(&mut self, group: GroupId, tier: Tier, name: BlockName, held: bool) -> Left {
        let mut count = if held { self.of(group, name) } else { Count::default() };
        let on_tier = &mut count[tier as usize];
        if *on_tier == 0 {
            return Left::Unknown;
        }
        *on_tier -= 1;
        let here = *on_tier > 0;
        self.set(group, name, count);
        match (here, count == Count::default()) {
            (true, _) => Left::Here,
            (false, true) => Left::Nothing,
            (false, false) => Left::Elsewhere,
        }
    }

    /// The block went whatever its copies, as a name does that was stored at another place.
    pub fn forget(&mut self, group: GroupId, name: BlockName) {
        sparse::remove(&mut self.counts, &(group, name));
    }

    /// Everything went.
    pub fn clear(&mut self) {
        self.counts = HashMap::new();
    }

    /// How many blocks have other than one copy on the device.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether every block has exactly one copy, on the device.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The copies of a held block on `tier`.
    pub fn on(&self, group: GroupId, tier: Tier, name: BlockName) -> u16 {
        self.of(group, name)[tier as usize]
    }

    fn of(&self, group: GroupId, name: BlockName) -> Count {
        self.counts.get(&(group, name)).copied().unwrap_or(ONE_ON_DEVICE)
    }

    fn set(&mut self, group: GroupId, name: BlockName, count: Count) {
        if count == ONE_ON_DEVICE || count == Count::default() {
            sparse::remove(&mut self.counts, &(group, name));
        } else {
            self.counts.insert((group, name), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const G: GroupId = GroupId(0);
    const N: BlockName = BlockName(7);

    #[test]
    fn one_device_copy_needs_no_entry() {
        let mut copies = Copies::default();
        copies.add(G, Tier::Device, N, false);
        assert!(copies.is_empty());
        assert_eq!(copies.remove(G, Tier::Host, N, true), Left::Unknown);
        assert_eq!(copies.remove(G, Tier::Device, N, true), Left::Nothing);
        assert_eq!(copies.remove(G, Tier::Device, N, false), Left::Unknown);
    }

    #[test]
    fn a_block_lives_until_its_last_copy_on_any_tier() {
        let mut copies = Copies::default();
        copies.add(G, Tier::Device, N, false);
        copies.add(G, Tier::Device, N, true);
        copies.add(G, Tier::Host, N, true);
        assert_eq!(copies.remove(G, Tier::Device, N, true), Left::Here);
        assert_eq!(copies.remove(G, Tier::Device, N, true), Left::Elsewhere);
        assert_eq!(copies.remove(G, Tier::Device, N, true), Left::Unknown, "a count never falls below 0");
        assert_eq!(copies.remove(G, Tier::Host, N, true), Left::Nothing);
        assert!(copies.is_empty());
    }

    #[test]
    fn a_block_on_the_host_only_has_an_entry() {
        let mut copies = Copies::default();
        copies.add(G, Tier::Host, N, false);
        assert_eq!((copies.len(), copies.remove(G, Tier::Device, N, true)), (1, Left::Unknown));
        assert_eq!(copies.remove(G, Tier::Host, N, true), Left::Nothing);
    }

    #[test]
    fn an_engine_that_announces_again_has_one_copy() {
        let mut copies = Copies::new(CopyRule::Reannounced);
        copies.add(G, Tier::Device, N, false);
        copies.add(G, Tier::Device, N, true);
        assert_eq!(copies.remove(G, Tier::Device, N, true), Left::Nothing);
    }

    #[test]
    fn copies_beyond_the_counter_stay_at_its_end() {
        let mut copies = Copies::default();
        (0..u32::from(u16::MAX) + 2).for_each(|copy| copies.add(G, Tier::Device, N, copy > 0));
        assert_eq!(copies.on(G, Tier::Device, N), u16::MAX);
        assert_eq!(copies.remove(G, Tier::Device, N, true), Left::Here);
    }

    proptest! {
        #[test]
        fn equals_counting_everything(steps in proptest::collection::vec((any::<bool>(), 0usize..4, 0u64..3), 0..60)) {
            let mut copies = Copies::default();
            let mut all: HashMap<BlockName, [u16; 4]> = HashMap::new();
            for (store, tier, name) in steps {
                let (tier, name) = (Tier::ALL[tier], BlockName(name));
                let count = all.entry(name).or_default();
                let held = *count != [0; 4];
                if store {
                    copies.add(G, tier, name, held);
                    count[tier as usize] += 1;
                } else {
                    let left = copies.remove(G, tier, name, held);
                    prop_assert_eq!(left == Left::Unknown, count[tier as usize] == 0);
                    count[tier as usize] = count[tier as usize].saturating_sub(1);
                    prop_assert_eq!(left == Left::Nothing, held && *count == [0; 4]);
                }
            }
        }
    }
}
