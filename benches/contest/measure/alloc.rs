//! A global allocator that knows how many bytes are live.
//!
//! Each thread counts in a slot of its own with a plain load and store, so that counting costs about a nanosecond and no
//! locked instruction, for every contender alike. A block that another thread frees makes one slot negative; the sum is right.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// The system's allocator, counted. Declare one as `#[global_allocator]`.
pub struct Counting;

/// Threads with a slot of their own. The contest has a handful; those beyond share the last slot.
const SLOTS: usize = 64;

/// One cache line, so that threads do not share one.
#[repr(align(64))]
struct Slot(AtomicI64);

static LIVE: [Slot; SLOTS] = [const { Slot(AtomicI64::new(0)) }; SLOTS];
static TAKEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // Without a destructor and with a constant value: reading it never allocates.
    static SLOT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Bytes that are allocated and not freed, as requested from the allocator. Exact while other threads are quiet.
pub fn live_bytes() -> i64 {
    LIVE.iter().map(|slot| slot.0.load(Ordering::Relaxed)).sum()
}

fn count(bytes: i64) {
    // A thread that is past its thread-locals' end counts in the shared slot.
    let slot = SLOT.try_with(own_slot).unwrap_or(SLOTS - 1);
    let live = &LIVE[slot].0;
    if slot == SLOTS - 1 {
        live.fetch_add(bytes, Ordering::Relaxed);
    } else {
        // Relaxed: nobody else writes this slot, and readers wait until writers are quiet.
        live.store(live.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }
}

fn own_slot(slot: &Cell<usize>) -> usize {
    if slot.get() == usize::MAX {
        slot.set(TAKEN.fetch_add(1, Ordering::Relaxed).min(SLOTS - 1));
    }
    slot.get()
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps `GlobalAlloc::alloc`'s contract, which is also this one's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as above, for `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above; `block` came from this allocator, hence from the system's.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as above, for `realloc`.
        unsafe { System.realloc(block, layout, size) }
    }
}
