//! Which segment continues a chain: one table of all children that no link in a record leads to, the root's among them.
//!
//! The key, (parent, offset, first content), is not stored: an entry is a child and 32 bits of the key's hash, and the
//! child itself tells whether it is the one. Readers take no lock. Entries never move within a table, so a lookup that misses
//! has seen every place where the entry could have been; growth builds another table aside.
//!
//! # Invariants
//! 1. Whoever inserts or removes holds the shard's lock. An entry stands until its child, alive, is taken out.
//! 2. A line that an entry could not enter because it was full is marked before the entry enters a later one.
//! 3. A shard's descriptor names a table that is whole; a table is written over by others only after the descriptor's generation
//!    has changed and a release fence.

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};

use super::segments::SegmentId;
use super::slabs::{LINE_WORDS, Line, Slabs};

/// Tables that grow, and writers that wait, apart from each other.
#[cfg(not(any(kv_loom, kv_shuttle)))]
const SHARDS: usize = 256;
#[cfg(any(kv_loom, kv_shuttle))]
const SHARDS: usize = 1;

/// Entries of a line; its last word is the mark.
const LINE_ENTRIES: usize = LINE_WORDS - 1;
const MARK: usize = LINE_ENTRIES;
const _: () = assert!(MARK + 1 == LINE_WORDS);

#[derive(Debug)]
pub(crate) struct Edges {
    shards: Box<[Shard]>,
}

#[derive(Debug)]
struct Shard {
    /// The table's block (low half), the logarithm of its lines (8 bits), and a generation.
    descriptor: AtomicU64,
    /// Entries.
    count: Mutex<usize>,
}

/// A shard's table as one descriptor names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Table(u64);

/// A shard that this thread has locked.
#[derive(Debug)]
pub(crate) struct LockedShard<'a> {
    shard: &'a Shard,
    slabs: &'a Slabs,
    count: MutexGuard<'a, usize>,
    hash: u64,
}

impl Table {
    fn block(self) -> Line {
        Line(self.0 as u32)
    }

    fn lines(self) -> usize {
        if self.block() == Line(0) { 0 } else { 1 << (self.0 >> 32 & 0x1f) }
    }

    fn next(self, block: Line, lines: usize) -> Self {
        let generation = (self.0 >> 40).wrapping_add(1) << 40;
        Self(generation | u64::from(lines.trailing_zeros()) << 32 | u64::from(block.0))
    }

    /// The lines where an entry of the hash may be, in order.
    #[inline]
    fn lines_of(self, slabs: &Slabs, hash: u64) -> impl Iterator<Item = &[AtomicU64]> {
        let lines = self.lines();
        let home = hash as u32 as usize;
        (0..lines).map(move |step| {
            let line = (home + step) & (lines - 1);
            slabs.words(Line(self.block().0.wrapping_add(line as u32)), LINE_WORDS)
        })
    }
}

impl Edges {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Shard { descriptor: AtomicU64::new(0), count: Mutex::new(0) }).collect() }
    }

    /// Bytes beside those in the slabs.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.shards)
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> 56) as usize % SHARDS]
    }

    /// Fetches the line where an entry of the hash would be.
    #[inline]
    pub(crate) fn prefetch(&self, slabs: &Slabs, hash: u64) {
        // Nothing that a model checker sees.
        if cfg!(any(kv_loom, kv_shuttle)) {
            return;
        }
        let table = Table(self.shard(hash).descriptor.load(Ordering::Relaxed));
        if let Some(last) = (table.lines() as u32).checked_sub(1) {
            super::prefetch::read(slabs.address(Line(table.block().0.wrapping_add(hash as u32 & last))));
        }
    }

    /// The children that may be the one.
    #[inline]
    pub(crate) fn candidates<'a>(&'a self, slabs: &'a Slabs, hash: u64) -> Candidates<'a> {
        let shard = self.shard(hash);
        // Acquire: the table's entries are there.
        Candidates::new(slabs, shard, Table(shard.descriptor.load(Ordering::Acquire)), hash)
    }

    /// Tries the children that may be the one until `accept` takes one. `None` says that at some moment of the call there
    /// was no such child, or that `accept` refused it.
    #[inline]
    pub(crate) fn find<T>(&self, slabs: &Slabs, hash: u64, mut accept: impl FnMut(SegmentId) -> Option<T>) -> Option<T> {
        let mut candidates = self.candidates(slabs, hash);
        loop {
            if let Some(found) = candidates.find_map(&mut accept) {
                return Some(found);
            }
            if candidates.is_complete() {
                return None;
            }
        }
    }

    /// Locks the shard where the entry of `hash` stands.
    pub(crate) fn lock<'a>(&'a self, slabs: &'a Slabs, hash: u64) -> LockedShard<'a> {
        let shard = self.shard(hash);
        LockedShard { shard, slabs, count: shard.count.lock(), hash }
    }
}

