//! A hash table for writers, of buckets that are one cache line each.
//!
//! An entry stands in the bucket that its hash points to or, if that is full, in the next with room; behind the last comes
//! the first. Hashes in order have buckets in order, whatever the number of buckets: growth is one pass from front to back
//! that hashes nothing again, so it may be a half at a time, and the table stays more than half full. 16 bits of hash are
//! enough for both, as the tables are many and small: what they do not tell apart, `wanted` does.
//!
//! # Invariants
//! 1. A bucket's entries stand at its front.
//! 2. Between an entry's bucket and the one where it stands, all are full.
//! 3. A full bucket that an entry had to pass is marked. Most full buckets are not, and nothing behind them waits for their room.

use super::compare::alike_of_eight;

/// A bucket: `N` hashes and values that fill a cache line, together with their number.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket<V, const N: usize> {
    /// Entries, and the mark.
    state: u16,
    hashes: [u16; N],
    values: [V; N],
}

/// A table that grows and shrinks by itself.
#[derive(Clone, Debug)]
pub(crate) struct Buckets<V, const N: usize> {
    buckets: Vec<Bucket<V, N>>,
    len: usize,
}

/// The mark of a bucket that was passed.
const PASSED: u16 = 1 << 15;

/// How full a table may be: entries for each eighth of its room.
const FULL_EIGHTHS: usize = 7;

/// Whether `len` entries are more than `buckets` of `N` should hold.
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
pub(crate) fn find<V: Copy, const N: usize>(buckets: &[Bucket<V, N>], hash: u16, wanted: impl FnMut(V) -> bool) -> Option<V> {
    position(buckets, hash, wanted).ok().map(|(bucket, at)| buckets[bucket].values[at])
}

