//! Many children under one place.

use super::names::chain;
use super::{Batch, Block};
use crate::random::scatter;

/// Children of one place.
#[derive(Clone, Copy, Debug)]
pub struct Siblings {
    /// The block under which they stand; the root if none.
    pub parent: Option<Block>,
}

impl Siblings {
    /// Under the root.
    pub const ROOT: Self = Self { parent: None };
    /// Under a block.
    pub const BLOCK: Self = Self { parent: Some(Block { name: chain(0, 1), content: 1 }) };

    /// Child `number`.
    pub fn child(&self, number: u64) -> Block {
        let content = scatter(number + 2);
        Block { name: chain(self.parent.map_or(0, |parent| parent.name), content), content }
    }

    /// Adds the store of the parent, if it is a block.
    pub fn store_parent(&self, batch: &mut Batch) {
        if let Some(parent) = self.parent {
            batch.store(0, None, [parent]);
        }
    }

    /// Adds the store of child `number`.
    pub fn store(&self, number: u64, batch: &mut Batch) {
        batch.store(0, self.parent.map(|parent| parent.name), [self.child(number)]);
    }

    /// Adds the removal of child `number`.
    pub fn remove(&self, number: u64, batch: &mut Batch) {
        batch.remove(0, [self.child(number).name]);
    }

    /// The request of child `number`, stored or not.
    pub fn path(&self, number: u64) -> Vec<u64> {
        self.parent.iter().map(|parent| parent.content).chain([self.child(number).content]).collect()
    }
}
