//! What one reader was told of one rank.

use hashbrown::HashMap;
use kv_index::BlockName;

use crate::Tier;

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

    /// There is one more copy of a block that the reader holds there, and it is not told.
    pub(super) fn note_untold(&mut self, name: BlockName, tier: Tier) {
        if let Some(copies) = self.copies.get_mut(&(name, tier)) {
            copies.untold = copies.untold.saturating_add(1);
        }
    }

    /// A copy is gone. Whether the reader is to be told.
    pub(super) fn remove(&mut self, name: BlockName, tier: Tier) -> bool {
        let Some(copies) = self.copies.get_mut(&(name, tier)) else { return false };
        if copies.untold > 0 {
            copies.untold -= 1;
            return false;
        }
        copies.told -= 1;
        if copies.told == 0 {
            self.copies.remove(&(name, tier));
        }
        true
    }

    /// Everything is gone.
    pub(super) fn clear(&mut self) {
        self.copies = HashMap::new();
    }
}