impl LockedShard<'_> {
    fn table(&self) -> Table {
        // Relaxed: only the lock's holder changes it.
        Table(self.shard.descriptor.load(Ordering::Relaxed))
    }

    /// Tries the children that may be the one. Those that have an entry are alive while the lock is held.
    pub(crate) fn find<T>(&self, accept: impl FnMut(SegmentId) -> Option<T>) -> Option<T> {
        Candidates::new(self.slabs, self.shard, self.table(), self.hash).find_map(accept)
    }

    pub(crate) fn insert(&mut self, child: SegmentId) {
        let lines = self.table().lines();
        // At most 5 of 7 entries: three lines in four have their entries at home.
        if (*self.count + 1) * 7 > lines * LINE_ENTRIES * 5 {
            self.rebuild((lines * 2).max(1));
        }
        enter(self.table(), self.slabs, self.hash, child);
        *self.count += 1;
    }

    /// Takes `child`, which has an entry, out.
    pub(crate) fn remove(&mut self, child: SegmentId) {
        let wanted = entry(self.hash, child);
        let table = self.table();
        let word = table.lines_of(self.slabs, self.hash).flat_map(|line| &line[..LINE_ENTRIES]);
        let word = word.into_iter().find(|word| word.load(Ordering::Relaxed) == wanted).expect("a child has its entry");
        // Relaxed: nothing is promised.
        word.store(0, Ordering::Relaxed);
        *self.count -= 1;
        let lines = table.lines();
        if *self.count == 0 {
            self.rebuild(0);
        } else if lines > 1 && *self.count * 8 < lines * LINE_ENTRIES {
            self.rebuild(lines / 2);
        }
    }

    /// Moves the entries into a table of `lines` lines.
    #[cold]
    fn rebuild(&mut self, lines: usize) {
        let old = self.table();
        let block = if lines == 0 { Line(0) } else { self.slabs.allocate(lines) };
        let new = old.next(block, lines.max(1));
        self.slabs.words(block, lines * LINE_WORDS).iter().for_each(|word| word.store(0, Ordering::Relaxed));
        for line in 0..old.lines() {
            let words = self.slabs.words(Line(old.block().0 + line as u32), LINE_ENTRIES);
            for entry in words.iter().map(|word| word.load(Ordering::Relaxed)).filter(|&entry| entry != 0) {
                enter(new, self.slabs, entry >> 32, SegmentId(entry as u32));
            }
        }
        // Release: the new table is whole before it is seen. The fence: what overwrites the old one comes afterwards.
        self.shard.descriptor.store(new.0, Ordering::Release);
        fence(Ordering::Release);
        if old.lines() > 0 {
            self.slabs.free(old.block(), old.lines());
        }
    }
}

/// The low half of the hash, by which an entry finds its line, with the child.
#[inline]
fn entry(hash: u64, child: SegmentId) -> u64 {
    hash << 32 | u64::from(child.0)
}

/// The children whose entries bear a hash, in the order of the lines: a loop with a memory, so that a lookup has one copy of
/// what it does with each of them.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    slabs: &'a Slabs,
    shard: &'a Shard,
    /// The table that is looked through.
    table: Table,
    hash: u32,
    /// Lines of the table that were not begun.
    left: u32,
    /// Whether the line at hand was full, so that an entry may stand in the next one.
    goes_on: bool,
    /// Entries of the line at hand that were not looked at.
    rest: &'a [AtomicU64],
}

