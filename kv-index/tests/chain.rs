//! The chain index equals the reference, operation by operation.
//!
//! `KV_CORPUS=20 cargo test -p kv-index --release --test chain` runs twenty times as many seeds.

use kv_index::testing::{Driver, Fleet, Mix, Op, any_ops, assert_same, fleet_ops, random_ops};
use kv_index::{
    Block, BlockName, ChainIndex, ChainOptions, ContentHash, Index, Matches, ReferenceIndex, Removed, Stored, View, Worker,
};
use proptest::prelude::*;

/// Fixed, so that a failure comes again.
const SEED: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

fn chain() -> ChainIndex {
    ChainIndex::with_options(&ChainOptions { seed: Some(SEED), ..ChainOptions::default() })
}

/// The seeds of a corpus that has `few` of them in `cargo test`.
fn seeds(few: u64) -> std::ops::Range<u64> {
    0..few * std::env::var("KV_CORPUS").map_or(1, |times| times.parse().expect("KV_CORPUS is a number"))
}

/// Applies `ops` to both and compares every answer, and everything that is held after every `sweep` of them.
fn agree(ops: &[Op], sweep: usize) {
    let (mut chain, mut reference) = (Driver::new(chain()), Driver::new(ReferenceIndex::new()));
    for (nth, op) in ops.iter().enumerate() {
        assert_eq!(chain.apply(op), reference.apply(op), "operation {nth}: {op:?}");
        if nth % sweep == 0 {
            assert_same(chain.index(), reference.index());
        }
    }
    assert_same(chain.index(), reference.index());
}

proptest! {
    #[test]
    fn everything_that_collides(ops in any_ops(Mix::DENSE, 120)) {
        agree(&ops, 1);
    }
}

#[test]
fn dense_corpora() {
    for seed in seeds(40) {
        agree(&random_ops(seed, 1_000, &Mix::DENSE), 50);
    }
}

#[test]
fn long_corpora() {
    for seed in seeds(6) {
        agree(&random_ops(seed, 2_000, &Mix::LONG), 100);
    }
}

fn fleet(fleet: &Fleet, few: u64, count: usize) {
    for seed in seeds(few) {
        agree(&fleet_ops(seed, count, fleet), 100);
    }
}

#[test]
fn a_fleet_that_agrees_on_names() {
    fleet(&Fleet::AGREEING, 3, 2_000);
}

#[test]
fn a_fleet_with_a_few_names_in_conflict() {
    fleet(&Fleet::MIXED, 3, 2_000);
}

#[test]
fn a_fleet_where_everybody_names_blocks_in_its_own_way() {
    fleet(&Fleet::LONERS, 3, 2_000);
}

#[test]
fn a_crowd_that_holds_the_same_prompts() {
    fleet(&Fleet::CROWD, 1, 2_000);
}

/// The table of names grows while it shrinks and shrinks while it grows: found by the contest's turnover, where a shard that
/// had gone back to the larger array was taken to be in the smaller one.
#[test]
fn names_that_come_and_go_in_waves_are_all_kept_until_they_go() {
    for seed in seeds(10) {
        let options = ChainOptions { seed: Some([seed, !seed]), ..ChainOptions::default() };
        let index = ChainIndex::with_options(&options);
        let mut worker = index.add_worker().unwrap();
        let (mut stored, mut removed) = (Vec::new(), Vec::new());
        let (mut first, mut end) = (0, 0);
        for wave in 0_u64..60 {
            // Between some hundred and some thousand names, differently with every seed.
            let chains = 5 + (seed * 31 + wave * wave * 17) % 90;
            while end - first < chains {
                worker.store(View::MAIN, None, &chain_of_names(end), &mut stored).unwrap();
                assert!(stored.iter().all(|&outcome| outcome == Stored::New), "seed {seed}, wave {wave}: {stored:?}");
                end += 1;
            }
            while end - first > chains {
                let names: Vec<_> = chain_of_names(first).iter().rev().filter_map(|block| block.name).collect();
                worker.remove(View::MAIN, &names, &mut removed);
                assert!(removed.iter().all(|&outcome| outcome == Removed::Removed), "seed {seed}, wave {wave}: {removed:?}");
                first += 1;
            }
        }
    }
}

fn chain_of_names(number: u64) -> Vec<Block> {
    let word = |at: u64| (number * 64 + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..40).map(|at| Block::named(BlockName(word(at)), ContentHash(word(at) ^ 5))).collect()
}

/// Of a thousand workers two hold anything: the lookup's levels are rows here, and sets of bits in a small fleet.
#[test]
fn a_few_holders_among_a_thousand_workers_are_found_at_their_depths() {
    let index = ChainIndex::new();
    let mut workers: Vec<_> = (0..1_000).map(|_| index.add_worker().unwrap()).collect();
    let blocks = chain_of_names(1);
    for (worker, depth) in [(3, 40), (700, 40), (999, 10)] {
        workers[worker].store(View::MAIN, None, &blocks[..depth], &mut Vec::new()).unwrap();
    }
    let request: Vec<ContentHash> = blocks.iter().map(|block| block.content).collect();
    let mut matches = Matches::new();
    index.find(&request, &mut matches);
    let mut rows: Vec<_> = matches.iter().map(|row| (row.depth, row.worker)).collect();
    rows.sort_unstable();
    assert_eq!(rows, [(10, workers[999].id()), (40, workers[3].id()), (40, workers[700].id())]);
}
