//! The shared name table: where the workers that agree on a block's name hold it.
//!
//! One entry for a block, not one for every holder: 16 bits of the name's hash and the place. The name itself stands in
//! the record of the place's segment, which bears it as *claimed*. Only writers read the table.
//!
//! # Invariants
//! 1. An entry's place is claimed: its segment is alive and has the name there. Whoever takes the claim back takes the entry out first,
//!    under the segment's lock. So whoever holds the shard's lock may read the names of the places it leads to.
//! 2. A name has at most one entry.
//! 3. Locks are taken in the order segment, shard.

use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::buckets::{Buckets, home};
use super::place::Place;
use super::secret::Secret;
use super::segments::Segments;
use super::spin::SpinLock;

/// Growth, and waiting, apart from each other: of a million names, a shard has 250 and grows in a microsecond. An entry's 16
/// bits of hash tell names apart well up to some ten million names.
#[cfg(not(any(kv_loom, kv_shuttle)))]
const SHARDS: usize = 4_096;
#[cfg(any(kv_loom, kv_shuttle))]
const SHARDS: usize = 1;

#[derive(Debug)]
pub(crate) struct Names {
    secret: Secret,
    shards: Box<[Shard]>,
    bytes: AtomicUsize,
}

#[derive(Debug)]
#[repr(align(64))]
struct Shard {
    entries: SpinLock<Claims>,
    /// Where the homes are and how many, for prefetches: a guess that nobody relies on.
    first_home: AtomicPtr<u8>,
    homes: AtomicUsize,
}

/// By hash, the places; ten to a line.
type Claims = Buckets<Place, 10>;

impl Names {
    pub(crate) fn new(secret: Secret) -> Self {
        let shard = |_| Shard {
            entries: SpinLock::new(Claims::new()),
            first_home: AtomicPtr::new(std::ptr::null_mut()),
            homes: AtomicUsize::new(0),
        };
        Self { secret, shards: (0..SHARDS).map(shard).collect(), bytes: AtomicUsize::new(0) }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.shards) + self.bytes.load(Ordering::Relaxed)
    }

    /// The hash of a name: what the other calls take.
    #[inline]
    pub(crate) fn hash(&self, name: u64) -> u64 {
        self.secret.name(name)
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> 48) as usize % SHARDS]
    }

    /// Fetches the line where the name of `hash` would be.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let shard = self.shard(hash);
        let home = home(hash as u16, shard.homes.load(Ordering::Relaxed));
        super::prefetch::read(shard.first_home.load(Ordering::Relaxed).wrapping_add(home * 64));
    }

    /// Where `name`, of `hash`, is claimed.
    #[inline]
    pub(crate) fn find(&self, segments: &Segments, hash: u64, name: u64) -> Option<Place> {
        let entries = self.shard(hash).entries.lock();
        entries.find(hash as u16, |place| segments.name_at(place) == Some(name))
    }

    /// A place where a name of `hash` is claimed, perhaps another name: to fetch what will be looked at.
    #[inline]
    pub(crate) fn likely(&self, hash: u64) -> Option<Place> {
        self.shard(hash).entries.lock().find(hash as u16, |_| true)
    }

    /// Claims `name`, of `hash`, for `place`, whose segment the caller has locked and which bears the name already, unless
    /// it is claimed elsewhere: then that place.
    #[inline]
    pub(crate) fn claim(&self, segments: &Segments, hash: u64, name: u64, place: Place) -> Result<(), Place> {
        let shard = self.shard(hash);
        let mut entries = shard.entries.lock();
        let before = entries.bytes();
        let found = entries.insert(hash as u16, place, |place| segments.name_at(place) == Some(name));
        if entries.bytes() != before {
            self.resized(shard, &entries, before);
        }
        found.map_or(Ok(()), Err)
    }

    /// Takes the claim of the name of `hash` for `place` back.
    #[inline]
    pub(crate) fn release(&self, hash: u64, place: Place) {
        let shard = self.shard(hash);
        let mut entries = shard.entries.lock();
        let before = entries.bytes();
        let removed = entries.remove(hash as u16, |claimed| claimed == place);
        debug_assert!(removed.is_some(), "a claim has its entry");
        if entries.bytes() != before {
            self.resized(shard, &entries, before);
        }
    }

    #[cold]
    fn resized(&self, shard: &Shard, entries: &Claims, before: usize) {
        shard.first_home.store(entries.first_home().cast_mut(), Ordering::Relaxed);
        shard.homes.store(entries.homes(), Ordering::Relaxed);
        self.bytes.fetch_add(entries.bytes().wrapping_sub(before), Ordering::Relaxed);
    }
}