impl Iterator for Candidates<'_> {
    type Item = SegmentId;

    #[inline]
    fn next(&mut self) -> Option<SegmentId> {
        loop {
            while let [word, rest @ ..] = self.rest {
                self.rest = rest;
                // Acquire: the child that an entry names is whole.
                let found = word.load(Ordering::Acquire);
                if (found >> 32) as u32 == self.hash && found as u32 != 0 {
                    return Some(SegmentId(found as u32));
                }
            }
            if !self.goes_on || self.left == 0 {
                return None;
            }
            self.begin_line();
        }
    }
}

impl<'a> Candidates<'a> {
    #[inline]
    fn new(slabs: &'a Slabs, shard: &'a Shard, table: Table, hash: u64) -> Self {
        Self { slabs, shard, table, hash: hash as u32, left: table.lines() as u32, goes_on: true, rest: &[] }
    }

    #[inline]
    fn begin_line(&mut self) {
        // From the home line on, around.
        let at = self.hash.wrapping_sub(self.left) & (self.table.lines() as u32 - 1);
        self.left -= 1;
        let line = self.slabs.words(Line(self.table.block().0.wrapping_add(at)), LINE_WORDS);
        // Words that cannot be read any more are another table's.
        let Some((mark, entries)) = line.split_last() else { return self.left = 0 };
        // Acquire: read before the entries. An entry that enters a later line afterwards was not there yet.
        self.goes_on = mark.load(Ordering::Acquire) != 0;
        self.rest = entries;
    }

    /// Whether all there was has been seen: at some moment since the search began, what it did not give was not there. If not,
    /// it begins again.
    #[inline]
    pub(crate) fn is_complete(&mut self) -> bool {
        // Acquire fence: a word read before it that was written over later brings the descriptor's change with it.
        fence(Ordering::Acquire);
        // Acquire: if it is another table, its entries are there.
        let now = Table(self.shard.descriptor.load(Ordering::Acquire));
        let complete = now == self.table;
        if !complete {
            *self = Self::new(self.slabs, self.shard, now, u64::from(self.hash));
        }
        complete
    }
}

/// Writes an entry into the first line with room.
fn enter(table: Table, slabs: &Slabs, hash: u64, child: SegmentId) {
    for line in table.lines_of(slabs, hash) {
        if let Some(free) = line[..LINE_ENTRIES].iter().find(|word| word.load(Ordering::Relaxed) == 0) {
            // Release: whoever finds the child sees it whole.
            return free.store(entry(hash, child), Ordering::Release);
        }
        // Release: whoever sees the mark sees the line full, as it was.
        line[MARK].store(1, Ordering::Release);
    }
    unreachable!("two in seven entries are free")
}

#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_child_is_found_while_tables_grow_and_shrink() {
        let (edges, slabs) = (Edges::new(), Slabs::new());
        let hash = |child: u32| super::super::secret::Secret::new([3, 5]).edge(SegmentId(0), 0, u64::from(child));
        let find = |child: u32| edges.find(&slabs, hash(child), |found| (found.0 == child).then_some(()));
        for child in 1..50_000 {
            edges.lock(&slabs, hash(child)).insert(SegmentId(child));
        }
        assert!((1..50_000).all(|child| find(child).is_some()));
        assert!((50_000..60_000).all(|child| find(child).is_none()));
        for child in (1..50_000).filter(|child| child % 100 != 0) {
            edges.lock(&slabs, hash(child)).remove(SegmentId(child));
        }
        assert!((1..50_000).all(|child| find(child).is_some() == (child % 100 == 0)));
        (100..50_000).step_by(100).for_each(|child| edges.lock(&slabs, hash(child)).remove(SegmentId(child)));
        assert_eq!(slabs.bytes(), 16 * 16_384, "all tables are given back, and the reserve is left");
    }

    #[test]
    fn children_of_one_hash_are_told_apart_by_whoever_looks() {
        let (edges, slabs) = (Edges::new(), Slabs::new());
        (1..100).for_each(|child| edges.lock(&slabs, 7).insert(SegmentId(child)));
        for child in 1..100 {
            assert_eq!(edges.find(&slabs, 7, |found| (found.0 == child).then_some(found)), Some(SegmentId(child)));
            edges.lock(&slabs, 7).remove(SegmentId(child));
            assert_eq!(edges.find(&slabs, 7, |found| (found.0 == child).then_some(found)), None);
        }
    }
}
