//! Chains of a million blocks.

use kv_index::{Block, BlockName, ChainIndex, ChainWorker, ContentHash, Digest, Index, Removed, View, Worker};

/// More than the 932 thousand at which the peer panics.
const MILLION: u64 = 1_000_000;

fn million() -> (ChainIndex, ChainWorker, Vec<Block>) {
    let index = ChainIndex::new();
    let mut worker = index.add_worker().unwrap();
    let chain: Vec<Block> = (0..MILLION).map(|i| Block::named(BlockName(i + 1), ContentHash(i % 50_000))).collect();
    worker.store(View::MAIN, None, &chain, &mut Vec::new()).unwrap();
    let request: Vec<_> = chain.iter().map(|block| block.content).collect();
    assert_eq!(index.depth(worker.id(), View::MAIN, &request), 1_000_000);
    (index, worker, chain)
}

fn removes_all(index: &ChainIndex, worker: &mut ChainWorker, names: &[BlockName]) {
    let mut out = Vec::new();
    worker.remove(View::MAIN, names, &mut out);
    assert!(out.len() == names.len() && out.iter().all(|&removed| removed == Removed::Removed));
    assert_eq!((index.digest(worker.id(), View::MAIN), index.stats().segments), (Digest::default(), 0));
}

#[test]
fn a_run_of_a_million_blocks_is_removed_from_its_end() {
    let (index, mut worker, chain) = million();
    let names: Vec<_> = chain.iter().rev().filter_map(|block| block.name).collect();
    removes_all(&index, &mut worker, &names);
}

#[test]
fn a_run_of_a_million_blocks_is_removed_from_its_root() {
    let (index, mut worker, chain) = million();
    let names: Vec<_> = chain.iter().filter_map(|block| block.name).collect();
    removes_all(&index, &mut worker, &names);
}

#[test]
fn a_million_blocks_are_dropped_with_their_worker() {
    let (index, worker, _) = million();
    drop(worker);
    assert_eq!((index.workers().len(), index.stats().segments), (0, 0));
}