/// Where such an entry stands, or the first bucket with room on the way to where it would; one too far if there is none.
#[inline]
fn position<V: Copy, const N: usize>(
    buckets: &[Bucket<V, N>],
    hash: u16,
    mut wanted: impl FnMut(V) -> bool,
) -> Result<(usize, usize), usize> {
    let mut at = home(hash, buckets.len());
    for _ in 0..buckets.len() {
        let bucket = &buckets[at];
        let mut alike = bucket.alike(hash);
        while alike != 0 {
            let nth = alike.trailing_zeros() as usize;
            if wanted(bucket.values[nth]) {
                return Ok((at, nth));
            }
            alike &= alike - 1;
        }
        if bucket.len() < N {
            return Err(at);
        }
        at = next(at, buckets.len());
    }
    Err(buckets.len())
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
pub(crate) fn insert<V: Copy, const N: usize>(
    buckets: &mut [Bucket<V, N>],
    hash: u16,
    value: V,
    same: impl FnMut(V) -> bool,
) -> Inserted<V> {
    match position(buckets, hash, same) {
        Ok((bucket, at)) => Inserted::There(buckets[bucket].values[at]),
        Err(bucket) if bucket < buckets.len() => {
            let home = home(hash, buckets.len());
            if bucket != home {
                mark_passed(buckets, home, bucket);
            }
            buckets[bucket].push(hash, value);
            Inserted::New
        }
        Err(_) => Inserted::Full,
    }
}

/// Marks the buckets from `from` to before `to`.
#[cold]
fn mark_passed<V: Copy, const N: usize>(buckets: &mut [Bucket<V, N>], mut from: usize, to: usize) {
    while from != to {
        buckets[from].state |= PASSED;
        from = next(from, buckets.len());
    }
}

/// Takes out the first entry of `hash` that `wanted` takes.
#[inline]
pub(crate) fn remove<V: Copy, const N: usize>(
    buckets: &mut [Bucket<V, N>],
    hash: u16,
    wanted: impl FnMut(V) -> bool,
) -> Option<V> {
    let (bucket, at) = position(buckets, hash, wanted).ok()?;
    let removed = buckets[bucket].values[at];
    if buckets[bucket].take_out(at) {
        refill(buckets, bucket);
    }
    Some(removed)
}

/// Fills the room in a bucket that was full with one from a later bucket that would rather stand here, and so on.
fn refill<V: Copy, const N: usize>(buckets: &mut [Bucket<V, N>], mut bucket: usize) {
    while let Some((from, nth)) = displaced(buckets, bucket) {
        let (hash, value) = (buckets[from].hashes[nth], buckets[from].values[nth]);
        buckets[bucket].push(hash, value);
        if !buckets[from].take_out(nth) {
            return;
        }
        bucket = from;
    }
    // Nobody who passed it is left.
    buckets[bucket].state &= !PASSED;
}

/// An entry behind `bucket`, which is no longer full, whose home is not behind it.
fn displaced<V: Copy, const N: usize>(buckets: &[Bucket<V, N>], bucket: usize) -> Option<(usize, usize)> {
    let count = buckets.len();
    let behind = |from: usize, at: usize| if at < from { at + count - from } else { at - from };
    let mut from = next(bucket, count);
    while from != bucket {
        let later = &buckets[from];
        let hashes = &later.hashes[..later.len()];
        if let Some(nth) = hashes.iter().position(|&hash| behind(home(hash, count), from) >= behind(bucket, from)) {
            return Some((from, nth));
        }
        if hashes.len() < N {
            return None;
        }
        from = next(from, count);
    }
    None
}

/// Writes the entries of `from` into `to`, which is empty; whether there is room. They come nearly in the order in which they
/// go, so that this runs along both tables.
pub(crate) fn copy<V: Copy, const N: usize>(from: &[Bucket<V, N>], to: &mut [Bucket<V, N>]) -> bool {
    from.iter().all(|bucket| {
        let entries = bucket.hashes.iter().zip(&bucket.values).take(bucket.len());
        entries.into_iter().all(|(&hash, &value)| {
            let mut at = home(hash, to.len());
            for _ in 0..to.len() {
                if to[at].len() < N {
                    to[at].push(hash, value);
                    return true;
                }
                to[at].state |= PASSED;
                at = next(at, to.len());
            }
            false
        })
    })
}

impl<V: Copy + Default, const N: usize> Buckets<V, N> {
    pub(crate) const fn new() -> Self {
        Self { buckets: Vec::new(), len: 0 }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket<V, N>>()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, V)> + '_ {
        self.buckets.iter().flat_map(Bucket::iter)
    }

    /// Where the entries of `hash` begin, to prefetch from.
    #[inline]
    pub(crate) fn address(&self, hash: u16) -> *const u8 {
        self.buckets.as_ptr().wrapping_add(home(hash, self.buckets.len())).cast()
    }

    /// The value of the first entry of `hash` that `wanted` takes.
    #[inline]
    pub(crate) fn find(&self, hash: u16, wanted: impl FnMut(V) -> bool) -> Option<V> {
        find(&self.buckets, hash, wanted)
    }

    /// The same, to be changed.
    pub(crate) fn find_mut(&mut self, hash: u16, wanted: impl FnMut(V) -> bool) -> Option<&mut V> {
        let (bucket, at) = position(&self.buckets, hash, wanted).ok()?;
        Some(&mut self.buckets[bucket].values[at])
    }

    /// Inserts an entry unless one of its hash that `same` takes is there, whose value is returned.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u16, value: V, same: impl FnMut(V) -> bool) -> Option<V> {
        let crowded = is_crowded::<N>(self.len + 1, self.buckets.len());
        if crowded {
            self.resize((self.buckets.len() * 2).max(1));
        }
        match insert(&mut self.buckets, hash, value, same) {
            Inserted::There(there) => return Some(there),
            Inserted::New => self.len += 1,
            Inserted::Full => unreachable!("an eighth of the room is free"),
        }
        None
    }

    /// Takes out the first entry of `hash` that `wanted` takes.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u16, wanted: impl FnMut(V) -> bool) -> Option<V> {
        let removed = remove(&mut self.buckets, hash, wanted)?;
        self.len -= 1;
        // A third full: half the room is as much as it will want for a while.
        if self.len == 0 {
            *self = Self::new();
        } else if self.len * 3 < self.buckets.len() * N && self.buckets.len() > 2 {
            self.resize(self.buckets.len() / 2);
        }
        Some(removed)
    }

    #[cold]
    fn resize(&mut self, buckets: usize) {
        let old = std::mem::replace(&mut self.buckets, vec![Bucket::empty(); buckets]);
        let fits = copy(&old, &mut self.buckets);
        debug_assert!(fits, "a table grows before it is full, and shrinks when it is a third full");
    }
}

