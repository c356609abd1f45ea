//! A growing array of atomic words whose addresses never change and which stays readable as long as it lives.
//!
//! This is what lets a reader go without a lock and without leaving a mark: whatever address it takes from a word that
//! was true a moment ago, it may load from there. What it loads may be out of date or nonsense, and the reader finds
//! that out by itself (see [`super::segments`]), but it never faults and never races.
//!
//! Addresses for all that may come are reserved at the beginning, so that an index of words becomes an address with one
//! addition; memory is taken only for pages that are written. [`Memory::give_back`] returns pages to the system while their
//! addresses stay readable (as zeros). Where there is no `mmap`, and under a model checker, the allocator gives a small array,
//! and nothing is given back.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct Memory<W = AtomicU64> {
    base: *mut W,
    /// Words that addresses are reserved for.
    reserved: usize,
    /// Words that can be read and written.
    ready: AtomicUsize,
    growth: Mutex<()>,
}

// SAFETY: the memory consists of atomics, which any thread may use through a shared reference.
unsafe impl<W: Word> Send for Memory<W> {}
// SAFETY: as above; `ready` and `growth` are for all threads by themselves.
unsafe impl<W: Word> Sync for Memory<W> {}

/// What a memory consists of: an atomic word of zeros, by default and by its bits.
pub(crate) trait Word: Default + Send + Sync {}

impl Word for AtomicU64 {}
#[cfg(any(kv_loom, kv_shuttle))]
impl Word for LockedWord {}

/// A word that only the holder of some lock uses, as what it likes. Model checkers watch the lock and not the word.
pub(crate) type LockedWord = std::sync::atomic::AtomicU64;

/// Words that the first growth makes ready: 1 MiB of addresses.
const FIRST: usize = if cfg!(any(kv_loom, kv_shuttle)) { 16 } else { 1 << 17 };

impl<W: Word> Memory<W> {
    /// Addresses for up to `most` words, or as many as the system lets us have.
    pub(crate) fn new(most: usize) -> Self {
        let (base, reserved) = backing::reserve(most);
        Self { base, reserved, ready: AtomicUsize::new(0), growth: Mutex::new(()) }
    }

    /// Makes sure that the words below `end` can be used. Whether addresses are left for them.
    pub(crate) fn reserve(&self, end: usize) -> bool {
        end <= self.capacity() || self.grow(end)
    }

    /// Words that can be used.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        // Acquire: pairs with the release in `grow`.
        self.ready.load(Ordering::Acquire)
    }

    /// `len` words from `start`. None of them where not all can be used: a reader that holds an outdated address or size must
    /// find that out by itself, not panic.
    #[inline]
    pub(crate) fn words(&self, start: usize, len: usize) -> &[W] {
        if start + len > self.capacity() {
            return &[];
        }
        // SAFETY: all words below the capacity are atomics that live as long as `self`. Shared references to atomics may
        // coexist with any other use of them.
        unsafe { std::slice::from_raw_parts(self.base.add(start), len) }
    }

    /// The address of the word at `index`, to prefetch from.
    #[inline]
    pub(crate) fn address(&self, index: usize) -> *const u8 {
        self.base.wrapping_add(index).cast()
    }

    #[cold]
    fn grow(&self, end: usize) -> bool {
        let _growing = self.growth.lock();
        let ready = self.ready.load(Ordering::Relaxed);
        if end > self.reserved || end <= ready {
            return end <= ready;
        }
        // Twice as much each time, so that calls of the system are few. Pages cost memory only when they are written.
        let wanted = end.max(ready * 2).max(FIRST).min(self.reserved);
        // SAFETY: the range lies within the reservation of `new`.
        unsafe { backing::open(self.base.add(ready), wanted - ready) };
        // Release: whoever sees the count may use the words.
        self.ready.store(wanted, Ordering::Release);
        true
    }

    /// Returns the memory of `len` words from `start` to the system. They read as zeros, or as before.
    pub(crate) fn give_back(&self, start: usize, len: usize) {
        backing::give_back(self.words(start, len));
    }
}

impl<W> Drop for Memory<W> {
    fn drop(&mut self) {
        let ready = self.ready.load(Ordering::Relaxed);
        // SAFETY: `reserve` made it, `open` was called for the first `ready` words, nobody borrows from `self` any more, and it
        // is freed once.
        unsafe { backing::release(self.base, self.reserved, ready) };
    }
}

#[cfg(all(unix, not(any(miri, kv_loom, kv_shuttle))))]
mod backing {
    const WORD: usize = size_of::<u64>();

    /// Ranges of this size ask for huge pages: a lookup's lines lie apart, and every one of them costs a walk through the page
    /// tables otherwise. Smaller ones would take more than they use.
    #[cfg(target_os = "linux")]
    const HUGE_PAGES_FROM: usize = 4 << 20;

    /// Addresses without memory, for `most` words or for as many as a limit on addresses allows.
    pub(super) fn reserve<W>(most: usize) -> (*mut W, usize) {
        const { assert!(size_of::<W>() == WORD) };
        let mut words = most;
        loop {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
            // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of anybody else's.
            let base = unsafe { libc::mmap(std::ptr::null_mut(), words * WORD, libc::PROT_NONE, flags, -1, 0) };
            if base != libc::MAP_FAILED {
                return (base.cast(), words);
            }
            words /= 2;
            assert!(words > 0, "the system gives no addresses");
        }
    }

