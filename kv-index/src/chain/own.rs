//! Names that one worker keeps for itself, because the shared table says something else of them or of their place.

use crate::raw::buckets::Buckets;
use crate::raw::place::Place;
use crate::raw::prefetch;
use crate::raw::secret::Secret;

/// Name to place: 12 bytes an entry, five to a line that is more than half full.
#[derive(Debug)]
pub(crate) struct OwnNames {
    secret: Secret,
    /// A power of two of them.
    tables: Vec<Buckets<5, 5>>,
    len: usize,
    bytes: usize,
}

/// A worker with all its names here has so many tables, and again so many times more whenever they hold [`TABLE_MAX`] names each:
/// beyond that, 16 bits of hash would not fill them evenly. Fewer tables are better for the caches.
const SPREAD: usize = 8;
const TABLE_MAX: usize = 65_536;

/// A scrambled name: its highest 16 bits are the hash, and the lowest choose the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key(u64);

/// The rest of a key, and a place.
type Owned = [u16; 5];

impl Key {
    /// The key of which [`word`](Self::word) was told.
    #[inline]
    pub(crate) fn of_word(word: u64) -> Self {
        Self(word)
    }

    #[inline]
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    #[inline]
    fn hash(self) -> u16 {
        (self.0 >> 48) as u16
    }

    #[inline]
    fn leading_to(self, place: Place) -> Owned {
        let [low, high] = place.halves();
        [self.0 as u16, (self.0 >> 16) as u16, (self.0 >> 32) as u16, low, high]
    }

    /// Whether an entry that bears the key's hash is the key's.
    #[inline]
    fn is_of(self, [low, middle, high, ..]: Owned) -> bool {
        (self.0 ^ (u64::from(low) | u64::from(middle) << 16 | u64::from(high) << 32)) << 16 == 0
    }

    fn of(hash: u16, [low, middle, high, ..]: Owned) -> Self {
        Self(u64::from(low) | u64::from(middle) << 16 | u64::from(high) << 32 | u64::from(hash) << 48)
    }
}

#[inline]
fn place([.., low, high]: Owned) -> Place {
    Place::of_halves([low, high])
}

impl OwnNames {
    pub(crate) fn new(secret: Secret) -> Self {
        Self { secret, tables: vec![Buckets::new()], len: 0, bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Distributes the names over more tables.
    #[cold]
    pub(crate) fn spread(&mut self) {
        let all: Vec<(u16, Owned)> = self.tables.iter().flat_map(Buckets::iter).collect();
        self.tables = (0..self.tables.len() * SPREAD).map(|_| Buckets::new()).collect();
        for (hash, owned) in all {
            let table = self.table(Key::of(hash, owned));
            self.tables[table].insert(hash, owned, |_| false);
        }
        self.bytes = self.tables.iter().map(Buckets::bytes).sum();
    }

    /// What the other calls take for a name.
    #[inline]
    pub(crate) fn key(&self, name: u64) -> Key {
        Key(self.secret.scramble(name))
    }

    #[inline]
    fn table(&self, key: Key) -> usize {
        key.0 as usize & (self.tables.len() - 1)
    }

    /// Fetches the line where the name would be.
    #[inline]
    pub(crate) fn prefetch(&self, key: Key) {
        prefetch::read(self.tables[self.table(key)].address(key.hash()));
    }

    #[inline]
    pub(crate) fn find(&self, key: Key) -> Option<Place> {
        self.tables[self.table(key)].find(key.hash(), |owned| key.is_of(owned)).map(place)
    }

    /// Lets the name lead to `to`, unless it leads somewhere already: then there.
    #[inline]
    pub(crate) fn insert(&mut self, key: Key, to: Place) -> Result<(), Place> {
        if self.tables[self.table(key)].is_full() {
            self.make_room(key);
        }
        let table = self.table(key);
        let there = self.tables[table].insert(key.hash(), key.leading_to(to), |owned| key.is_of(owned));
        self.len += usize::from(there.is_none());
        there.map_or(Ok(()), |owned| Err(place(owned)))
    }

    /// Makes room for one more name in the table of `key`.
    #[cold]
    fn make_room(&mut self, key: Key) {
        if self.len > self.tables.len() * TABLE_MAX {
            self.spread();
        }
        let table = self.table(key);
        let table = &mut self.tables[table];
        let before = table.bytes();
        table.reserve_one();
        self.bytes += table.bytes() - before;
    }

    /// Lets the name lead to `to`, wherever it led before.
    pub(crate) fn set(&mut self, key: Key, to: Place) {
        if self.insert(key, to).is_err() {
            self.remove_if(key, |_| true);
            let _ = self.insert(key, to);
        }
    }

    /// Lets the name lead nowhere, if where it leads is wanted: from there.
    #[inline]
    pub(crate) fn remove_if(&mut self, key: Key, wanted: impl Fn(Place) -> bool) -> Option<Place> {
        let table = self.table(key);
        let table = &mut self.tables[table];
        let before = if table.is_sparse() { table.bytes() } else { 0 };
        let removed = table.remove(key.hash(), |owned| key.is_of(owned) && wanted(place(owned)))?;
        self.len -= 1;
        if before > 0 {
            self.bytes = self.bytes + table.bytes() - before;
        }
        Some(place(removed))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Place)> + '_ {
        let all = self.tables.iter().flat_map(Buckets::iter);
        all.map(|(hash, owned)| (self.secret.unscramble(Key::of(hash, owned).0), place(owned)))
    }
}

#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests {
    use super::*;
    use crate::raw::segments::SegmentId;

    #[test]
    fn bytes_are_those_of_the_tables_whatever_came_and_went() {
        let mut own = OwnNames::new(Secret::new([3, 5]));
        let check = |own: &OwnNames| assert_eq!(own.bytes(), own.tables.iter().map(Buckets::bytes).sum::<usize>());
        let place = |name: u64| Place::new(SegmentId(1 + name as u32 / 64), name as usize % 64);
        for name in 0..70_000 {
            assert_eq!(own.insert(own.key(name), place(name)), Ok(()));
            if name % 97 == 0 || (65_530..65_545).contains(&name) {
                check(&own);
            }
        }
        assert_eq!(own.insert(own.key(7), place(8)), Err(place(7)));
        for name in 0..70_000 {
            assert_eq!(own.remove_if(own.key(name), |_| true), Some(place(name)));
            if name % 97 == 0 {
                check(&own);
            }
        }
        assert_eq!((own.len(), own.bytes()), (0, 0));
    }
}
