//! The shared name table: where the workers that agree on a block's name hold it.
//!
//! One entry for a block, not one for every holder: 16 bits of the name's hash and the place. The name itself stands in
//! the record of the place's segment, which bears it as *claimed*. Only writers read the table.
//!
//! It is one array for all shards, of which each has as many buckets as the others, so that a name's line is found from
//! its hash without looking anything up. There are two such arrays: when one gets crowded, the shards move to the other, of
//! another size, one with every call that comes along.
//!
//! # Invariants
//! 1. An entry's place is claimed: its segment is alive and has the name there. Whoever takes the claim back takes the entry out first,
//!    under the segment's lock. So whoever holds the shard's lock may read the names of the places it leads to.
//! 2. A name has at most one entry.
//! 3. Locks are taken in the order segment, move, shard; one shard at a time.
//! 4. A shard's buckets, in the array that its head names, are touched by the holder of its lock only.
//! 5. While all shards stand in one array, the other is nobody's.

use super::buckets::{self, Bucket, Inserted, home, is_crowded};
use super::memory::{LockedWord, Memory};
use super::place::Place;
use super::secret::Secret;
use super::segments::Segments;
use super::slabs::LINE_WORDS;
use super::spin::SpinLock;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Moves, and waiting, apart from each other: of a million names, a shard has a thousand and moves in some microseconds. An
/// entry's 16 bits of hash tell names apart well up to some ten million names.
#[cfg(not(any(kv_loom, kv_shuttle)))]
const SHARDS: usize = 1_024;
#[cfg(any(kv_loom, kv_shuttle))]
const SHARDS: usize = 1;

/// One shard in so many asks whether the table could be smaller.
const ASKING: usize = 64;

/// A table of which less than nine parts in twenty are used may move to less room: a little more than what is used after it was
/// doubled, so that content which comes and goes does not keep twice the room.
const SPARSE: (usize, usize) = (9, 20);

/// By hash, the places; ten to a line.
const LINE_NAMES: usize = 10;
type Line = Bucket<LINE_NAMES, 2>;

/// Lines that an array may have: 16 GiB, for two thousand million names.
const LINES_MAX: usize = 1 << 28;

#[derive(Debug)]
pub(crate) struct Names {
    secret: Secret,
    heads: Box<[SpinLock<Head>]>,
    arrays: [Array; 2],
    /// Whether shards are on the move.
    moving: AtomicBool,
    /// The array where all shards are, or where they are going: a prefetch need not ask each.
    settled: AtomicUsize,
    the_move: Mutex<Move>,
}

/// A shard. Four to a cache line: a store looks at one for each new name.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    /// Names in the shard.
    names: u32,
    /// Names that left it since it moved, or since it asked for less room.
    left: u32,
    /// Which array the shard is in.
    array: u8,
}

#[derive(Debug)]
struct Array {
    memory: Memory<LockedWord>,
    /// Lines of each shard.
    lines: AtomicUsize,
}

/// A move from one array to the other, or from where it was given up back.
#[derive(Debug, Default)]
struct Move {
    to: usize,
    /// The next shard to look at.
    next: usize,
}

