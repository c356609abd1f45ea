//! Decode churn: short private tails that grow under shared prompts and go again, a million of them.

use super::names::chain;
use super::prompts::{Prompts, Shape};
use super::{Batch, Block};
use crate::random::{SplitMix64, scatter};

/// The prompts under which tails grow: 8 holders each, so that tails of several workers leave every prompt's end.
pub const PROMPTS: Shape =
    Shape { name: "decode", workers: 64, heads: 0, head_len: (0, 0), prompts: 256, prompt_len: (64, 64), holders_tenths: 80 };

/// Blocks of a tail, both ends included.
pub const TAIL_LEN: (u32, u32) = (1, 16);

/// A tail: where it grows, and the number from which its blocks follow.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    pub worker: u32,
    pub prompt: u32,
    /// The agreed name of the prompt's last block.
    parent: u64,
    number: u64,
    len: u32,
}

impl Tail {
    /// Tail `number` of a run, under a random pair of `prompts`.
    pub fn draw(prompts: &Prompts, number: u64, random: &mut SplitMix64) -> Self {
        let pair = random.one_of(prompts.pairs());
        let parent = prompts.last_name(pair);
        Self { worker: pair.worker, prompt: pair.prompt, parent, number, len: random.within(TAIL_LEN) }
    }

    /// The tail's length in blocks.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Never: a tail has a block.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tail's blocks.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + use<> {
        let Self { number, parent, len, .. } = *self;
        (0..u64::from(len)).scan(parent, move |parent, at| {
            let content = scatter(scatter(number) ^ at);
            *parent = chain(*parent, content);
            Some(Block { name: *parent, content })
        })
    }

    /// Adds the store of the whole tail.
    pub fn store(&self, batch: &mut Batch) {
        batch.store(self.worker, Some(self.parent), self.blocks());
    }

    /// Adds the store of the tail's block `at`, as an engine announces it while it decodes.
    pub fn store_block(&self, at: u32, batch: &mut Batch) {
        let mut blocks = self.blocks().skip(at.saturating_sub(1) as usize);
        let parent = if at == 0 { Some(self.parent) } else { blocks.next().map(|block| block.name) };
        batch.store(self.worker, parent, blocks.next());
    }

    /// Adds the removal of the tail, its end first.
    pub fn remove(&self, batch: &mut Batch) {
        let mut names: Vec<u64> = self.blocks().map(|block| block.name).collect();
        names.reverse();
        batch.remove(self.worker, names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Event;
    use crate::workload::names::Names;

    #[test]
    fn a_tail_announced_block_by_block_is_the_tail_announced_at_once() {
        let prompts = Prompts::draw(PROMPTS.scaled(0.1), Names::Agree, 1);
        let mut random = SplitMix64::new(3);
        for number in 0..50 {
            let tail = Tail::draw(&prompts, number, &mut random);
            let (mut at_once, mut steps) = (Batch::default(), Batch::default());
            tail.store(&mut at_once);
            (0..tail.len()).for_each(|at| tail.store_block(at, &mut steps));
            assert_eq!(at_once.blocks, steps.blocks);
            let parents: Vec<_> = steps.events.iter().map(parent).collect();
            let names = at_once.blocks.iter().map(|block| Some(block.name));
            assert!(parents.into_iter().eq([parent(&at_once.events[0])].into_iter().chain(names).take(steps.events.len())));
        }
    }

    fn parent(event: &Event) -> Option<u64> {
        match *event {
            Event::Store { parent, .. } => parent,
            _ => panic!("a store"),
        }
    }
}
