//! A growing array of atomic words whose addresses never change and which stays readable as long as it lives.
//!
//! This is what lets a reader go without a lock and without leaving a mark: whatever address it takes from a word that
//! was true a moment ago, it may load from there. What it loads may be out of date or nonsense, and the reader finds
//! that out by itself (see [`super::segments`]), but it never faults and never races.
//!
//! Chunks double in size, so that an index of words becomes an address with one count of leading zeros. On Linux the
//! chunks come from `mmap`: only pages that were written cost memory, and [`Memory::give_back`] returns pages to the
//! system while their addresses stay readable (as zeros). Elsewhere, and under a model checker, they come from the
//! allocator, and nothing is given back.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Words of the first chunk: 1 MiB of addresses, of which only the written pages cost memory.
#[cfg(not(any(kv_loom, kv_shuttle)))]
const FIRST_LOG: u32 = 17;
/// Model checkers pay for every atomic that exists.
#[cfg(any(kv_loom, kv_shuttle))]
const FIRST_LOG: u32 = 9;

/// Chunks: enough for 2^38 words (2 TiB), more than 32-bit references to lines of eight words can name.
const CHUNKS: usize = 22;

/// See the module.
#[derive(Debug)]
pub(crate) struct Memory {
    chunks: [AtomicPtr<AtomicU64>; CHUNKS],
    /// Chunks that exist.
    ready: AtomicUsize,
    growth: Mutex<()>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self {
            chunks: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            ready: AtomicUsize::new(0),
            growth: Mutex::new(()),
        }
    }

    /// Makes sure that the words below `end` exist.
    pub(crate) fn reserve(&self, end: usize) {
        while self.capacity() < end {
            self.grow();
        }
    }

    /// Words that exist.
    pub(crate) fn capacity(&self) -> usize {
        match self.ready.load(Ordering::Acquire) {
            0 => 0,
            ready => chunk_start(ready - 1) + chunk_len(ready - 1),
        }
    }

    /// The word at `index`.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        &self.words(index, 1)[0]
    }

    /// `len` words from `start`. They must exist and lie within one chunk; shorter, possibly empty, where they do not:
    /// a reader that holds an outdated size must find that out by itself, not panic.
    #[inline]
    pub(crate) fn words(&self, start: usize, len: usize) -> &[AtomicU64] {
        let chunk = chunk_of(start);
        let (begin, size) = (chunk_start(chunk), chunk_len(chunk));
        // Acquire: pairs with the release in `grow`, so that the chunk's zeros are there.
        let base = self.chunks[chunk].load(Ordering::Acquire);
        if base.is_null() {
            return &[];
        }
        let len = len.min(begin + size - start);
        // SAFETY: `base` points to `size` atomics that live as long as `self` (chunks are unmapped on drop only), and
        // `start - begin + len <= size`. Shared references to atomics may coexist with any other use of them.
        unsafe { std::slice::from_raw_parts(base.add(start - begin), len) }
    }

    /// The address of the word at `index`, to prefetch from; any word of a chunk that exists.
    #[inline]
    pub(crate) fn address(&self, index: usize) -> *const u8 {
        let chunk = chunk_of(index);
        self.chunks[chunk].load(Ordering::Relaxed).wrapping_add(index.wrapping_sub(chunk_start(chunk))).cast()
    }

    #[cold]
    fn grow(&self) {
        let _growing = self.growth.lock();
        let chunk = self.ready.load(Ordering::Relaxed);
        assert!(chunk < CHUNKS, "an index of 2 TiB");
        let base = backing::allocate(chunk_len(chunk));
        // Release: whoever sees the pointer or the count sees the words.
        self.chunks[chunk].store(base, Ordering::Release);
        self.ready.store(chunk + 1, Ordering::Release);
    }

    /// Returns the memory of `len` words from `start` to the system. They read as zeros, or as before.
    pub(crate) fn give_back(&self, start: usize, len: usize) {
        let words = self.words(start, len);
        backing::give_back(words);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for chunk in 0..self.ready.load(Ordering::Relaxed) {
            // SAFETY: `allocate(chunk_len(chunk))` made it, nobody borrows from `self` any more, and it is freed once.
            unsafe { backing::release(self.chunks[chunk].load(Ordering::Relaxed), chunk_len(chunk)) };
        }
    }
}

