//! The chain index equals the reference, operation by operation.
//!
//! `KV_CORPUS=20 cargo test -p kv-index --release --test chain` runs twenty times as many seeds.

use kv_index::testing::{Driver, Fleet, Mix, Op, any_ops, assert_same, fleet_ops, random_ops};
use kv_index::{ChainIndex, ChainOptions, ReferenceIndex};
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
