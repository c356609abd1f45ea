//! Indexes to write and to load.

use kv_index::snapshot::{LoadError, Portable, Writer, load};
use kv_index::testing::{Driver, Op};
use kv_index::{Block, BlockName, ChainIndex, ChainOptions, ContentHash, Index, View, Worker};

/// Fixed, so that a failure comes again.
const SEED: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

pub(crate) fn chain() -> ChainIndex {
    ChainIndex::with_options(&ChainOptions { seed: Some(SEED), ..ChainOptions::default() })
}

/// A driver of `index` after `ops`.
pub(crate) fn driven<I: Index>(index: I, ops: &[Op]) -> Driver<I> {
    let mut driver = Driver::new(index);
    ops.iter().for_each(|op| _ = driver.apply(op));
    driver
}

/// A snapshot of all workers of a driver. Each comes with the number of its seat.
pub(crate) fn written<I: Index<Worker: Portable>>(driver: &Driver<I>) -> Vec<u8> {
    let mut snapshot = Writer::new(Vec::new()).unwrap();
    for (seat, worker) in driver.workers().enumerate() {
        snapshot.worker(seat.to_string().as_bytes(), worker).unwrap();
    }
    snapshot.finish().unwrap()
}

/// A driver of `index` with the workers of a snapshot.
pub(crate) fn loaded<I: Index<Worker: Portable>>(bytes: &[u8], index: I) -> Driver<I> {
    let workers = load(bytes, &index).unwrap_or_else(|error| panic!("{error}"));
    for (seat, loaded) in workers.iter().enumerate() {
        assert_eq!(loaded.bytes, seat.to_string().as_bytes());
    }
    Driver::with_workers(index, workers.into_iter().map(|loaded| loaded.worker))
}

/// The error of a load, and that the index is empty after it.
pub(crate) fn refused<I: Index<Worker: Portable>>(bytes: &[u8], index: &I) -> LoadError {
    let before = index.workers();
    let Err(error) = load(bytes, index) else { panic!("a snapshot that is wrong was loaded") };
    assert_eq!(index.workers(), before);
    error
}

/// A worker with a few of everything: two views, a hole, twins, an unheld place above held ones, and another's name.
pub(crate) fn small<I: Index>(index: I) -> Driver<I> {
    let mut first = index.add_worker().unwrap();
    let mut second = index.add_worker().unwrap();
    first.add_view().unwrap();
    let block = |name, content| Block::named(BlockName(name), ContentHash(content));
    let mut out = Vec::new();
    let path: Vec<Block> = (1..=6).map(|nth| block(nth, 100 + nth)).collect();
    first.store(View::MAIN, None, &path, &mut out).unwrap();
    first.store(View(1), None, &path[..2], &mut out).unwrap();
    first.store(View::MAIN, Some(BlockName(4)), &[block(50, 105), block(51, 7)], &mut out).unwrap();
    first.remove(View::MAIN, &[BlockName(3)], &mut Vec::new());
    second.store(View::MAIN, None, &[Block::step(ContentHash(101)), block(2, 102), block(33, 103)], &mut out).unwrap();
    second.store(View::MAIN, Some(BlockName(33)), &[block(4, 104)], &mut out).unwrap();
    Driver::with_workers(index, [first, second])
}
