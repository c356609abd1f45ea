//! The three shapes: prompts that begin with their group's head, and the workers that hold them.
//!
//! Groups get a head length drawn from a range; a prompt draws a group and a length; holders are drawn without
//! replacement; all (prompt, worker) pairs are shuffled, and that is the store order. The first time a worker meets a
//! head it stores the whole prompt without parent, later only the suffix under the head's last block, so stored blocks
//! equal memberships.

use std::ops::Range;

use super::names::{Names, chain};
use super::{Batch, Block};
use crate::random::{SplitMix64, scatter};

/// How prompts are drawn. Lengths are in blocks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub name: &'static str,
    pub workers: u32,
    pub heads: u32,
    pub head_len: (u32, u32),
    pub prompts: u32,
    /// Of the whole prompt, head included.
    pub prompt_len: (u32, u32),
    /// Holders of a prompt, in tenths: 13 is one holder, and a second for three prompts in ten.
    pub holders_tenths: u32,
}

/// A prompt: the blocks of its head, if it has one, and its own.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub head: Option<u32>,
    pub suffix: Range<u32>,
}

/// One worker's holding of one prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub prompt: u32,
    pub worker: u32,
    /// Whether the worker meets the prompt's head here for the first time.
    pub brings_head: bool,
}

/// Prompts of one shape, with the order in which they are stored.
#[derive(Clone, Debug)]
pub struct Prompts {
    pub shape: Shape,
    pub names: Names,
    /// All blocks, with agreed names: the heads' first, then the suffixes'.
    blocks: Vec<Block>,
    heads: Vec<Range<u32>>,
    prompts: Vec<Prompt>,
    pairs: Vec<Pair>,
}

impl Shape {
    /// 128 workers, 20 holders of each chain.
    pub const SHARED: Self = Self {
        name: "shared",
        workers: 128,
        heads: 100,
        head_len: (10, 40),
        prompts: 1_900,
        prompt_len: (50, 90),
        holders_tenths: 200,
    };

    /// 8 workers, almost nothing in common.
    pub const PRIVATE: Self = Self {
        name: "private",
        workers: 8,
        heads: 0,
        head_len: (0, 0),
        prompts: 22_000,
        prompt_len: (50, 90),
        holders_tenths: 13,
    };

    /// 16 workers, prompts of 1,000 blocks.
    pub const LONG: Self = Self {
        name: "long",
        workers: 16,
        heads: 20,
        head_len: (300, 300),
        prompts: 680,
        prompt_len: (1_000, 1_000),
        holders_tenths: 40,
    };

    /// One prompt set that 1,024 workers hold.
    pub const CROWD: Self = Self {
        name: "crowd",
        workers: 1_024,
        heads: 0,
        head_len: (0, 0),
        prompts: 28,
        prompt_len: (50, 90),
        holders_tenths: 10_240,
    };

    pub const ALL: [Self; 4] = [Self::SHARED, Self::PRIVATE, Self::LONG, Self::CROWD];

    /// The shape with so many times its prompts and heads.
    #[must_use]
    pub fn scaled(mut self, scale: f64) -> Self {
        let scaled = |count: u32| if count == 0 { 0 } else { ((f64::from(count) * scale).round() as u32).max(1) };
        (self.prompts, self.heads) = (scaled(self.prompts), scaled(self.heads));
        self
    }
}

impl Prompts {
    /// Draws the prompts of `shape` from `seed`.
    pub fn draw(shape: Shape, names: Names, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut drawn = Self { shape, names, blocks: Vec::new(), heads: Vec::new(), prompts: Vec::new(), pairs: Vec::new() };
        for _ in 0..shape.heads {
            let len = random.within(shape.head_len);
            let head = drawn.chain(&mut random, 0, len);
            drawn.heads.push(head);
        }
        for prompt in 0..shape.prompts {
            drawn.draw_prompt(prompt, &mut random);
        }
        random.shuffle(&mut drawn.pairs);
        drawn.find_first_meetings();
        drawn
    }

    fn draw_prompt(&mut self, prompt: u32, random: &mut SplitMix64) {
        let shape = self.shape;
        let head = (shape.heads > 0).then(|| random.below(u64::from(shape.heads)) as u32);
        let len = random.within(shape.prompt_len);
        let holders = shape.holders_tenths / 10 + u32::from(random.below(10) < u64::from(shape.holders_tenths % 10));
        for worker in random.sample(holders, shape.workers) {
            self.pairs.push(Pair { prompt, worker, brings_head: false });
        }
        let (parent, head_len) = head.map_or((0, 0), |head| self.end_of(&self.heads[head as usize]));
        let suffix = self.chain(random, parent, len - head_len);
        self.prompts.push(Prompt { head, suffix });
    }

    /// The agreed name at the end of a head, and the head's length.
    fn end_of(&self, head: &Range<u32>) -> (u64, u32) {
        (self.blocks[head.end as usize - 1].name, head.len() as u32)
    }

