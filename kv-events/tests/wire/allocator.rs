//! An allocator that counts what each thread holds, so that a test sees what one decode asked for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// What `run` returns, and the most bytes that its thread held at one time beyond what it held before.
pub(crate) fn peak_bytes<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = run();
    (result, usize::try_from(PEAK.get() - before).expect("a peak is at least the start"))
}

struct Counting;

// SAFETY: every method hands its arguments to the system's allocator unchanged; counting touches two thread locals
// that are initialised in constant and have no destructor, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may exist while the content moves.
        count(0, size);
        count(layout.size(), 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn count(freed: usize, allocated: usize) {
    let held = HELD.get() + allocated.cast_signed() - freed.cast_signed();
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

thread_local! {
    /// Below zero where a thread frees what others allocated.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn peaks_are_seen() {
    let (len, peak) = peak_bytes(|| {
        drop(vec![0_u8; 1000]);
        vec![0_u8; 100].len()
    });
    assert_eq!((len, peak), (100, 1000));
}
