//! A hash table for writers, of buckets that are one cache line each.
//!
//! An entry stands in the bucket that its hash points to or, if that is full, in the next with room; behind the last comes
//! the first. Hashes in order have buckets in order, whatever the number of buckets: growth is one pass from front to back
//! that hashes nothing again. 16 bits of hash are
//! enough for both, as the tables are many and small: what they do not tell apart, `wanted` does.
//!
//! Each bucket counts the entries that had to pass it, and a search ends at the first that nobody passed. So an entry that is taken out
//! leaves room and moves nobody: what stands behind its bucket stays there until it goes, or the table is written anew. The idea is that of
//! F14's overflow counts (Bronson and Shi, 2019).
//!
//! # Invariants
//! 1. A bucket's entries stand at its front.
//! 2. The buckets from the one that an entry's hash points to, to before the one where it stands, count it among those that passed, but
//!    for buckets that counted as many as they can: these do so for good.

use super::compare::alike_of_eight;

/// A bucket: `N` hashes and values of `K` half-words, together with their number, in a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Bucket<const N: usize, const K: usize> {
    /// The number of entries and of those that passed; the hashes; the values.
    words: [u16; LINE_HALVES],
}

const LINE_HALVES: usize = 32;

/// A table that grows and shrinks by itself.
#[derive(Clone, Debug)]
pub(crate) struct Buckets<const N: usize, const K: usize> {
    lines: Vec<Bucket<N, K>>,
    len: usize,
    /// Entries that it holds before it grows, and those with which it has shrunk.
    most: usize,
    least: usize,
}

/// One entry that passed a bucket, and as many as are told apart.
const PASSED: u16 = 1 << 5;
const PASSED_MAX: u16 = u16::MAX / PASSED;

/// How full a table may be: entries for each eighth of its room.
const FULL_EIGHTHS: usize = 7;

/// Whether `len` entries are more than `buckets` of `N` should hold.
#[inline]
pub(crate) const fn is_crowded<const N: usize>(len: usize, buckets: usize) -> bool {
    len * 8 > buckets * N * FULL_EIGHTHS
}

/// Hashes in order have homes in order.
#[inline]
pub(crate) fn home(hash: u16, buckets: usize) -> usize {
    (usize::from(hash) * buckets) >> 16
}

/// The value of the first entry of `hash` that `wanted` takes.
#[inline]
pub(crate) fn find<const N: usize, const K: usize>(
    buckets: &[Bucket<N, K>],
    hash: u16,
    wanted: impl FnMut([u16; K]) -> bool,
) -> Option<[u16; K]> {
    position(buckets, hash, wanted).map(|(bucket, at)| buckets[bucket].value(at))
}

/// Where such an entry stands.
#[inline]
fn position<const N: usize, const K: usize>(
    buckets: &[Bucket<N, K>],
    hash: u16,
    mut wanted: impl FnMut([u16; K]) -> bool,
) -> Option<(usize, usize)> {
    let home = home(hash, buckets.len());
    let mut at = home;
    while let Some(bucket) = buckets.get(at) {
        let mut alike = bucket.alike(hash);
        while alike != 0 {
            let nth = alike.trailing_zeros() as usize;
            if wanted(bucket.value(nth)) {
                return Some((at, nth));
            }
            alike &= alike - 1;
        }
        at = next(at, buckets.len());
        if bucket.passed() == 0 || at == home {
            break;
        }
    }
    None
}

#[inline]
fn next(at: usize, buckets: usize) -> usize {
    if at + 1 == buckets { 0 } else { at + 1 }
}

/// What became of an insertion.
pub(crate) enum Inserted<V> {
    New,
    /// An entry of the hash was there that `same` took.
    There(V),
    /// There is no room.
    Full,
}

/// Inserts an entry unless one of its hash that `same` takes is there.
#[inline]
pub(crate) fn insert<const N: usize, const K: usize>(
    buckets: &mut [Bucket<N, K>],
    hash: u16,
    value: [u16; K],
    same: impl FnMut([u16; K]) -> bool,
) -> Inserted<[u16; K]> {
    if let Some((bucket, at)) = position(buckets, hash, same) {
        return Inserted::There(buckets[bucket].value(at));
    }
    if push(buckets, hash, value) { Inserted::New } else { Inserted::Full }
}

/// Adds an entry to the first bucket with room. Whether there is one.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a table that grows does it for each entry")]
fn push<const N: usize, const K: usize>(buckets: &mut [Bucket<N, K>], hash: u16, value: [u16; K]) -> bool {
    let home = home(hash, buckets.len());
    match buckets.get_mut(home) {
        Some(bucket) if bucket.len() < N => bucket.push(hash, value),
        Some(_) => return push_further(buckets, home, hash, value),
        None => return false,
    }
    true
}

/// The same where its home is full.
fn push_further<const N: usize, const K: usize>(buckets: &mut [Bucket<N, K>], home: usize, hash: u16, value: [u16; K]) -> bool {
    let count = buckets.len();
    let mut at = home;
    while buckets[at].len() == N {
        buckets[at].note_passed();
        at = next(at, count);
        if at == home {
            buckets.iter_mut().for_each(Bucket::forget_passed);
            return false;
        }
    }
    buckets[at].push(hash, value);
    true
}

