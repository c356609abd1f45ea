//! Names that one worker keeps for itself, because the shared table says something else of them or of their place.

use crate::raw::buckets::{Buckets, Entry, home};
use crate::raw::place::Place;
use crate::raw::prefetch;
use crate::raw::secret::Secret;

/// Name to place: 12 bytes an entry, five to a line that is two thirds to five sixths full.
#[derive(Debug)]
pub(crate) struct OwnNames {
    secret: Secret,
    /// One table, or [`SPREAD`].
    tables: Vec<Buckets<Owned, 5>>,
    len: usize,
}

/// A worker with all its names here has so many tables, so that one that grows copies little.
const SPREAD: usize = 16;

/// A scrambled name, whose high half is its hash, and a place.
#[derive(Clone, Copy, Debug)]
struct Owned {
    high: u32,
    low: u32,
    place: u32,
}

impl Entry for Owned {
    const NONE: Self = Self { high: 0, low: 0, place: 0 };

    #[inline]
    fn is_none(&self) -> bool {
        self.place == 0
    }

    #[inline]
    fn hash(&self) -> u32 {
        self.high
    }
}

impl OwnNames {
    pub(crate) fn new(secret: Secret) -> Self {
        Self { secret, tables: vec![Buckets::new()], len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.tables.iter().map(Buckets::bytes).sum()
    }

    /// Makes ready for many names.
    pub(crate) fn spread(&mut self) {
        let all: Vec<Owned> = self.tables.iter().flat_map(Buckets::iter).collect();
        self.tables = (0..SPREAD).map(|_| Buckets::new()).collect();
        for owned in all {
            self.tables[owned.low as usize % SPREAD].insert(owned, |_| false);
        }
    }

    #[inline]
    fn table(&self, low: u32) -> usize {
        low as usize & (self.tables.len() - 1)
    }

    /// Fetches the line where `name` would be.
    #[inline]
    pub(crate) fn prefetch(&self, name: u64) {
        let (high, low) = self.split(name);
        let table = &self.tables[self.table(low)];
        prefetch::read(table.first_home().wrapping_add(home(high, table.homes()) * 64));
    }

    #[inline]
    pub(crate) fn find(&self, name: u64) -> Option<Place> {
        let (high, low) = self.split(name);
        self.tables[self.table(low)].find(high, |owned| owned.low == low).map(|owned| Place(owned.place))
    }

    /// Lets `name` lead to `place`, unless it leads somewhere already: then there.
    #[inline]
    pub(crate) fn insert(&mut self, name: u64, place: Place) -> Result<(), Place> {
        let (high, low) = self.split(name);
        let table = self.table(low);
        match self.tables[table].insert(Owned { high, low, place: place.0 }, |owned| owned.low == low) {
            Some(owned) => Err(Place(owned.place)),
            None => {
                self.len += 1;
                Ok(())
            }
        }
    }

    /// Lets `name` lead to `place`, wherever it led before.
    pub(crate) fn set(&mut self, name: u64, place: Place) {
        if self.insert(name, place).is_err() {
            let (high, low) = self.split(name);
            let table = self.table(low);
            if let Some(owned) = self.tables[table].find_mut(high, |owned| owned.low == low) {
                owned.place = place.0;
            }
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, name: u64) -> Option<Place> {
        let (high, low) = self.split(name);
        let table = self.table(low);
        let removed = self.tables[table].remove(high, |owned| owned.low == low)?;
        self.len -= 1;
        Some(Place(removed.place))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Place)> + '_ {
        self.tables.iter().flat_map(Buckets::iter).map(|owned| {
            let scrambled = u64::from(owned.high) << 32 | u64::from(owned.low);
            (self.secret.unscramble(scrambled), Place(owned.place))
        })
    }

    #[inline]
    fn split(&self, name: u64) -> (u32, u32) {
        let scrambled = self.secret.scramble(name);
        ((scrambled >> 32) as u32, scrambled as u32)
    }
}