impl Names {
    pub(crate) fn new(secret: Secret) -> Self {
        let array = || Array { memory: Memory::new(LINES_MAX * LINE_WORDS), lines: AtomicUsize::new(0) };
        let heads = (0..SHARDS).map(|_| SpinLock::new(Head::default()));
        let the_move = Mutex::new(Move::default());
        let (heads, arrays) = (heads.collect(), [array(), array()]);
        Self { secret, heads, arrays, moving: AtomicBool::new(false), settled: AtomicUsize::new(0), the_move }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.heads) + self.mapped_bytes()
    }

    /// Bytes of memory that does not come from the allocator.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.arrays.iter().map(|array| array.lines.load(Ordering::Relaxed) * SHARDS * size_of::<Line>()).sum()
    }

    /// The hash of a name: what the other calls take.
    #[inline]
    pub(crate) fn hash(&self, name: u64) -> u64 {
        self.secret.name(name)
    }

    /// Fetches the line where the name of `hash` would be. With two lines also the next one, where it is if there was no room.
    #[inline]
    pub(crate) fn prefetch<const LINES: usize>(&self, hash: u64) {
        // Nothing that a model checker sees.
        if cfg!(any(kv_loom, kv_shuttle)) {
            return;
        }
        let shard = shard(hash);
        let array = &self.arrays[self.settled.load(Ordering::Relaxed)];
        let lines = array.lines.load(Ordering::Relaxed);
        let line = shard * lines + home(hash as u16, lines);
        super::prefetch::lines(array.memory.address(line * LINE_WORDS), LINES);
    }

    /// Where `name`, of `hash`, is claimed.
    #[inline]
    pub(crate) fn find(&self, segments: &Segments, hash: u64, name: u64) -> Option<Place> {
        let is = |place| {
            let place = Place::of_halves(place);
            segments.prefetch_start(place.segment());
            segments.name_at(place) == Some(name)
        };
        self.with(hash, |lines, _| buckets::find(lines, hash as u16, is)).map(Place::of_halves)
    }

    /// A place where a name of `hash` is claimed, perhaps another name: to fetch what will be looked at.
    #[inline]
    pub(crate) fn likely(&self, hash: u64) -> Option<Place> {
        self.with(hash, |lines, _| buckets::find(lines, hash as u16, |_| true)).map(Place::of_halves)
    }

    /// Claims `name`, of `hash`, for `place`, whose segment the caller has locked and which bears the name already, unless
    /// it is claimed elsewhere: then that place.
    #[inline]
    pub(crate) fn claim(&self, segments: &Segments, hash: u64, name: u64, place: Place) -> Result<(), Place> {
        loop {
            let inserted = self.with(hash, |lines, head| {
                if is_crowded::<LINE_NAMES>(head.names as usize + 1, lines.len()) {
                    return Inserted::Full;
                }
                let is = |other| segments.name_at(Place::of_halves(other)) == Some(name);
                let inserted = buckets::insert(lines, hash as u16, place.halves(), is);
                head.names += u32::from(matches!(inserted, Inserted::New));
                inserted
            });
            match inserted {
                Inserted::New => {
                    self.go_on_moving();
                    return Ok(());
                }
                Inserted::There(place) => return Err(Place::of_halves(place)),
                Inserted::Full => self.make_room(shard(hash)),
            }
        }
    }

    /// Takes the claim of the name of `hash` for `place` back.
    #[inline]
    pub(crate) fn release(&self, hash: u64, place: Place) {
        let sparse = self.with(hash, |lines, head| {
            let removed = buckets::remove(lines, hash as u16, |claimed| claimed == place.halves());
            debug_assert!(removed.is_some(), "a claim has its entry");
            head.names -= 1;
            head.left += 1;
            // As many have left as are there: a drain moves no more names than there were, and growth is not taken back at once.
            let asks = head.left >= head.names;
            if asks {
                head.left = 0;
            }
            asks && lines.len() > 1 && is_sparse(head.names as usize, lines.len())
        });
        // Looking at all shards takes a while: a few of them ask.
        let sparse = sparse && shard(hash).is_multiple_of(ASKING);
        if sparse {
            self.give_room_back();
        }
        self.go_on_moving();
    }

    /// Calls `act` with the locked shard's lines and head.
    #[inline]
    fn with<T>(&self, hash: u64, act: impl FnOnce(&mut [Line], &mut Head) -> T) -> T {
        let shard = shard(hash);
        let mut head = self.heads[shard].lock();
        // SAFETY: the shard's lock is held, and the head says in which array it is.
        let lines = unsafe { self.arrays[usize::from(head.array)].lines_of(shard) };
        act(lines, &mut head)
    }

    /// Lets the next shard move, if shards are on the move and nobody else is at it.
    #[inline]
    fn go_on_moving(&self) {
        if self.moving.load(Ordering::Relaxed)
            && let Some(mut the_move) = self.the_move.try_lock()
        {
            self.step(&mut the_move);
        }
    }

    /// Makes sure that a crowded shard gets more room.
    #[cold]
    fn make_room(&self, crowded: usize) {
        let mut the_move = self.the_move.lock();
        let stands_in = || usize::from(self.heads[crowded].lock().array);
        if self.moving.load(Ordering::Relaxed) && stands_in() == the_move.to {
            // It has moved already, and is crowded again.
            while self.step(&mut the_move) {}
        }
        // Asked only now: the rest of the move may have turned back, and taken the shard along.
        let array = stands_in();
        if !self.moving.load(Ordering::Relaxed) {
            let lines = self.arrays[array].lines.load(Ordering::Relaxed);
            if !is_crowded::<LINE_NAMES>(self.heads[crowded].lock().names as usize + 1, lines) {
                // Somebody else made room.
                return;
            }
            self.begin(&mut the_move, array, (lines * 2).max(1));
        }
        if !self.transfer(crowded, the_move.to) {
            self.turn_back(&mut the_move);
        }
    }

    /// Begins to move to less room, if all shards together take little of it.
    #[cold]
    fn give_room_back(&self) {
        let Some(mut the_move) = self.the_move.try_lock() else { return };
        if self.moving.load(Ordering::Relaxed) {
            return;
        }
        let array = usize::from(self.heads[0].lock().array);
        let lines = self.arrays[array].lines.load(Ordering::Relaxed);
        let all: u64 = self.heads.iter().map(|head| u64::from(head.lock().names)).sum();
        let most = self.heads.iter().map(|head| head.lock().names).max().unwrap_or(0);
        if !is_sparse(all as usize, SHARDS * lines) {
            return;
        }
        // Two thirds full, if the fullest shard has room then.
        let mut fewer = (all as usize * 3).div_ceil(SHARDS * LINE_NAMES * 2).max(1);
        while is_crowded::<LINE_NAMES>(most as usize + 1, fewer) {
            fewer += 1;
        }
        if fewer < lines {
            self.begin(&mut the_move, array, fewer);
        }
    }

    fn begin(&self, the_move: &mut Move, from: usize, lines: usize) {
        let to = 1 - from;
        assert!(self.arrays[to].memory.reserve(SHARDS * lines * LINE_WORDS), "no addresses are left for names");
        self.arrays[to].lines.store(lines, Ordering::Relaxed);
        *the_move = Move { to, next: 0 };
        self.settled.store(to, Ordering::Relaxed);
        self.moving.store(true, Ordering::Relaxed);
    }

    /// Moves the next shard. Whether there are more.
    fn step(&self, the_move: &mut Move) -> bool {
        if !self.moving.load(Ordering::Relaxed) {
            return false;
        }
        if the_move.next < SHARDS {
            if self.transfer(the_move.next, the_move.to) {
                the_move.next += 1;
            } else {
                self.turn_back(the_move);
            }
            return true;
        }
        let left = &self.arrays[1 - the_move.to];
        left.memory.give_back(0, SHARDS * left.lines.swap(0, Ordering::Relaxed) * LINE_WORDS);
        self.moving.store(false, Ordering::Relaxed);
        false
    }

    /// A shard has grown too large for where it should go: all that have moved go back.
    fn turn_back(&self, the_move: &mut Move) {
        *the_move = Move { to: 1 - the_move.to, next: 0 };
        self.settled.store(the_move.to, Ordering::Relaxed);
    }

    /// Moves a shard, if it is not there yet. Whether it fits.
    fn transfer(&self, shard: usize, to: usize) -> bool {
        let mut head = self.heads[shard].lock();
        let from = usize::from(head.array);
        let lines = self.arrays[to].lines.load(Ordering::Relaxed);
        if from == to || is_crowded::<LINE_NAMES>(head.names as usize, lines) {
            return from == to;
        }
        // SAFETY: the shard's lock is held, and with it what is the shard's in either array.
        let (old, new) = unsafe { (self.arrays[from].lines_of(shard), self.arrays[to].lines_of(shard)) };
        new.fill(Line::empty());
        let fits = buckets::copy(old, new);
        debug_assert!(fits, "not crowded");
        head.array = to as u8;
        head.left = 0;
        true
    }
}

impl Array {
    /// # Safety
    /// The caller holds the shard's lock.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "what the shard's lock guards")]
    #[expect(clippy::cast_ptr_alignment, reason = "memory begins at a page, and lines at multiples of eight words")]
    unsafe fn lines_of(&self, shard: usize) -> &mut [Line] {
        let lines = self.lines.load(Ordering::Relaxed);
        if lines == 0 {
            return &mut [];
        }
        let words = self.memory.words(shard * lines * LINE_WORDS, lines * LINE_WORDS);
        debug_assert_eq!(words.len(), lines * LINE_WORDS);
        // SAFETY: the words lie in memory that is reached in this way only, by the holder of the shard's lock; shards do not
        // overlap, a line is as large and as aligned as a cache line, and any bits are a line. `UnsafeCell` within the atomics
        // lets them be written through.
        unsafe { std::slice::from_raw_parts_mut(words.as_ptr().cast_mut().cast::<Line>(), lines) }
    }
}

/// Whether so many names leave much room in so many lines.
fn is_sparse(names: usize, lines: usize) -> bool {
    names * SPARSE.1 < lines * LINE_NAMES * SPARSE.0
}

#[inline]
fn shard(hash: u64) -> usize {
    (hash >> 48) as usize % SHARDS
}