/// Takes out the first entry of `hash` that `wanted` takes.
#[inline]
pub(crate) fn remove<const N: usize, const K: usize>(
    buckets: &mut [Bucket<N, K>],
    hash: u16,
    wanted: impl FnMut([u16; K]) -> bool,
) -> Option<[u16; K]> {
    let (bucket, at) = position(buckets, hash, wanted)?;
    let removed = buckets[bucket].value(at);
    buckets[bucket].take_out(at);
    let home = home(hash, buckets.len());
    if bucket != home {
        forget_passed(buckets, home, bucket);
    }
    Some(removed)
}

/// One that passed the buckets from `from` to before `to` is gone.
#[cold]
fn forget_passed<const N: usize, const K: usize>(buckets: &mut [Bucket<N, K>], mut from: usize, to: usize) {
    while from != to {
        buckets[from].forget_passed();
        from = next(from, buckets.len());
    }
}

/// Writes the entries of `from` into `to`, which is empty; whether there is room. They come nearly in the order in which they
/// go, so that this runs along both tables.
pub(crate) fn copy<const N: usize, const K: usize>(from: &[Bucket<N, K>], to: &mut [Bucket<N, K>]) -> bool {
    for bucket in from {
        for nth in 0..bucket.len() {
            let (hash, value) = (bucket.hash(nth), bucket.value(nth));
            if !push(to, hash, value) {
                return false;
            }
        }
    }
    true
}

impl<const N: usize, const K: usize> Buckets<N, K> {
    pub(crate) const fn new() -> Self {
        Self { lines: Vec::new(), len: 0, most: 0, least: 0 }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Bucket<N, K>>()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, [u16; K])> + '_ {
        self.lines.iter().flat_map(Bucket::iter)
    }

    /// Where the entries of `hash` begin, to prefetch from.
    #[inline]
    pub(crate) fn address(&self, hash: u16) -> *const u8 {
        self.lines.as_ptr().wrapping_add(home(hash, self.lines.len())).cast()
    }

    /// The value of the first entry of `hash` that `wanted` takes.
    #[inline]
    pub(crate) fn find(&self, hash: u16, wanted: impl FnMut([u16; K]) -> bool) -> Option<[u16; K]> {
        find(&self.lines, hash, wanted)
    }

    /// Whether the next entry makes it grow.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.most
    }

    /// Grows if the next entry would make it.
    #[inline]
    pub(crate) fn reserve_one(&mut self) {
        if self.is_full() {
            self.resize((self.lines.len() * 2).max(1));
        }
    }

    /// Whether it shrinks when an entry is taken out.
    #[inline]
    pub(crate) fn is_sparse(&self) -> bool {
        self.len <= self.least + 1
    }

    /// Inserts an entry unless one of its hash that `same` takes is there, whose value is returned.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u16, value: [u16; K], same: impl FnMut([u16; K]) -> bool) -> Option<[u16; K]> {
        self.reserve_one();
        let home = home(hash, self.lines.len());
        let bucket = &mut self.lines[home];
        if bucket.ends_search() && bucket.alike(hash) == 0 {
            bucket.push(hash, value);
            self.len += 1;
            return None;
        }
        self.insert_further(hash, value, same)
    }

    /// The same, where the first bucket is full, was passed, or has an entry of the hash.
    fn insert_further(&mut self, hash: u16, value: [u16; K], same: impl FnMut([u16; K]) -> bool) -> Option<[u16; K]> {
        match insert(&mut self.lines, hash, value, same) {
            Inserted::There(there) => return Some(there),
            Inserted::New => self.len += 1,
            Inserted::Full => unreachable!("an eighth of the room is free"),
        }
        None
    }

    /// Takes out the first entry of `hash` that `wanted` takes.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u16, wanted: impl FnMut([u16; K]) -> bool) -> Option<[u16; K]> {
        let removed = remove(&mut self.lines, hash, wanted)?;
        self.len -= 1;
        if self.len <= self.least {
            self.shrink();
        }
        Some(removed)
    }

    #[cold]
    fn shrink(&mut self) {
        if self.len == 0 {
            *self = Self::new();
        } else {
            self.resize(self.lines.len() / 2);
        }
    }

    #[cold]
    fn resize(&mut self, buckets: usize) {
        let old = std::mem::replace(&mut self.lines, vec![Bucket::empty(); buckets]);
        self.most = buckets * N * FULL_EIGHTHS / 8;
        // A third full: half the room is as much as it will want for a while.
        self.least = if buckets > 2 { (buckets * N - 1) / 3 } else { 0 };
        let fits = copy(&old, &mut self.lines);
        debug_assert!(fits, "a table grows before it is full, and shrinks when it is a third full");
    }
}

impl<const N: usize, const K: usize> Bucket<N, K> {
    pub(crate) const fn empty() -> Self {
        const { assert!(N * (1 + K) < LINE_HALVES && N <= 16) };
        Self { words: [0; LINE_HALVES] }
    }

    #[inline]
    fn len(&self) -> usize {
        usize::from(self.words[0] % PASSED)
    }