/// Chunk 0 holds the words below `2^FIRST_LOG`, chunk `k` those from `2^(FIRST_LOG + k - 1)` to twice that.
#[inline]
fn chunk_of(index: usize) -> usize {
    (usize::BITS - (index >> FIRST_LOG).leading_zeros()) as usize
}

#[inline]
fn chunk_start(chunk: usize) -> usize {
    if chunk == 0 { 0 } else { 1 << (FIRST_LOG as usize + chunk - 1) }
}

#[inline]
fn chunk_len(chunk: usize) -> usize {
    1 << (FIRST_LOG as usize + chunk.saturating_sub(1))
}

#[cfg(all(target_os = "linux", not(any(kv_loom, kv_shuttle))))]
mod backing {
    use super::AtomicU64;

    pub(super) fn allocate(words: usize) -> *mut AtomicU64 {
        let bytes = words * size_of::<AtomicU64>();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of anybody else's.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        assert!(base != libc::MAP_FAILED, "the system refuses {bytes} bytes of addresses");
        base.cast()
    }

    /// Whole pages only; the rest of a range stays.
    pub(super) fn give_back(words: &[AtomicU64]) {
        let page = page_bytes();
        let start = (words.as_ptr() as usize).next_multiple_of(page);
        let end = (words.as_ptr() as usize + size_of_val(words)) / page * page;
        if start < end {
            // SAFETY: the pages lie inside a mapping of our own. Afterwards they read as zeros, which is a value that an
            // atomic word may have; nobody relies on what was there (the slab is free).
            unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
        }
    }

    /// # Safety
    /// `base` and `words` are of one call of [`allocate`], and nobody uses the memory any more.
    pub(super) unsafe fn release(base: *mut AtomicU64, words: usize) {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(base.cast(), words * size_of::<AtomicU64>()) };
    }

    fn page_bytes() -> usize {
        // SAFETY: `sysconf` only reads.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(65_536)
    }
}

#[cfg(not(all(target_os = "linux", not(any(kv_loom, kv_shuttle)))))]
mod backing {
    use super::AtomicU64;

    pub(super) fn allocate(words: usize) -> *mut AtomicU64 {
        let chunk: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        Box::into_raw(chunk).cast()
    }

    pub(super) fn give_back(_words: &[AtomicU64]) {}

    /// # Safety
    /// `base` and `words` are of one call of [`allocate`], and nobody uses the memory any more.
    pub(super) unsafe fn release(base: *mut AtomicU64, words: usize) {
        // SAFETY: the caller's promise: this is the box that `allocate` took apart.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(base, words)) });
    }
}

#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_one_word_and_chunks_touch() {
        for chunk in 1..6 {
            assert_eq!(chunk_start(chunk), chunk_start(chunk - 1) + chunk_len(chunk - 1));
            assert_eq!(chunk_of(chunk_start(chunk)), chunk);
            assert_eq!(chunk_of(chunk_start(chunk) - 1), chunk - 1);
        }
    }

    #[test]
    fn words_keep_their_value_while_the_memory_grows() {
        let memory = Memory::new();
        assert!(memory.words(0, 1).is_empty());
        memory.reserve(1);
        memory.word(0).store(7, Ordering::Relaxed);
        memory.reserve(chunk_start(3));
        memory.word(chunk_start(3) - 1).store(9, Ordering::Relaxed);
        assert_eq!((memory.word(0).load(Ordering::Relaxed), memory.words(chunk_start(3) - 1, 5).len()), (7, 1));
        assert_eq!(memory.capacity(), chunk_start(3));
    }

    #[test]
    fn words_given_back_can_be_read_and_used_again() {
        let memory = Memory::new();
        memory.reserve(4_096);
        memory.words(0, 4_096).iter().for_each(|word| word.store(1, Ordering::Relaxed));
        memory.give_back(0, 4_096);
        assert!(memory.words(0, 4_096).iter().all(|word| word.load(Ordering::Relaxed) <= 1));
        memory.word(4_000).store(2, Ordering::Relaxed);
        assert_eq!(memory.word(4_000).load(Ordering::Relaxed), 2);
    }
}
