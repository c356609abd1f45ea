//! A hash table for writers, of buckets that are one cache line each.
//!
//! An entry stands in the bucket that its hash points to or, if that is full, in the next with room. Hashes in order have
//! buckets in order, whatever the number of buckets: growth is one pass from front to back that hashes nothing again, so it may
//! be a quarter at a time, and the table stays two thirds to five sixths full.
//!
//! # Invariants
//! 1. A bucket's entries stand at its front.
//! 2. Between an entry's bucket and the one where it stands, all are full.

/// What a table holds.
pub(crate) trait Entry: Copy {
    /// An entry that stands for none.
    const NONE: Self;
    /// Whether this is none.
    fn is_none(&self) -> bool;
    /// 32 bits by which entries are found.
    fn hash(&self) -> u32;
}

/// `N` entries that fill a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket<E, const N: usize>([E; N]);

#[derive(Clone, Debug)]
pub(crate) struct Buckets<E, const N: usize> {
    /// Homes, and behind them room for those whose home is full near the end.
    buckets: Vec<Bucket<E, N>>,
    homes: usize,
    len: usize,
}

/// Entries for each sixth of a bucket's room, at most.
const FULL_SIXTHS: usize = 5;

impl<E: Entry, const N: usize> Buckets<E, N> {
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
        self.buckets.capacity() * size_of::<Bucket<E, N>>()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = E> + '_ {
        self.buckets.iter().flat_map(|bucket| bucket.0).filter(|entry| !entry.is_none())
    }

    /// The first bucket, to prefetch from: home `n` is `n` lines on.
    pub(crate) fn first_home(&self) -> *const u8 {
        self.buckets.as_ptr().cast()
    }

    /// The first entry of `hash` that `wanted` takes.
    #[inline]
    pub(crate) fn find(&self, hash: u32, wanted: impl FnMut(&E) -> bool) -> Option<E> {
        self.position(hash, wanted).ok().map(|(bucket, at)| self.buckets[bucket].0[at])
    }

    /// The first entry of `hash` that `wanted` takes, to change all of it but its hash.
    pub(crate) fn find_mut(&mut self, hash: u32, wanted: impl FnMut(&E) -> bool) -> Option<&mut E> {
        let (bucket, at) = self.position(hash, wanted).ok()?;
        Some(&mut self.buckets[bucket].0[at])
    }

    /// Where such an entry stands, or the first free room on the way to where it would.
    #[inline]
    fn position(&self, hash: u32, mut wanted: impl FnMut(&E) -> bool) -> Result<(usize, usize), (usize, usize)> {
        let home = home(hash, self.homes);
        for (step, bucket) in self.buckets[home.min(self.buckets.len())..].iter().enumerate() {
            let (mut alike, len) = bucket.scan(hash);
            while alike != 0 {
                let at = alike.trailing_zeros() as usize;
                if wanted(&bucket.0[at]) {
                    return Ok((home + step, at));
                }
                alike &= alike - 1;
            }
            if len < N {
                return Err((home + step, len));
            }
        }
        Err((self.buckets.len(), 0))
    }

    /// Inserts `entry` unless one of its hash that `same` takes is there, which is returned.
    #[inline]
    pub(crate) fn insert(&mut self, entry: E, same: impl FnMut(&E) -> bool) -> Option<E> {
        match self.position(entry.hash(), same) {
            Ok((bucket, at)) => Some(self.buckets[bucket].0[at]),
            Err((bucket, at)) => {
                if (self.len + 1) * 6 > self.homes * N * FULL_SIXTHS || bucket == self.buckets.len() {
                    self.resize(self.homes + (self.homes * 3 / 8).max(1));
                    self.append(entry);
                } else {
                    self.buckets[bucket].0[at] = entry;
                    self.len += 1;
                }
                None
            }
        }
    }

    /// Inserts an entry that is not there.
    fn append(&mut self, entry: E) {
        let (bucket, at) = self.position(entry.hash(), |_| false).unwrap_or_else(|free| free);
        if bucket == self.buckets.len() {
            self.buckets.push(Bucket([E::NONE; N]));
        }
        self.buckets[bucket].0[at] = entry;
        self.len += 1;
    }

    /// Takes out the first entry of `hash` that `wanted` takes.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u32, wanted: impl FnMut(&E) -> bool) -> Option<E> {
        let (bucket, at) = self.position(hash, wanted).ok()?;
        let removed = self.buckets[bucket].0[at];
        self.take_out(bucket, at);
        self.len -= 1;
        // A third full: half the room is as much as it will want for a while.
        if self.len == 0 {
            *self = Self::new();
        } else if self.len * 3 < self.homes * N && self.homes > 2 {
            self.resize(self.homes / 2);
        }
        Some(removed)
    }

    /// Fills the room of an entry: with the last of its bucket and, if that was full, with one from a later bucket that would
    /// rather stand here.
    fn take_out(&mut self, mut bucket: usize, mut at: usize) {
        loop {
            let entries = &mut self.buckets[bucket].0;
            let last = entries.iter().filter(|entry| !entry.is_none()).count() - 1;
            entries[at] = entries[last];
            entries[last] = E::NONE;
            let Some((from, nth)) = (if last == N - 1 { self.displaced(bucket) } else { None }) else { return };
            self.buckets[bucket].0[last] = self.buckets[from].0[nth];
            (bucket, at) = (from, nth);
        }
    }

    /// An entry behind `bucket`, which is no longer full, whose home is not behind it.
    #[cold]
    fn displaced(&self, bucket: usize) -> Option<(usize, usize)> {
        for (from, later) in self.buckets.iter().enumerate().skip(bucket + 1) {
            let held = later.0.iter().take_while(|entry| !entry.is_none());
            if let Some(nth) = held.clone().position(|entry| home(entry.hash(), self.homes) <= bucket) {
                return Some((from, nth));
            }
            if held.count() < N {
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
        // Room for the last few that do not fit where they belong.
        self.buckets.reserve_exact(homes + 1);
        self.buckets.resize(homes, Bucket([E::NONE; N]));
        let mut lens = vec![0u8; homes];
        for bucket in &old {
            for entry in bucket.0.iter().take_while(|entry| !entry.is_none()) {
                let mut at = home(entry.hash(), homes);
                while at < lens.len() && usize::from(lens[at]) == N {
                    at += 1;
                }
                if at == lens.len() {
                    self.buckets.push(Bucket([E::NONE; N]));
                    lens.push(0);
                }
                self.buckets[at].0[usize::from(lens[at])] = *entry;
                lens[at] += 1;
            }
        }
    }
}

impl<E: Entry, const N: usize> Bucket<E, N> {
    /// Which entries bear the hash, as bits, and how many entries there are. All are looked at, without a branch among them.
    #[inline]
    fn scan(&self, hash: u32) -> (u32, usize) {
        let (mut alike, mut len) = (0, 0);
        for (at, entry) in self.0.iter().enumerate() {
            alike |= u32::from(entry.hash() == hash) << at;
            len += usize::from(!entry.is_none());
        }
        (alike & ((1 << len) - 1), len)
    }
}

/// Hashes in order have homes in order.
#[inline]
pub(crate) fn home(hash: u32, homes: usize) -> usize {
    ((u64::from(hash) * homes as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Pair(u32, u32);

    impl Entry for Pair {
        const NONE: Self = Self(0, 0);
        fn is_none(&self) -> bool {
            self.1 == 0
        }
        fn hash(&self) -> u32 {
            self.0
        }
    }

    type Table = Buckets<Pair, 4>;

    fn check(table: &Table) {
        for (at, bucket) in table.buckets.iter().enumerate() {
            let held = bucket.0.iter().take_while(|entry| !entry.is_none()).count();
            assert!(bucket.0[held..].iter().all(Entry::is_none), "invariant 1");
            for entry in &bucket.0[..held] {
                let between = &table.buckets[home(entry.0, table.homes)..at];
                assert!(between.iter().all(|bucket| !bucket.0[3].is_none()), "invariant 2");
            }
        }
    }

    proptest! {
        #[test]
        fn a_table_is_a_set_whatever_its_hashes(
            ops in proptest::collection::vec((any::<bool>(), prop_oneof![0u32..4, any::<u32>(), Just(u32::MAX)], 1u32..20), 0..800)
        ) {
            let (mut table, mut set) = (Table::new(), BTreeSet::new());
            for (insert, hash, value) in ops {
                let pair = Pair(hash, value);
                if insert {
                    let found = table.insert(pair, |entry| *entry == pair);
                    prop_assert_eq!(found.is_none(), set.insert(pair));
                } else {
                    let removed = table.remove(hash, |entry| *entry == pair);
                    prop_assert_eq!(removed.is_some(), set.remove(&pair));
                }
                prop_assert_eq!(table.len(), set.len());
                check(&table);
            }
            prop_assert!(set.iter().all(|pair| table.find(pair.0, |entry| entry == pair).is_some()));
            prop_assert_eq!(table.iter().collect::<BTreeSet<_>>(), set);
        }
    }

    #[test]
    fn tables_stay_small_while_they_grow_and_go_when_empty() {
        let mut table = Buckets::<Pair, 8>::new();
        let pair = |nth: u32| Pair(nth.wrapping_mul(0x9e37_79b1), nth);
        for nth in 1..100_000 {
            table.insert(pair(nth), |_| false);
            assert!(nth < 1_000 || table.bytes() < nth as usize * 8 * 7 / 4, "{} bytes for {nth}", table.bytes());
        }
        (1..100_000).for_each(|nth| assert!(table.remove(pair(nth).0, |entry| *entry == pair(nth)).is_some()));
        assert_eq!(table.bytes(), 0);
    }
}