    /// How many entries had to pass it.
    #[inline]
    fn passed(&self) -> u16 {
        self.words[0] / PASSED
    }

    /// Whether it has room, and nobody passed it.
    #[inline]
    fn ends_search(&self) -> bool {
        usize::from(self.words[0]) < N
    }

    #[inline]
    fn note_passed(&mut self) {
        if self.passed() < PASSED_MAX {
            self.words[0] += PASSED;
        }
    }

    fn forget_passed(&mut self) {
        if self.passed() < PASSED_MAX {
            self.words[0] -= PASSED;
        }
    }

    #[inline]
    fn hash(&self, at: usize) -> u16 {
        self.words[1 + at]
    }

    #[inline]
    fn value(&self, at: usize) -> [u16; K] {
        let start = 1 + N + at * K;
        std::array::from_fn(|half| self.words[start + half])
    }

    /// A bit for each entry that bears the hash. All are looked at, and some of the values, without a branch among them.
    #[inline]
    fn alike(&self, hash: u16) -> u32 {
        let eight = |start: usize| alike_of_eight(self.words[start..].first_chunk().expect("a line has more"), hash);
        let alike = if N > 8 { eight(1) | eight(9) << 8 } else { eight(1) };
        alike & ((1 << self.len()) - 1)
    }

    #[inline]
    fn push(&mut self, hash: u16, value: [u16; K]) {
        self.put(self.len(), hash, value);
        self.words[0] += 1;
    }

    #[inline]
    fn put(&mut self, at: usize, hash: u16, value: [u16; K]) {
        self.words[1 + at] = hash;
        let start = 1 + N + at * K;
        self.words[start..start + K].copy_from_slice(&value);
    }

    /// Takes an entry out, and lets the last one stand there.
    #[inline]
    fn take_out(&mut self, at: usize) {
        let last = self.len() - 1;
        self.put(at, self.hash(last), self.value(last));
        self.words[0] -= 1;
    }

    fn iter(&self) -> impl Iterator<Item = (u16, [u16; K])> + '_ {
        (0..self.len()).map(|at| (self.hash(at), self.value(at)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{Buckets, PASSED_MAX, home, next};

    type Table = Buckets<4, 2>;

    fn halves(value: u32) -> [u16; 2] {
        [value as u16, (value >> 16) as u16]
    }

    fn check(table: &Table) {
        let count = table.lines.len();
        let mut passed = vec![0u16; count];
        for (at, bucket) in table.lines.iter().enumerate() {
            for (hash, _) in bucket.iter() {
                let mut between = home(hash, count);
                while between != at {
                    passed[between] += 1;
                    between = next(between, count);
                }
            }
        }
        let counted: Vec<u16> = table.lines.iter().map(super::Bucket::passed).collect();
        assert_eq!(counted, passed, "invariant 2");
    }

    proptest! {
        #[test]
        fn a_table_is_a_set_whatever_its_hashes(
            ops in proptest::collection::vec((any::<bool>(), prop_oneof![0u16..4, any::<u16>(), Just(u16::MAX)], 1u32..20), 0..800)
        ) {
            let (mut table, mut set) = (Table::new(), BTreeSet::new());
            for (insert, hash, value) in ops {
                if insert {
                    let found = table.insert(hash, halves(value), |other| other == halves(value));
                    prop_assert_eq!(found.is_none(), set.insert((hash, value)));
                } else {
                    let removed = table.remove(hash, |other| other == halves(value));
                    prop_assert_eq!(removed.is_some(), set.remove(&(hash, value)));
                }
                prop_assert_eq!(table.len(), set.len());
                check(&table);
            }
            prop_assert!(set.iter().all(|&(hash, value)| table.find(hash, |other| other == halves(value)).is_some()));
            prop_assert_eq!(table.iter().collect::<BTreeSet<_>>(), set.iter().map(|&(hash, value)| (hash, halves(value))).collect());
        }
    }

    #[test]
    fn more_may_pass_a_bucket_than_it_counts() {
        let mut table = Table::new();
        let same = |value| move |other| other == halves(value);
        let many = 4 * u32::from(PASSED_MAX);
        (0..many).for_each(|value| assert!(table.insert(7, halves(value), |_| false).is_none()));
        (0..many).step_by(2).for_each(|value| assert!(table.remove(7, same(value)).is_some()));
        assert!((0..many).all(|value| table.find(7, same(value)).is_some() == (value % 2 == 1)));
    }

    #[test]
    fn tables_stay_small_while_they_grow_and_go_when_empty() {
        let mut table = Buckets::<10, 2>::new();
        let hash = |nth: u32| (nth.wrapping_mul(0x9e37_79b1) >> 16) as u16;
        for nth in 1..10_000 {
            table.insert(hash(nth), halves(nth), |_| false);
            assert!(nth < 500 || table.bytes() < nth as usize * 16, "{} bytes for {nth}", table.bytes());
        }
        (1..10_000).for_each(|nth| assert!(table.remove(hash(nth), |other| other == halves(nth)).is_some()));
        assert_eq!(table.bytes(), 0);
    }
}