    /// Adds `len` new blocks after the block whose agreed name is `parent`.
    fn chain(&mut self, random: &mut SplitMix64, mut parent: u64, len: u32) -> Range<u32> {
        let start = self.blocks.len() as u32;
        for _ in 0..len {
            let content = random.word();
            parent = chain(parent, content);
            self.blocks.push(Block { name: parent, content });
        }
        start..self.blocks.len() as u32
    }

    fn find_first_meetings(&mut self) {
        let mut met = vec![false; self.heads.len() * self.shape.workers as usize];
        for pair in &mut self.pairs {
            if let Some(head) = self.prompts[pair.prompt as usize].head {
                let met = &mut met[(head * self.shape.workers + pair.worker) as usize];
                pair.brings_head = !std::mem::replace(met, true);
            }
        }
    }

    /// All pairs, in the order in which they are stored.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// How many prompts there are.
    pub fn len(&self) -> u32 {
        self.prompts.len() as u32
    }

    /// Whether there is no prompt.
    pub fn is_empty(&self) -> bool {
        self.prompts.is_empty()
    }

    /// Different blocks.
    pub fn distinct(&self) -> usize {
        self.blocks.len()
    }

    /// (worker, block) pairs when all is stored.
    pub fn memberships(&self) -> usize {
        self.pairs.iter().map(|pair| self.suffix(pair).len() + if pair.brings_head { self.head(pair).len() } else { 0 }).sum()
    }

    /// The contents of a whole prompt, its suffix in its `generation`.
    pub fn path(&self, prompt: u32, generation: u32) -> Vec<u64> {
        let Prompt { head, suffix } = &self.prompts[prompt as usize];
        let head = head.map_or(0..0, |head| self.heads[head as usize].clone());
        let head = head.map(|at| self.blocks[at as usize].content);
        head.chain(suffix.clone().map(|at| self.block(at, generation).content)).collect()
    }

    /// Adds the store of `pair`, its suffix in its first generation.
    pub fn store(&self, pair: &Pair, batch: &mut Batch) {
        if !pair.brings_head {
            return self.store_suffix(pair, 0, batch);
        }
        let blocks = self.head(pair).chain(self.suffix(pair)).map(|at| self.named(at, 0, pair.worker));
        batch.store(pair.worker, None, blocks);
    }

    /// Adds the store of `pair`'s suffix in a `generation`.
    pub fn store_suffix(&self, pair: &Pair, generation: u32, batch: &mut Batch) {
        let parent = self.head(pair).last().map(|at| self.named(at, 0, pair.worker).name);
        batch.store(pair.worker, parent, self.suffix(pair).map(|at| self.named(at, generation, pair.worker)));
    }

    /// Adds the removal of `pair`'s suffix in a `generation`, tail first.
    pub fn remove_suffix(&self, pair: &Pair, generation: u32, batch: &mut Batch) {
        batch.remove(pair.worker, self.suffix(pair).rev().map(|at| self.named(at, generation, pair.worker).name));
    }

    /// Adds the removal of the head that `pair` brought, tail first.
    pub fn remove_head(&self, pair: &Pair, batch: &mut Batch) {
        batch.remove(pair.worker, self.head(pair).rev().map(|at| self.named(at, 0, pair.worker).name));
    }

    /// The names that each worker holds when all is stored.
    pub fn held(&self) -> Vec<Vec<u64>> {
        let mut held = vec![Vec::new(); self.shape.workers as usize];
        for pair in &self.pairs {
            let head = if pair.brings_head { self.head(pair) } else { 0..0 };
            let names = head.chain(self.suffix(pair)).map(|at| self.named(at, 0, pair.worker).name);
            held[pair.worker as usize].extend(names);
        }
        held
    }

    /// What the pair's worker calls the prompt's last block.
    pub fn last_name(&self, pair: &Pair) -> u64 {
        self.named(self.suffix(pair).end - 1, 0, pair.worker).name
    }

    fn head(&self, pair: &Pair) -> Range<u32> {
        self.prompts[pair.prompt as usize].head.map_or(0..0, |head| self.heads[head as usize].clone())
    }

    fn suffix(&self, pair: &Pair) -> Range<u32> {
        self.prompts[pair.prompt as usize].suffix.clone()
    }

    fn named(&self, at: u32, generation: u32, worker: u32) -> Block {
        let block = self.block(at, generation);
        Block { name: self.names.of(block.name, worker), ..block }
    }

    /// A block as it is after so many turns: new content and a new name each time.
    fn block(&self, at: u32, generation: u32) -> Block {
        let Block { name, content } = self.blocks[at as usize];
        let turned = |word: u64| if generation == 0 { word } else { scatter(word ^ scatter(u64::from(generation))) };
        Block { name: turned(name), content: turned(content) }
    }
}

#[cfg(test)]
mod tests;
