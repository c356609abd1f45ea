//! A hash table for writers: entries in the order of their hashes, each as near as it can be to where its hash points.
//!
//! Order makes it small and cheap: a search ends at the first larger hash, growth is one pass from front to back without
//! hashing anything again, so it may be a quarter at a time, and the table is never less than two thirds full.

/// What a table holds.
pub(crate) trait Entry: Copy {
    /// An entry that stands for none.
    const NONE: Self;
    /// Whether this is none.
    fn is_none(&self) -> bool;
    /// 32 bits by which entries are found and ordered.
    fn hash(&self) -> u32;
}

#[derive(Clone, Debug)]
pub(crate) struct Sorted<E> {
    /// Homes, and behind them room for those whose home is near the end.
    entries: Vec<E>,
    homes: usize,
    len: usize,
}

/// Room behind the last home, so that a table seldom has to be made longer there.
const OVERHANG: usize = 24;

impl<E: Entry> Sorted<E> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), homes: 0, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn homes(&self) -> usize {
        self.homes
    }

    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<E>()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = E> + '_ {
        self.entries.iter().copied().filter(|entry| !entry.is_none())
    }

    /// Where the entries of `hash` begin or would begin, to prefetch from.
    #[inline]
    pub(crate) fn address(&self, hash: u32) -> *const u8 {
        self.entries.as_ptr().wrapping_add(home(hash, self.homes)).cast()
    }

    /// The first entry of `hash` that `wanted` takes.
    #[inline]
    pub(crate) fn find(&self, hash: u32, wanted: impl FnMut(&E) -> bool) -> Option<E> {
        self.position(hash, wanted).ok().map(|at| self.entries[at])
    }

    /// The first entry of `hash` that `wanted` takes, to change all of it but its hash.
    pub(crate) fn find_mut(&mut self, hash: u32, wanted: impl FnMut(&E) -> bool) -> Option<&mut E> {
        self.position(hash, wanted).ok().map(|at| &mut self.entries[at])
    }

    /// Where such an entry stands, or where one would have to be put.
    #[inline]
    fn position(&self, hash: u32, mut wanted: impl FnMut(&E) -> bool) -> Result<usize, usize> {
        let mut at = home(hash, self.homes);
        while let Some(entry) = self.entries.get(at).filter(|entry| !entry.is_none()) {
            match entry.hash() {
                found if found == hash && wanted(entry) => return Ok(at),
                found if found > hash => break,
                _ => at += 1,
            }
        }
        Err(at)
    }

    /// Inserts `entry` unless one of its hash that `same` takes is there, which is returned.
    #[inline]
    pub(crate) fn insert(&mut self, entry: E, same: impl FnMut(&E) -> bool) -> Option<E> {
        // At most 7 of 8 homes taken: runs stay short.
        if (self.len + 1) * 8 > self.homes * 7 {
            self.resize(self.homes + (self.homes / 4).max(4));
        }
        match self.position(entry.hash(), same) {
            Ok(at) => Some(self.entries[at]),
            Err(at) => {
                self.put(at, entry);
                None
            }
        }
    }

    fn put(&mut self, at: usize, entry: E) {
        let run = self.entries[at..].iter().take_while(|entry| !entry.is_none()).count();
        if at + run == self.entries.len() {
            self.entries.push(E::NONE);
        }
        self.entries.copy_within(at..at + run, at + 1);
        self.entries[at] = entry;
        self.len += 1;
    }

    /// Takes out the first entry of `hash` that `wanted` takes.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u32, wanted: impl FnMut(&E) -> bool) -> Option<E> {
        let at = self.position(hash, wanted).ok()?;
        let removed = self.entries[at];
        // Those behind that are not at home move up.
        let mut end = at + 1;
        while let Some(entry) = self.entries.get(end).filter(|entry| !entry.is_none()) {
            if home(entry.hash(), self.homes) == end {
                break;
            }
            end += 1;
        }
        self.entries.copy_within(at + 1..end, at);
        self.entries[end - 1] = E::NONE;
        self.len -= 1;
        // A third full: half the room is as much as it will want for a while.
        if self.len * 3 < self.homes && self.homes > 16 {
            self.resize(self.homes / 2);
        } else if self.len == 0 {
            *self = Self::new();
        }
        Some(removed)
    }

    /// Keeps the entries that `keep` says.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&E) -> bool) {
        let kept: Vec<E> = self.iter().filter(|entry| keep(entry)).collect();
        *self = Self::new();
        self.fill(&kept, kept.len() * 4 / 3);
    }

    #[cold]
    fn resize(&mut self, homes: usize) {
        let entries: Vec<E> = self.iter().collect();
        self.fill(&entries, homes);
    }

    /// Lays out `entries`, which are in order, in a table of `homes` homes.
    fn fill(&mut self, entries: &[E], homes: usize) {
        let mut table = Vec::with_capacity(homes + OVERHANG.min(homes));
        for entry in entries {
            let home = home(entry.hash(), homes);
            if table.len() < home {
                table.resize(home, E::NONE);
            }
            table.push(*entry);
        }
        table.resize(table.len().max(homes + OVERHANG.min(homes)), E::NONE);
        *self = Self { entries: table, homes, len: entries.len() };
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

    proptest! {
        #[test]
        fn a_table_is_a_set_whatever_its_hashes(
            ops in proptest::collection::vec((any::<bool>(), prop_oneof![0u32..4, any::<u32>(), Just(u32::MAX)], 1u32..20), 0..800)
        ) {
            let (mut table, mut set) = (Sorted::new(), BTreeSet::new());
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
            }
            prop_assert_eq!(table.iter().collect::<BTreeSet<_>>(), set.clone());
            table.retain(|pair| pair.1 % 2 == 0);
            set.retain(|pair| pair.1 % 2 == 0);
            prop_assert!(set.iter().all(|pair| table.find(pair.0, |entry| entry == pair).is_some()));
            prop_assert_eq!(table.len(), set.len());
        }
    }

    #[test]
    fn tables_stay_small_while_they_grow_and_go_when_empty() {
        let mut table = Sorted::new();
        let pair = |nth: u32| Pair(nth.wrapping_mul(0x9e37_79b1), nth);
        for nth in 1..100_000 {
            table.insert(pair(nth), |_| false);
            assert!(nth < 1_000 || table.bytes() * 2 < nth as usize * 8 * 3, "{} bytes for {nth}", table.bytes());
        }
        (1..100_000).for_each(|nth| assert!(table.remove(pair(nth).0, |entry| *entry == pair(nth)).is_some()));
        assert_eq!(table.bytes(), 0);
    }
}
