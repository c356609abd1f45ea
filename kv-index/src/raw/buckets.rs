//! A hash table for writers, of buckets that are one cache line each.
//!
//! An entry stands in the bucket that its hash points to or, if that is full, in the next with room. Hashes in order have
//! buckets in order, whatever the number of buckets: growth is one pass from front to back that hashes nothing again, so it may
//! be a half at a time, and the table stays five ninths to five sixths full. 16 bits of hash are enough for both, as the
//! tables are many and small: what they do not tell apart, `wanted` does.
//!
//! # Invariants
//! 1. A bucket's entries stand at its front.
//! 2. Between an entry's bucket and the one where it stands, all are full.

/// A bucket: `N` hashes and values that fill a cache line, together with their number.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket<V, const N: usize> {
    hashes: [u16; N],
    len: u8,
    values: [V; N],
}

#[derive(Clone, Debug)]
pub(crate) struct Buckets<V, const N: usize> {
    /// Homes, and behind them those for entries whose home is full near the end.
    buckets: Vec<Bucket<V, N>>,
    homes: usize,
    len: usize,
}

/// Entries for each sixth of a table's room, at most.
const FULL_SIXTHS: usize = 5;

impl<V: Copy + Default, const N: usize> Buckets<V, N> {
    pub(crate) const fn new() -> Self {
        Self { buckets: Vec::new(), homes: 0, len: 0 }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn homes(&self) -> usize {
        self.homes
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket<V, N>>()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, V)> + '_ {
        self.buckets.iter().flat_map(Bucket::iter)
    }

    /// The first bucket, to prefetch from: home `n` is `n` lines on.
    pub(crate) fn first_home(&self) -> *const u8 {
        self.buckets.as_ptr().cast()
    }

    /// The value of the first entry of `hash` that `wanted` takes.
    #[inline]
    pub(crate) fn find(&self, hash: u16, wanted: impl FnMut(V) -> bool) -> Option<V> {
        self.position(hash, wanted).ok().map(|(bucket, at)| self.buckets[bucket].values[at])
    }

    /// The same, to be changed.
    pub(crate) fn find_mut(&mut self, hash: u16, wanted: impl FnMut(V) -> bool) -> Option<&mut V> {
        let (bucket, at) = self.position(hash, wanted).ok()?;
        Some(&mut self.buckets[bucket].values[at])
    }

    /// Where such an entry stands, or the first bucket with room on the way to where it would.
    #[inline]
    fn position(&self, hash: u16, mut wanted: impl FnMut(V) -> bool) -> Result<(usize, usize), usize> {
        let mut at = home(hash, self.homes);
        while let Some(bucket) = self.buckets.get(at) {
            let mut alike = bucket.alike(hash);
            while alike != 0 {
                let nth = alike.trailing_zeros() as usize;
                if wanted(bucket.values[nth]) {
                    return Ok((at, nth));
                }
                alike &= alike - 1;
            }
            if usize::from(bucket.len) < N {
                break;
            }
            at += 1;
        }
        Err(at)
    }

