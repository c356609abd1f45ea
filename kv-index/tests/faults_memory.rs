//! What an index takes when it is empty, and when everything has gone again. Alone in its program: it counts all that is allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use kv_index::{Block, BlockName, ChainIndex, ContentHash, Index, View, Worker};

/// The peer's empty index takes 11 MB.
const EMPTY_MAX: isize = 1 << 20;

/// Live bytes that were allocated, and those that `index` has from the system.
fn live(index: &ChainIndex) -> isize {
    LIVE.load(Ordering::Relaxed) + isize::try_from(index.stats().mapped_bytes).unwrap()
}

fn chain(number: u64) -> Vec<Block> {
    let word = |at: u64| (number * 64 + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..60).map(|at| Block::named(BlockName(word(at)), ContentHash(word(at) ^ 5))).collect()
}

fn seat(number: u64) -> usize {
    usize::try_from(number % 8).unwrap()
}

// P32.
#[test]
fn an_index_is_small_when_empty_and_again_when_everything_has_gone() {
    let before = LIVE.load(Ordering::Relaxed);
    let index = ChainIndex::new();
    let mut workers: Vec<_> = (0..8).map(|_| index.add_worker().unwrap()).collect();
    let empty = live(&index) - before;
    assert!(empty < EMPTY_MAX, "{empty} bytes with nothing in it");
    let mut out = Vec::new();
    for number in 0..6_000 {
        workers[seat(number)].store(View::MAIN, None, &chain(number), &mut out).unwrap();
    }
    let peak = live(&index) - before;
    let mut removed = Vec::new();
    for number in 0..6_000 {
        let names: Vec<_> = chain(number).iter().rev().filter_map(|block| block.name).collect();
        workers[seat(number)].remove(View::MAIN, &names, &mut removed);
    }
    let left = live(&index) - before;
    println!("{empty} bytes empty, {peak} at the peak, {left} after everything was removed");
    assert!(left * 10 < peak, "{left} bytes of {peak} are left");
    for number in 0..6_000 {
        workers[seat(number)].store(View::MAIN, None, &chain(number), &mut out).unwrap();
    }
    drop(workers);
    let left = live(&index) - before;
    assert!(left * 10 < peak, "{left} bytes of {peak} are left when the workers have gone");
}

static LIVE: AtomicIsize = AtomicIsize::new(0);

struct Counting;

// SAFETY: every method hands its arguments to the system's allocator unchanged; counting is one atomic addition, which neither
// allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
