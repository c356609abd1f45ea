//! Prompts of chosen lengths with chosen numbers of holders.

use super::names::chain;
use super::{Batch, Block};
use crate::random::scatter;

/// Prompts of one length that the first workers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    pub holders: u32,
    pub len: u32,
}

/// Different prompts of one rung.
pub const PROMPTS: u32 = 16;
/// Workers of the ladder's index.
pub const WORKERS: u32 = 1_024;

/// More and more holders of a usual prompt.
pub fn holders() -> [Rung; 6] {
    [1, 4, 16, 64, 256, WORKERS].map(|holders| Rung { holders, len: 64 })
}

/// Longer and longer prompts with a few holders.
pub fn lengths() -> [Rung; 6] {
    [8, 32, 128, 512, 2_048, 8_192].map(|len| Rung { holders: 8, len })
}

impl Rung {
    fn blocks(self, prompt: u32) -> impl Iterator<Item = Block> {
        let seed = scatter(u64::from(self.holders) << 40 | u64::from(self.len) << 8 | u64::from(prompt));
        (0..u64::from(self.len)).scan(0, move |parent, at| {
            let content = scatter(seed.wrapping_add(at));
            *parent = chain(*parent, content);
            Some(Block { name: *parent, content })
        })
    }

    /// Adds the store of `prompt` for `worker`.
    pub fn store(self, prompt: u32, worker: u32, batch: &mut Batch) {
        batch.store(worker, None, self.blocks(prompt));
    }

    /// The request of `prompt`.
    pub fn path(self, prompt: u32) -> Vec<u64> {
        self.blocks(prompt).map(|block| block.content).collect()
    }
}