    /// # Safety
    /// The range lies within a reservation.
    pub(super) unsafe fn open<W>(start: *mut W, words: usize) {
        let bytes = words * WORD;
        // SAFETY: the caller's promise; nobody uses the range yet.
        let opened = unsafe { libc::mprotect(start.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) };
        assert!(opened == 0, "the system refuses {bytes} bytes of memory");
        #[cfg(target_os = "linux")]
        if bytes >= HUGE_PAGES_FROM {
            // SAFETY: advice on a mapping of our own; a system without huge pages says no, and nothing is lost.
            unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
        }
    }

    /// Whole pages only; the rest of a range stays.
    pub(super) fn give_back<W>(words: &[W]) {
        let page = page_bytes();
        let start = (words.as_ptr() as usize).next_multiple_of(page);
        let end = (words.as_ptr() as usize + size_of_val(words)) / page * page;
        if cfg!(target_os = "linux") && start < end {
            // SAFETY: the pages lie inside a mapping of our own. Afterwards they read as zeros, which is a value that an
            // atomic word may have; nobody relies on what was there (the slab is free).
            unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
        }
    }

    /// # Safety
    /// `base` and `words` are of one call of [`reserve`], and nobody uses the memory any more.
    pub(super) unsafe fn release<W>(base: *mut W, words: usize, _ready: usize) {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(base.cast(), words * WORD) };
    }

    fn page_bytes() -> usize {
        // SAFETY: `sysconf` only reads.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(65_536)
    }
}

#[cfg(not(all(unix, not(any(miri, kv_loom, kv_shuttle)))))]
mod backing {
    use std::alloc::{self, Layout};

    use super::Word;

    /// Bytes of a cache line.
    const LINE: usize = 64;

    /// 2 GiB, of which most systems give memory for what is written only. Little where every atomic is watched.
    const MOST: usize = if cfg!(any(miri, kv_loom, kv_shuttle)) { 1 << 12 } else { 1 << 28 };

    pub(super) fn reserve<W>(most: usize) -> (*mut W, usize) {
        let words = most.min(MOST);
        // SAFETY: the layout has a size.
        let base = unsafe { alloc::alloc(layout::<W>(words)) };
        assert!(!base.is_null(), "the allocator gives no memory");
        (base.cast(), words)
    }

    /// From a cache line on, as if from a page on.
    fn layout<W>(words: usize) -> Layout {
        Layout::array::<W>(words).and_then(|layout| layout.align_to(LINE)).expect("less than the address space")
    }

    /// # Safety
    /// The range lies within a reservation, and nobody uses it yet.
    pub(super) unsafe fn open<W: Word>(start: *mut W, words: usize) {
        // SAFETY: the caller's promise. A model checker's atomics must be made one by one, and only those that are used.
        (0..words).for_each(|word| unsafe { start.add(word).write(W::default()) });
    }

    pub(super) fn give_back<W>(_words: &[W]) {}

    /// # Safety
    /// `base` and `words` are of one call of [`reserve`], the first `ready` words were opened, and nobody uses the memory any
    /// more.
    pub(super) unsafe fn release<W>(base: *mut W, words: usize, ready: usize) {
        // SAFETY: the caller's promise: these were written, and `reserve` allocated them with this layout.
        unsafe {
            std::ptr::slice_from_raw_parts_mut(base, ready).drop_in_place();
            alloc::dealloc(base.cast(), layout::<W>(words));
        }
    }
}

#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_value_while_the_memory_grows() {
        let memory: Memory = Memory::new(1 << 30);
        assert!(memory.words(0, 1).is_empty());
        assert!(memory.reserve(1));
        memory.words(0, 1)[0].store(7, Ordering::Relaxed);
        assert!(memory.reserve(FIRST * 8));
        memory.words(FIRST * 8 - 1, 1)[0].store(9, Ordering::Relaxed);
        let end = memory.capacity();
        assert_eq!((memory.words(0, 1)[0].load(Ordering::Relaxed), memory.words(end - 1, 2).len()), (7, 0));
    }

    #[test]
    fn addresses_end_somewhere() {
        let memory: Memory = Memory::new(FIRST * 2);
        assert!(memory.reserve(FIRST * 2));
        assert!(!memory.reserve(FIRST * 2 + 1));
    }

    #[test]
    fn words_given_back_can_be_read_and_used_again() {
        let memory: Memory = Memory::new(1 << 20);
        memory.reserve(4_096);
        memory.words(0, 4_096).iter().for_each(|word| word.store(1, Ordering::Relaxed));
        memory.give_back(0, 4_096);
        assert!(memory.words(0, 4_096).iter().all(|word| word.load(Ordering::Relaxed) <= 1));
        memory.words(4_000, 1)[0].store(2, Ordering::Relaxed);
        assert_eq!(memory.words(4_000, 1)[0].load(Ordering::Relaxed), 2);
    }
}
