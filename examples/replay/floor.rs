//! What routing could have reused: caches simulated offline, from the prompts that were sent and where they went.
//!
//! Every request is taken to be finished before the next one starts, and outputs take no room, so the figures are what a
//! lucky schedule could reach. Requests that overlap in time can reach less: a prefix that is being computed serves
//! nobody yet.

use std::collections::HashSet;

use serde::Serialize;

use crate::mock_engine::{BlockChain, BlockPool};

/// One request as it was routed.
#[derive(Debug, Clone)]
pub struct Placement {
    /// The prompt's token ids.
    pub tokens: Vec<u32>,
    /// Index of the worker that it went to.
    pub worker: usize,
    /// Whether it counts; a request of the warm-up only fills caches.
    pub counted: bool,
}

/// Tokens that could have been reused, over the counted requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Floor {
    /// Prompt tokens in all.
    pub prompt_tokens: u64,
    /// On the worker that each request was sent to.
    pub placed_tokens: u64,
    /// On the worker that held most of each request's prefix, with every request still going where it was sent: what a
    /// perfect router could see in the caches that these placements made.
    pub best_tokens: u64,
    /// On the worker that each request would have been sent to by turns.
    pub round_robin_tokens: u64,
    /// On one worker with the room of all: what no routing can exceed.
    pub shared_tokens: u64,
}

/// Simulates `workers` caches of `kv_blocks` blocks each (`None`: without bound) over `placements`, in order.
pub fn floor(placements: impl Iterator<Item = Placement>, workers: usize, block_size: usize, kv_blocks: Option<usize>) -> Floor {
    let workers = workers.max(1);
    let caches = || -> Vec<Cache> { (0..workers).map(|_| Cache::new(kv_blocks)).collect() };
    let (mut placed, mut turns) = (caches(), caches());
    let mut shared = Cache::new(kv_blocks.map(|blocks| blocks.saturating_mul(workers)));
    let mut floor = Floor::default();
    for (turn, placement) in placements.enumerate() {
        let chain = BlockChain::of(&placement.tokens, block_size);
        let best = placed.iter().map(|cache| cache.matched(&chain)).max().unwrap_or(0);
        let on_placed = placed[placement.worker % workers].serve(&chain);
        let by_turn = turns[turn % workers].serve(&chain);
        let on_shared = shared.serve(&chain);
        if placement.counted {
            let tokens = |blocks: usize| (blocks * block_size) as u64;
            floor.prompt_tokens += placement.tokens.len() as u64;
            floor.placed_tokens += tokens(on_placed);
            floor.best_tokens += tokens(best);
            floor.round_robin_tokens += tokens(by_turn);
            floor.shared_tokens += tokens(on_shared);
        }
    }
    floor
}

/// A worker's cache. Without a bound nothing has to be known of a block but its name.
enum Cache {
    Unbounded(HashSet<u64>),
    Bounded(BlockPool),
}

impl Cache {
    fn new(kv_blocks: Option<usize>) -> Self {
        kv_blocks.map_or_else(|| Self::Unbounded(HashSet::new()), |blocks| Self::Bounded(BlockPool::new(blocks)))
    }

    /// Blocks that could be reused.
    fn matched(&self, chain: &BlockChain) -> usize {
        match self {
            Self::Unbounded(names) => chain.servable().iter().take_while(|name| names.contains(name)).count(),
            Self::Bounded(pool) => pool.matched(chain.servable()),
        }
    }

    /// Computes a prompt. Returns the blocks that were reused.
    fn serve(&mut self, chain: &BlockChain) -> usize {
        let reused = self.matched(chain);
        match self {
            Self::Unbounded(names) => names.extend(chain.names()),
            Self::Bounded(pool) => fill(pool, chain.names(), reused),
        }
        reused
    }
}

/// References first, then room, then the new blocks; tail first back into the idle ones, as an engine does it.
fn fill(pool: &mut BlockPool, names: &[u64], reused: usize) {
    let (held, new) = names.split_at(reused);
    for &name in held {
        pool.acquire(name);
    }
    while pool.shortfall(new.len()) > 0 && pool.evict().is_some() {}
    pool.allocate(new.len());
    for &name in new {
        pool.seal(name);
    }
    names.iter().rev().for_each(|&name| pool.release(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(family: u32, len: u32, worker: usize) -> Placement {
        Placement { tokens: (0..len).map(|place| family * 10_000 + place).collect(), worker, counted: true }
    }

    fn run(placements: &[Placement], kv_blocks: Option<usize>) -> Floor {
        floor(placements.iter().cloned(), 2, 16, kv_blocks)
    }

    #[test]
    fn placements_that_scatter_a_prefix_reuse_less_than_they_could() {
        let floor = run(&[placement(1, 64, 0), placement(1, 64, 1), placement(1, 64, 1)], None);
        assert_eq!(floor.placed_tokens, 48);
        assert_eq!(floor.best_tokens, 96);
        assert_eq!(floor.round_robin_tokens, 48, "the third request goes back to the first worker");
        assert_eq!((floor.shared_tokens, floor.prompt_tokens), (96, 192));
    }

    #[test]
    fn a_small_cache_keeps_heads() {
        let rows = [placement(1, 64, 0), placement(2, 64, 0), placement(1, 64, 0)];
        assert_eq!(run(&rows, None).placed_tokens, 48);
        assert_eq!(run(&rows, Some(6)).placed_tokens, 32);
        assert_eq!(run(&rows, Some(4)).placed_tokens, 0);
    }

    #[test]
    fn the_warm_up_fills_caches_and_counts_nothing() {
        let first = Placement { counted: false, ..placement(1, 64, 0) };
        let floor = run(&[first, placement(1, 64, 0)], None);
        assert_eq!((floor.prompt_tokens, floor.placed_tokens), (64, 48));
    }
}
