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
    tables: Vec<Buckets<Owned, 5>>,
    len: usize,
    bytes: usize,
}

/// A worker with all its names here has so many tables, and again so many times more whenever they hold [`TABLE_MAX`] names each:
/// beyond that, 16 bits of hash would not fill them evenly. Fewer tables are better for the caches.
const SPREAD: usize = 8;
const TABLE_MAX: usize = 65_536;

/// A scrambled name without its highest 16 bits, which are its hash, and a place: in halves, so that five fill a line.
#[derive(Clone, Copy, Debug, Default)]
struct Owned {
    rest: [u16; 3],
    place: [u16; 2],
}

impl Owned {
    #[inline]
    fn new(scrambled: u64, place: Place) -> Self {
        Self { rest: Self::rest(scrambled), place: [place.0 as u16, (place.0 >> 16) as u16] }
    }

    #[inline]
    fn rest(scrambled: u64) -> [u16; 3] {
        [scrambled as u16, (scrambled >> 16) as u16, (scrambled >> 32) as u16]
    }

    #[inline]
    fn place(self) -> Place {
        Place(u32::from(self.place[0]) | u32::from(self.place[1]) << 16)
    }

    fn scrambled(self, hash: u16) -> u64 {
        let [low, middle, high] = self.rest.map(u64::from);
        low | middle << 16 | high << 32 | u64::from(hash) << 48
    }
}

/// The hash of a scrambled name.
#[inline]
fn hash(scrambled: u64) -> u16 {
    (scrambled >> 48) as u16
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
            let table = self.table(owned.scrambled(hash));
            self.tables[table].insert(hash, owned, |_| false);
        }
        self.bytes = self.tables.iter().map(Buckets::bytes).sum();
    }

    /// The table of a scrambled name.
    #[inline]
    fn table(&self, scrambled: u64) -> usize {
        scrambled as usize & (self.tables.len() - 1)
    }

    /// Fetches the line where `name` would be.
    #[inline]
    pub(crate) fn prefetch(&self, name: u64) {
        let scrambled = self.secret.scramble(name);
        prefetch::read(self.tables[self.table(scrambled)].address(hash(scrambled)));
    }

    #[inline]
    pub(crate) fn find(&self, name: u64) -> Option<Place> {
        let scrambled = self.secret.scramble(name);
        let rest = Owned::rest(scrambled);
        self.tables[self.table(scrambled)].find(hash(scrambled), |owned| owned.rest == rest).map(Owned::place)
    }

    /// Lets `name` lead to `place`, unless it leads somewhere already: then there.
    #[inline]
    pub(crate) fn insert(&mut self, name: u64, place: Place) -> Result<(), Place> {
        let scrambled = self.secret.scramble(name);
        let table = self.table(scrambled);
        let new = Owned::new(scrambled, place);
        let table = &mut self.tables[table];
        let before = table.bytes();
        let there = table.insert(hash(scrambled), new, |owned| owned.rest == new.rest);
        self.bytes = self.bytes + table.bytes() - before;
        if let Some(owned) = there {
            return Err(owned.place());
        }
        self.len += 1;
        if self.len > self.tables.len() * TABLE_MAX {
            self.spread();
        }
        Ok(())
    }

    /// Lets `name` lead to `place`, wherever it led before.
    pub(crate) fn set(&mut self, name: u64, place: Place) {
        if self.insert(name, place).is_err() {
            let scrambled = self.secret.scramble(name);
            let table = self.table(scrambled);
            let new = Owned::new(scrambled, place);
            if let Some(owned) = self.tables[table].find_mut(hash(scrambled), |owned| owned.rest == new.rest) {
                *owned = new;
            }
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, name: u64) -> Option<Place> {
        let scrambled = self.secret.scramble(name);
        let table = self.table(scrambled);
        let rest = Owned::rest(scrambled);
        let table = &mut self.tables[table];
        let before = table.bytes();
        let removed = table.remove(hash(scrambled), |owned| owned.rest == rest)?;
        self.len -= 1;
        self.bytes = self.bytes + table.bytes() - before;
        Some(removed.place())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Place)> + '_ {
        let all = self.tables.iter().flat_map(Buckets::iter);
        all.map(|(hash, owned)| (self.secret.unscramble(owned.scrambled(hash)), owned.place()))
    }
}
