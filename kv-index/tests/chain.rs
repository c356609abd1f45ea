//! The chain index equals the reference, operation by operation.

use kv_index::testing::{Driver, Mix, Op, any_ops, assert_same, random_ops};
use kv_index::{ChainIndex, ChainOptions, ReferenceIndex};
use proptest::prelude::*;

/// Fixed, so that a failure comes again.
const SEED: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

fn chain() -> ChainIndex {
    ChainIndex::with_options(&ChainOptions { seed: Some(SEED), ..ChainOptions::default() })
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
    for seed in 0..200 {
        agree(&random_ops(seed, 1_000, &Mix::DENSE), 50);
    }
}

#[test]
fn long_corpora() {
    for seed in 0..20 {
        agree(&random_ops(seed, 2_000, &Mix::LONG), 100);
    }
}
