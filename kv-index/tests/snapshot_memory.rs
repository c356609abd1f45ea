//! Neither writing nor loading a snapshot takes memory that its size does not pay for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;

use kv_index::snapshot::{Writer, load};
use kv_index::{Block, BlockName, ChainIndex, ContentHash, Index, View, Worker};

const BLOCKS: u64 = 1 << 18;

/// One worker with a prompt of so many blocks.
fn one_long_prompt<I: Index>(index: &I) -> I::Worker {
    let mut worker = index.add_worker().unwrap();
    let path: Vec<Block> = (0..BLOCKS).map(|nth| Block::named(BlockName(nth), ContentHash(!nth))).collect();
    worker.store(View::MAIN, None, &path, &mut Vec::new()).unwrap();
    worker
}

#[test]
fn writing_keeps_a_little_for_each_stretch_and_no_content() {
    let index = ChainIndex::new();
    let worker = one_long_prompt(&index);
    let peak = peak(|| {
        let mut snapshot = Writer::new(io::sink()).unwrap();
        snapshot.worker(b"", &worker).unwrap();
        snapshot.finish().unwrap();
    });
    let stretches = BLOCKS / 64;
    assert!(peak > 64 << 10, "the count counts");
    assert!(peak < 256 * stretches + (512 << 10), "{peak} bytes for {stretches} stretches");
}

#[test]
fn loading_keeps_each_block_once_however_many_hold_it() {
    let mut snapshot = Writer::new(Vec::new()).unwrap();
    let chained = ChainIndex::new();
    let worker = one_long_prompt(&chained);
    (0..8).for_each(|_| snapshot.worker(b"", &worker).unwrap());
    let bytes = snapshot.finish().unwrap();
    assert!((bytes.len() as u64) < BLOCKS * 20, "one copy of it: {} bytes", bytes.len());
    let target = ChainIndex::new();
    let peak = peak(|| assert_eq!(load(&bytes[..], &target).unwrap().len(), 8));
    // A vector that grows has up to twice its length, and three times while it moves.
    assert!(peak < BLOCKS * 16 * 3 + target.stats().bytes as u64 + (8 << 20), "{peak} bytes");
}

#[test]
fn a_length_that_lies_asks_for_nothing() {
    let index = ChainIndex::new();
    let mut snapshot = Writer::new(Vec::new()).unwrap();
    snapshot.worker(b"", &index.add_worker().unwrap()).unwrap();
    let mut bytes = snapshot.finish().unwrap();
    for length in [u32::MAX, 65_537, 65_536, 1] {
        bytes[20..24].copy_from_slice(&length.to_le_bytes());
        let peak = peak(|| assert!(load(&bytes[..], &index).is_err()));
        assert!(peak < 128 << 10, "{peak} bytes for a frame that says {length}");
    }
}

/// The most bytes that `run` had at a time, of those that it asked for.
fn peak(run: impl FnOnce()) -> u64 {
    let before = LIVE.get();
    PEAK.set(before);
    run();
    (PEAK.get() - before).unsigned_abs()
}

struct Counting;

// SAFETY: every method hands its arguments to the system's allocator unchanged; counting touches thread locals that are
// initialised in constants and have no destructors, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While it moves, both are there.
        count(size, 0);
        count(0, layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn count(more: usize, less: usize) {
    let live = LIVE.get().wrapping_add_unsigned(more as u64).wrapping_sub_unsigned(less as u64);
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
