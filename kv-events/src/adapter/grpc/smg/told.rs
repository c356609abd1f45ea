//! What one reader was told of one rank.

use hashbrown::HashMap;
use kv_index::BlockName;

use crate::Tier;
use crate::limits::LIVE_BLOCKS_MAX;

/// Blocks and their copies, as the engine has them and as the reader counts them.
#[derive(Debug, Default)]
pub(super) struct Told {
    copies: HashMap<(BlockName, Tier), Copies>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Copies {
    told: u32,
    untold: u32,
}

impl Told {
    /// Whether the reader holds the block, wherever.
    pub(super) fn holds(&self, name: BlockName) -> bool {
        Tier::ALL.into_iter().any(|tier| self.copies.get(&(name, tier)).is_some_and(|copies| copies.told > 0))
    }

    /// How many blocks are remembered.
    pub(super) fn len(&self) -> usize {
        self.copies.len()
    }

    /// The reader is told of one more copy.
    pub(super) fn tell(&mut self, name: BlockName, tier: Tier) {
        let copies = self.copies.entry((name, tier)).or_default();
        copies.told = copies.told.saturating_add(1);
    }

    /// There is one more copy, and the reader is not told of it.
    pub(super) fn note_untold(&mut self, name: BlockName, tier: Tier) {
        if self.copies.len() < LIVE_BLOCKS_MAX || self.copies.contains_key(&(name, tier)) {
            let copies = self.copies.entry((name, tier)).or_default();
            copies.untold = copies.untold.saturating_add(1);
        }
    }

    /// A copy is gone. Whether the reader is to be told: those that it does not know of go first.
    pub(super) fn remove(&mut self, name: BlockName, tier: Tier) -> bool {
        let Some(copies) = self.copies.get_mut(&(name, tier)) else { return false };
        let is_told = copies.untold == 0;
        if is_told {
            copies.told -= 1;
        } else {
            copies.untold -= 1;
        }
        if copies.told == 0 && copies.untold == 0 {
            self.copies.remove(&(name, tier));
        }
        is_told
    }

    /// Everything is gone.
    pub(super) fn clear(&mut self) {
        self.copies = HashMap::new();
    }
}
