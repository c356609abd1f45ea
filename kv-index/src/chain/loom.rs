//! Models: every schedule of a few operations, and every value that the orderings let a load see.
//!
//! `RUSTFLAGS="--cfg kv_loom" cargo test -p kv-index --release --lib loom`. Segments have four places there, tables one shard, and a
//! worker with one name of its own goes private, so that few operations meet every change of structure.

use loom::model::Builder;
use loom::thread;

use super::{ChainIndex, ChainOptions, ChainWorker};
use crate::{Block, BlockName, ContentHash, Index, Matches, Runs, View, Worker, WorkerId};

/// Runs `model` under every schedule with up to `preemptions` (`LOOM_MAX_PREEMPTIONS` overrides it).
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 20_000;
    builder.check(model);
}

fn chain() -> ChainIndex {
    ChainIndex::with_options(&ChainOptions { workers_max: Some(8), seed: Some([3, 5]), ..ChainOptions::default() })
}

/// Blocks whose name is their content.
fn blocks<const N: usize>(contents: [u64; N]) -> [Block; N] {
    contents.map(|content| Block::named(BlockName(content), ContentHash(content)))
}

fn store<const N: usize>(worker: &mut ChainWorker, parent: Option<u64>, contents: [u64; N]) {
    worker.store(View::MAIN, parent.map(BlockName), &blocks(contents), &mut Vec::new()).unwrap();
}

fn remove<const N: usize>(worker: &mut ChainWorker, names: [u64; N]) {
    worker.remove(View::MAIN, &names.map(BlockName), &mut Vec::new());
}

fn find<const N: usize>(index: &ChainIndex, contents: [u64; N]) -> Matches {
    let mut matches = Matches::new();
    index.find(&contents.map(ContentHash), &mut matches);
    matches
}

#[test]
fn baseline() {
    check(2, || {
        let index = chain();
        let mut worker = index.add_worker().unwrap();
        store(&mut worker, None, [1, 2]);
        assert_eq!(find(&index, [1, 2]).depth(worker.id(), View::MAIN), 2);
    });
}

#[test]
fn append_against_lookup() {
    check(2, || {
        let index = chain();
        let mut worker = index.add_worker().unwrap();
        store(&mut worker, None, [1, 8, 9]);
        remove(&mut worker, [8, 9]);
        let id = worker.id();
        let writer = thread::spawn(move || {
            store(&mut worker, Some(1), [2, 3]);
            worker
        });
        let depth = find(&index, [1, 2, 3]).depth(id, View::MAIN);
        assert!((1..=3).contains(&depth));
        drop(writer.join().unwrap());
    });
}
