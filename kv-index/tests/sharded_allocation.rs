//! A lookup in a sharded index allocates nothing once its thread has seen the largest answer.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use kv_index::{Block, BlockName, ChainIndex, ContentHash, Index, Matches, ReferenceIndex, Sharded, View, Worker};

#[test]
fn a_lookup_allocates_until_it_has_seen_the_largest_answer_and_no_longer() {
    find_many_times(&Sharded::new((0..3).map(|_| ReferenceIndex::new()).collect()).unwrap());
    find_many_times(&Sharded::new((0..3).map(|_| ChainIndex::new()).collect()).unwrap());
}

fn find_many_times(index: &impl Index) {
    let mut workers: Vec<_> = (0..50).map(|_| index.add_worker().unwrap()).collect();
    for worker in &mut workers {
        worker.store(View::MAIN, None, &[Block::named(BlockName(1), ContentHash(1))], &mut Vec::new()).unwrap();
    }
    let mut matches = Matches::new();
    let mut lookup = || allocations(|| index.find(&[ContentHash(1)], &mut matches));
    assert!(lookup() > 0, "the count counts");
    assert_eq!((0..10).map(|_| lookup()).sum::<u64>(), 0);
    assert_eq!(matches.iter().count(), 50);
}

/// How often `run` asked for memory.
fn allocations(run: impl FnOnce()) -> u64 {
    let before = ASKED.get();
    run();
    ASKED.get() - before
}

struct Counting;

// SAFETY: every method hands its arguments to the system's allocator unchanged; counting touches a thread local that is
// initialised in constant and has no destructor, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