    /// Inserts an entry unless one of its hash that `same` takes is there, whose value is returned.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u16, value: V, same: impl FnMut(V) -> bool) -> Option<V> {
        match self.position(hash, same) {
            Ok((bucket, at)) => return Some(self.buckets[bucket].values[at]),
            Err(bucket) if (self.len + 1) * 6 <= self.homes * N * FULL_SIXTHS && bucket < self.buckets.len() => {
                self.buckets[bucket].push(hash, value);
            }
            Err(_) => {
                self.resize(self.homes + (self.homes / 2).max(1));
                self.append(hash, value);
            }
        }
        self.len += 1;
        None
    }

    /// Writes an entry that is not there.
    #[inline]
    fn append(&mut self, hash: u16, value: V) {
        let mut at = home(hash, self.homes);
        while self.buckets.get(at).is_some_and(|bucket| usize::from(bucket.len) == N) {
            at += 1;
        }
        if at == self.buckets.len() {
            self.buckets.reserve_exact(1);
            self.buckets.push(Bucket::empty());
        }
        self.buckets[at].push(hash, value);
    }

    /// Takes out the first entry of `hash` that `wanted` takes.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u16, wanted: impl FnMut(V) -> bool) -> Option<V> {
        let (bucket, at) = self.position(hash, wanted).ok()?;
        let removed = self.buckets[bucket].values[at];
        if self.buckets[bucket].take_out(at) {
            self.refill(bucket);
        }
        self.len -= 1;
        // A third full: half the room is as much as it will want for a while.
        if self.len == 0 {
            *self = Self::new();
        } else if self.len * 3 < self.homes * N && self.homes > 2 {
            self.resize(self.homes / 2);
        }
        Some(removed)
    }

    /// Fills the room in a bucket that was full with one from a later bucket that would rather stand here, and so on.
    fn refill(&mut self, mut bucket: usize) {
        while let Some((from, nth)) = self.displaced(bucket) {
            let (hash, value) = (self.buckets[from].hashes[nth], self.buckets[from].values[nth]);
            self.buckets[bucket].push(hash, value);
            if !self.buckets[from].take_out(nth) {
                return;
            }
            bucket = from;
        }
    }

    /// An entry behind `bucket`, which is no longer full, whose home is not behind it.
    fn displaced(&self, bucket: usize) -> Option<(usize, usize)> {
        for (from, later) in self.buckets.iter().enumerate().skip(bucket + 1) {
            let len = usize::from(later.len);
            if let Some(nth) = later.hashes[..len].iter().position(|&hash| home(hash, self.homes) <= bucket) {
                return Some((from, nth));
            }
            if len < N {
                return None;
            }
        }
        None
    }

    /// Lays all entries out anew. They come nearly in the order in which they go, so that this runs along both tables.
    #[cold]
    fn resize(&mut self, homes: usize) {
        let old = std::mem::take(&mut self.buckets);
        self.homes = homes;
        self.buckets = vec![Bucket::empty(); homes];
        for bucket in &old {
            for at in 0..usize::from(bucket.len).min(N) {
                self.append(bucket.hashes[at], bucket.values[at]);
            }
        }
    }
}

impl<V: Copy + Default, const N: usize> Bucket<V, N> {
    fn empty() -> Self {
        Self { hashes: [0; N], len: 0, values: [V::default(); N] }
    }

    /// A bit for each entry that bears the hash. All are looked at, without a branch among them.
    #[inline]
    fn alike(&self, hash: u16) -> u32 {
        let alike = self.hashes.iter().zip(0u32..).fold(0, |alike, (&other, at)| alike | u32::from(other == hash) << at);
        alike & ((1 << self.len) - 1)
    }

    #[inline]
    fn push(&mut self, hash: u16, value: V) {
        let at = usize::from(self.len);
        self.hashes[at] = hash;
        self.values[at] = value;
        self.len += 1;
    }

    /// Takes an entry out, and lets the last one stand there. Whether the bucket was full.
    #[inline]
    fn take_out(&mut self, at: usize) -> bool {
        let last = usize::from(self.len) - 1;
        self.hashes[at] = self.hashes[last];
        self.values[at] = self.values[last];
        self.len -= 1;
        last == N - 1
    }

    fn iter(&self) -> impl Iterator<Item = (u16, V)> + '_ {
        self.hashes.iter().copied().zip(self.values.iter().copied()).take(usize::from(self.len))
    }
}

/// Hashes in order have homes in order.
#[inline]
pub(crate) fn home(hash: u16, homes: usize) -> usize {
    (usize::from(hash) * homes) >> 16
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    type Table = Buckets<u32, 4>;

    fn check(table: &Table) {
        for (at, bucket) in table.buckets.iter().enumerate() {
            for (hash, _) in bucket.iter() {
                let between = &table.buckets[home(hash, table.homes)..at];
                assert!(between.iter().all(|bucket| bucket.len == 4), "invariant 2");
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
