//! Models: every schedule of a few operations, and every value that the orderings let a load see.
//!
//! `bash .ci/loom.sh` runs them. Segments have four places there, tables one shard, a record four holders inline, and a worker with
//! one name of its own goes private, so that few operations meet every change of structure.
//!
//! A model makes an index alone, which takes no schedules, then lets a thread or two write beside a lookup. What a lookup may see is
//! written out: everything that is so at some moment, and nothing else (rule 13).

use std::ops::RangeInclusive;
// Not of the model: it counts them.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::model::Builder;
use loom::thread;

use super::{ChainIndex, ChainOptions, ChainWorker};
use crate::sync::atomic::{unwatch, watch};
use crate::{Block, BlockName, ContentHash, Index, Matches, Runs, View, Worker, WorkerId};

mod edges;
mod holders;
mod names;
mod reuse;
mod structure;

/// Runs `model` under every schedule that interrupts threads twice at most.
fn check(model: impl Fn() + Sync + Send + 'static) {
    check_bounded(2, model);
}

/// The same of a model that is too large for that: interrupts once.
fn check_large(model: impl Fn() + Sync + Send + 'static) {
    check_bounded(1, model);
}

/// `LOOM_MAX_PREEMPTIONS` goes before the model's own bound.
fn check_bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 50_000;
    let schedules = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&schedules);
    builder.check(move || {
        unwatch();
        counter.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{} schedules", schedules.load(Ordering::Relaxed));
}

fn chain() -> ChainIndex {
    ChainIndex::with_options(&ChainOptions { workers_max: Some(8), seed: Some([3, 5]), ..ChainOptions::default() })
}

fn workers<const N: usize>(index: &ChainIndex) -> [ChainWorker; N] {
    std::array::from_fn(|_| index.add_worker().unwrap())
}

/// A block whose name is its content.
fn block(content: u64) -> Block {
    Block::named(BlockName(content), ContentHash(content))
}

/// Stores such blocks.
fn store<const N: usize>(worker: &mut ChainWorker, parent: Option<u64>, contents: [u64; N]) {
    store_blocks(worker, parent, &contents.map(block));
}

fn store_blocks(worker: &mut ChainWorker, parent: Option<u64>, blocks: &[Block]) {
    worker.store(View::MAIN, parent.map(BlockName), blocks, &mut Vec::new()).unwrap();
}

fn remove<const N: usize>(worker: &mut ChainWorker, names: [u64; N]) {
    worker.remove(View::MAIN, &names.map(BlockName), &mut Vec::new());
}

/// The main views' depths along a request, by one lookup of all.
fn depths<const N: usize, const W: usize>(index: &ChainIndex, request: [u64; N], ids: [WorkerId; W]) -> [u32; W] {
    let mut matches = Matches::new();
    index.find(&request.map(ContentHash), &mut matches);
    let twice =
        matches.iter().any(|row| matches.iter().filter(|other| (other.worker, other.view) == (row.worker, row.view)).count() > 1);
    assert!(!twice, "{:?}", matches.iter().collect::<Vec<_>>());
    ids.map(|id| matches.depth(id, View::MAIN))
}

/// Which positions of a request a main view covers, as bits.
fn covered<const N: usize>(index: &ChainIndex, worker: WorkerId, request: [u64; N]) -> u64 {
    let mut runs = Runs::new();
    index.coverage(worker, View::MAIN, &request.map(ContentHash), &mut runs);
    runs.as_slice().iter().flat_map(Clone::clone).fold(0, |all, position| all | 1 << position)
}

/// Does `write` on a thread and `read` here.
fn beside<T: 'static>(write: impl FnOnce() -> T + 'static, read: impl FnOnce()) -> T {
    watch();
    let writer = thread::spawn(write);
    read();
    let written = writer.join().unwrap();
    unwatch();
    written
}

/// Lets a thread of its own `act` for the worker, and waits for it.
fn on_another_thread(mut worker: ChainWorker, act: impl FnOnce(&mut ChainWorker) + 'static) -> ChainWorker {
    let acting = move || {
        act(&mut worker);
        worker
    };
    thread::spawn(acting).join().unwrap()
}

fn assert_in(depth: u32, allowed: RangeInclusive<u32>) {
    assert!(allowed.contains(&depth), "{depth} is not in {allowed:?}");
}
