//! loom's atomics, with every look at a word noted.
//!
//! loom explores the other order of two accesses if it sees that they depend on each other. It knows the last access to a word only:
//! a writer that loads a word before it stores to it, as whoever holds a segment's lock does, hides the lookups that loaded the word
//! before, and the orders in which it stores first are never tried. So each thread notes its loads on a word of its own beside, which
//! the other thread's stores touch. The notes are relaxed and order nothing.

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};

use std::cell::Cell;

use loom::sync::atomic;
use loom::thread::{self, ThreadId};

/// A word whose loads are noted while [`watch`] says so.
#[derive(Debug)]
pub(crate) struct AtomicU64 {
    value: atomic::AtomicU64,
    /// One for the model's main thread, one for the other.
    notes: [atomic::AtomicUsize; 2],
}

thread_local! {
    /// The main thread of the model that this thread of the system runs, once loads are to be noted.
    static MAIN: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

/// Notes loads from now on. The caller is the main thread, and there will be one other.
#[cfg(test)]
pub(crate) fn watch() {
    MAIN.set(Some(thread::current().id()));
}

/// Notes loads no longer.
#[cfg(test)]
pub(crate) fn unwatch() {
    MAIN.set(None);
}

impl Default for AtomicU64 {
    fn default() -> Self {
        Self::new(0)
    }
}

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> Self {
        Self { value: atomic::AtomicU64::new(value), notes: [0, 0].map(atomic::AtomicUsize::new) }
    }

    pub(crate) fn load(&self, ordering: Ordering) -> u64 {
        self.note(|me| me);
        self.value.load(ordering)
    }

    pub(crate) fn store(&self, value: u64, ordering: Ordering) {
        self.note(|me| 1 - me);
        self.value.store(value, ordering);
    }

    pub(crate) fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
        self.note(|me| 1 - me);
        self.value.fetch_add(value, ordering)
    }

    pub(crate) fn fetch_or(&self, value: u64, ordering: Ordering) -> u64 {
        self.note(|me| 1 - me);
        self.value.fetch_or(value, ordering)
    }

    pub(crate) fn fetch_and(&self, value: u64, ordering: Ordering) -> u64 {
        self.note(|me| 1 - me);
        self.value.fetch_and(value, ordering)
    }

    pub(crate) fn compare_exchange(&self, old: u64, new: u64, done: Ordering, not: Ordering) -> Result<u64, u64> {
        self.note(|me| 1 - me);
        self.value.compare_exchange(old, new, done, not)
    }

    pub(crate) fn compare_exchange_weak(&self, old: u64, new: u64, done: Ordering, not: Ordering) -> Result<u64, u64> {
        self.note(|me| 1 - me);
        self.value.compare_exchange_weak(old, new, done, not)
    }

    /// Touches the note of the thread that `whose` makes of the caller's number.
    fn note(&self, whose: impl Fn(usize) -> usize) {
        let Some(main) = MAIN.get() else { return };
        let me = usize::from(thread::current().id() != main);
        // An exchange, of which loom tries one outcome only.
        self.notes[whose(me)].fetch_add(0, Ordering::Relaxed);
    }
}