impl<V: Copy + Default, const N: usize> Bucket<V, N> {
    pub(crate) fn empty() -> Self {
        Self { state: 0, hashes: [0; N], values: [V::default(); N] }
    }
}

impl<V: Copy, const N: usize> Bucket<V, N> {
    #[inline]
    fn len(&self) -> usize {
        usize::from(self.state & !PASSED)
    }

    /// A bit for each entry that bears the hash. All are looked at, without a branch among them.
    #[inline]
    fn alike(&self, hash: u16) -> u32 {
        let (eights, rest) = self.hashes.as_chunks::<8>();
        let ones = |hashes: &[u16]| hashes.iter().zip(0u32..).fold(0, |alike, (&other, at)| alike | u32::from(other == hash) << at);
        let alike = eights.iter().zip(0u32..).fold(0, |alike, (eight, nth)| alike | alike_of_eight(eight, hash) << (nth * 8));
        (alike | ones(rest) << (eights.len() * 8)) & ((1 << self.len()) - 1)
    }

    #[inline]
    fn push(&mut self, hash: u16, value: V) {
        let at = self.len();
        self.hashes[at] = hash;
        self.values[at] = value;
        self.state += 1;
    }

    /// Takes an entry out, and lets the last one stand there. Whether somebody who had to pass the bucket may want the room.
    #[inline]
    fn take_out(&mut self, at: usize) -> bool {
        let last = self.len() - 1;
        self.hashes[at] = self.hashes[last];
        self.values[at] = self.values[last];
        self.state -= 1;
        last == N - 1 && self.state & PASSED != 0
    }

    fn iter(&self) -> impl Iterator<Item = (u16, V)> + '_ {
        self.hashes.iter().copied().zip(self.values.iter().copied()).take(self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{Buckets, PASSED, home, next};

    type Table = Buckets<u32, 4>;

    fn check(table: &Table) {
        let count = table.buckets.len();
        for (at, bucket) in table.buckets.iter().enumerate() {
            for (hash, _) in bucket.iter() {
                let mut between = home(hash, count);
                while between != at {
                    assert_eq!(table.buckets[between].len(), 4, "invariant 2");
                    assert_ne!(table.buckets[between].state & PASSED, 0, "invariant 3");
                    between = next(between, count);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_table_is_a_set_whatever_its_hashes(
            ops in proptest::collection::vec((any::<bool>(), prop_oneof![0u16..4, any::<u16>(), Just(u16::MAX)], 1u32..20), 0..800)
        ) {
            let (mut table, mut set) = (Table::new(), BTreeSet::new());
            for (insert, hash, value) in ops {
                if insert {
                    let found = table.insert(hash, value, |other| other == value);
                    prop_assert_eq!(found.is_none(), set.insert((hash, value)));
                } else {
                    let removed = table.remove(hash, |other| other == value);
                    prop_assert_eq!(removed.is_some(), set.remove(&(hash, value)));
                }
                prop_assert_eq!(table.len(), set.len());
                check(&table);
            }
            prop_assert!(set.iter().all(|&(hash, value)| table.find(hash, |other| other == value).is_some()));
            prop_assert_eq!(table.iter().collect::<BTreeSet<_>>(), set);
        }
    }

    #[test]
    fn tables_stay_small_while_they_grow_and_go_when_empty() {
        let mut table = Buckets::<u32, 10>::new();
        let hash = |nth: u32| (nth.wrapping_mul(0x9e37_79b1) >> 16) as u16;
        for nth in 1..10_000 {
            table.insert(hash(nth), nth, |_| false);
            assert!(nth < 500 || table.bytes() < nth as usize * 13, "{} bytes for {nth}", table.bytes());
        }
        (1..10_000).for_each(|nth| assert!(table.remove(hash(nth), |other| other == nth).is_some()));
        assert_eq!(table.bytes(), 0);
    }
}
