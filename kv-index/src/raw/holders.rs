//! Who holds which places of one segment.
//!
//! A *slot* is a view of a worker. What a slot holds of a segment is a mask of its places, and nearly always the first
//! few of them: a holder's word has the slot, the *cutoff* (how many places from the start are held without a gap) and
//! whether a mask with holes stands elsewhere. A lookup needs the cutoff and nothing else, and every change of it is one
//! store.
//!
//! Words stand in the record, and beyond 36 of them in a list outside. Where the slots are dense enough, the workers' main views
//! stand in a table instead, one byte for each worker (cutoff and the mask flag): in the record up to 128 workers, outside
//! beyond. The record's extension leads to what is outside: to the masks if there is nothing else, otherwise to a line that
//! leads to the list, the table and the masks.
//!
//! While the generation stands still, a slot's word never moves. What moves words (a longer list, another dense table)
//! publishes the new home first, then the next generation, and only then lets go of the old home.

mod writing;

use std::ops::ControlFlow;

use crate::sync::atomic::{AtomicU64, Ordering, fence};

use super::record::{HOLDER_LINES_MAX, Meta, Record};
use super::segments::Segments;
use super::slabs::{LINE_WORDS, Line};

/// A view of a worker: the worker's number in the low 16 bits, the view's above. Main views are dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

/// A holder's word: the slot, whether a mask tells what is held, and the cutoff. 0 is nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held(u32);

/// Where a part of an extension is: a block, the logarithm of its lines (5 bits), whether it is all of the extension, and a
/// count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part(u64);

/// Words of an extension.
const LIST: usize = 0;
const DENSE: usize = 1;
const HOLES: usize = 2;

/// Workers that a line of a dense table has a byte for.
const LINE_BYTES: usize = LINE_WORDS * 8;
/// Words that a header has room for.
const HEADER_HOLDERS: usize = 4;
/// Masks that a line has room for: a key and a mask each.
const LINE_MASKS: usize = LINE_WORDS / 2;
/// No part is larger, whatever an outdated word says.
const PART_LOG_MAX: u32 = 16;

/// All holders of a segment, as a reader or the lock's owner sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holders<'a> {
    inline: &'a [AtomicU64],
    list: &'a [AtomicU64],
    /// A byte for each worker's main view.
    dense: &'a [AtomicU64],
    /// Keys and masks in turn.
    holes: &'a [AtomicU64],
}

/// Where a lookup, which needs no masks, finds all cutoffs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cutoffs<'a> {
    /// In the record, a byte for each worker, 64 to a row.
    Table(&'a [[AtomicU64; LINE_WORDS]]),
    /// In the record, two to a word: in each half the slot from bit 8 up and the cutoff in the lowest seven.
    Words(&'a [AtomicU64]),
    /// In more than one place.
    Spread(Holders<'a>),
}

/// Where a slot's word stands.
#[derive(Clone, Copy, Debug)]
enum Seat<'a> {
    /// Half a word: the shift says which.
    Half(&'a AtomicU64, u32),
    /// A byte of the dense table.
    Byte(&'a AtomicU64, u32),
}

impl Slot {
    pub(crate) const fn new(worker: u32, view: u8) -> Self {
        Self(worker | (view as u32) << 16)
    }

    #[inline]
    pub(crate) const fn worker(self) -> u32 {
        self.0 & 0xffff
    }

    #[inline]
    pub(crate) const fn view(self) -> u8 {
        (self.0 >> 16) as u8
    }

    #[inline]
    const fn is_main(self) -> bool {
        self.0 <= 0xffff
    }
}

impl Held {
    const MASKED: u32 = 1 << 7;

    #[inline]
    const fn new(slot: Slot, byte: u8) -> Self {
        Self(slot.0 << 8 | byte as u32)
    }

    /// Both holders of a word.
    #[inline]
    pub(crate) const fn pair(word: u64) -> [Self; 2] {
        [Self(word as u32), Self((word >> 32) as u32)]
    }

    /// The word of a slot that holds `mask`; 0 for none.
    fn of(slot: Slot, mask: u64) -> Self {
        if mask == 0 {
            return Self(0);
        }
        let cutoff = mask.trailing_ones();
        let masked = if mask == prefix(cutoff as usize) { 0 } else { Self::MASKED };
        Self(slot.0 << 8 | masked | cutoff)
    }

    #[inline]
    pub(crate) const fn slot(self) -> Slot {
        Slot(self.0 >> 8)
    }

    /// Places held from the segment's start without a gap.
    #[inline]
    pub(crate) const fn cutoff(self) -> usize {
        (self.0 & 0x7f) as usize
    }

    #[inline]
    const fn is_masked(self) -> bool {
        self.0 & Self::MASKED != 0
    }

    #[inline]
    const fn byte(self) -> u8 {
        self.0 as u8
    }
}

impl Part {
    const DIRECT: u64 = 1 << 39;

    fn new(block: Line, log: u32, count: usize) -> Self {
        Self(u64::from(block.0) | u64::from(log) << 32 | (count as u64) << 40)
    }

    #[inline]
    fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline]
    fn block(self) -> Line {
        Line(self.0 as u32)
    }

    fn lines(self) -> usize {
        if self.is_none() { 0 } else { 1 << (self.0 >> 32 & 0x1f).min(u64::from(PART_LOG_MAX)) }
    }

    /// Whether this is the extension itself: masks and nothing else.
    #[inline]
    fn is_direct(self) -> bool {
        self.0 & Self::DIRECT != 0
    }

    fn count(self) -> usize {
        (self.0 >> 40) as usize
    }

    fn counting(self, count: usize) -> Self {
        Self(self.0 & ((1 << 40) - 1) | (count as u64) << 40)
    }
}

/// A slot's word as it was found, to be written without another search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    slot: Slot,
    /// The segment's generation: in another the seats may have gone.
    generation: u64,
    seat: Option<Seat<'a>>,
    /// An empty seat, if there is none of the slot's.
    free: Option<Seat<'a>>,
    /// What the slot holds.
    pub(crate) mask: u64,
}

/// The first `len` places.
#[inline]
pub(crate) const fn prefix(len: usize) -> u64 {
    if len >= 64 { u64::MAX } else { (1 << len) - 1 }
}

impl<'a> Cutoffs<'a> {
    #[inline]
    pub(crate) fn of(segments: &'a Segments, record: Record<'a>, meta: Meta) -> Self {
        let outside = Part(record.extension());
        let words = record.holders(meta);
        if !outside.is_none() && !outside.is_direct() {
            return Self::Spread(Holders::of(segments, record, meta));
        }
        if !meta.tabled {
            return Self::Words(words);
        }
        if words.iter().any(|word| word.load(Ordering::Relaxed) != 0) {
            return Self::Spread(Holders::of(segments, record, meta));
        }
        Self::Table(record.table(meta).as_chunks().0)
    }
}

impl<'a> Holders<'a> {
    #[inline]
    pub(crate) fn of(segments: &'a Segments, record: Record<'a>, meta: Meta) -> Self {
        let (inline, dense) = (record.holders(meta), record.table(meta));
        match Part(record.extension()) {
            none if none.is_none() => Self { inline, list: &[], dense, holes: &[] },
            holes if holes.is_direct() => Self { inline, list: &[], dense, holes: part_words(segments, holes) },
            line => Self::extended(segments, inline, dense, line.block()),
        }
    }

    fn extended(segments: &'a Segments, inline: &'a [AtomicU64], table: &'a [AtomicU64], extension: Line) -> Self {
        let parts = segments.slabs.words(extension, LINE_WORDS);
        let words = |part: usize| match part_in(parts, part) {
            none if none.is_none() => None,
            part => Some(part_words(segments, part)),
        };
        // The dense table first: words that moved there are gone from the list only when it can be seen.
        let dense = words(DENSE).unwrap_or(table);
        Self { inline, dense, list: words(LIST).unwrap_or_default(), holes: words(HOLES).unwrap_or_default() }
    }

    /// Writes the holders, none of which stands outside, into a new record of another shape with room for them.
    pub(crate) fn write(&self, record: Record<'_>, meta: Meta) {
        let new = Holders { inline: record.holders(meta), list: &[], dense: record.table(meta), holes: &[] };
        let _ = self.try_for_each(|held| {
            let (seat, free) = new.seat_or_free(held.slot());
            seat.or(free).expect("the new shape was chosen to have room").store(held);
            ControlFlow::<()>::Continue(())
        });
    }

    /// Workers that the dense table has a byte for.
    #[inline]
    pub(crate) fn span(&self) -> usize {
        self.dense.len() * 8
    }

    /// The dense table, 64 workers to a row.
    #[inline]
    pub(crate) fn dense(&self) -> &'a [[AtomicU64; LINE_WORDS]] {
        self.dense.as_chunks().0
    }

    /// Whether there is no list outside, and no table larger than a record's.
    fn is_in_record(&self) -> bool {
        self.list.is_empty() && self.span() <= HOLDER_LINES_MAX * LINE_BYTES
    }

    /// All holders, until `visit` breaks.
    pub(crate) fn try_for_each<B>(&self, mut visit: impl FnMut(Held) -> ControlFlow<B>) -> ControlFlow<B> {
        for words in [self.inline, self.list] {
            for word in words {
                let pair = word.load(Ordering::Relaxed);
                for held in [Held(pair as u32), Held((pair >> 32) as u32)] {
                    if held.0 != 0 && !self.is_dense(held.slot()) {
                        visit(held)?;
                    }
                }
            }
        }
        for (at, word) in self.dense.iter().enumerate() {
            let mut bytes = word.load(Ordering::Relaxed);
            while bytes != 0 {
                let byte = bytes.trailing_zeros() / 8;
                visit(Held::new(Slot(at as u32 * 8 + byte), (bytes >> (byte * 8)) as u8))?;
                bytes &= !(0xff << (byte * 8));
            }
        }
        ControlFlow::Continue(())
    }

    /// All holders that have words. In the reach of the dense table, only the table counts.
    #[inline]
    pub(crate) fn for_each_word(&self, mut visit: impl FnMut(Held)) {
        let span = self.span() as u32;
        let mut visit_half = |half: u32| {
            if half >> 8 >= span {
                visit(Held(half));
            }
        };
        for words in [self.inline, self.list] {
            for word in words {
                let pair = word.load(Ordering::Relaxed);
                visit_half(pair as u32);
                visit_half((pair >> 32) as u32);
            }
        }
    }

    /// Fetches the slot's byte, if it has one.
    pub(crate) fn prefetch_byte(&self, slot: Slot) {
        self.dense.get(slot.0 as usize / 8).into_iter().for_each(super::prefetch::word);
    }

    /// Fetches the line where the slot's mask would be.
    pub(crate) fn prefetch_mask(&self, slot: Slot) {
        let seats = self.holes.len() / 2;
        let home = probe(slot, seats).next().and_then(|seat| self.holes.get(seat * 2));
        home.into_iter().for_each(super::prefetch::word);
    }

    #[inline]
    fn is_dense(&self, slot: Slot) -> bool {
        (slot.0 as usize) < self.span()
    }

    /// The word of `slot`, if it holds anything.
    #[inline]
    pub(crate) fn find(&self, slot: Slot) -> Option<Held> {
        self.seat(slot).map(Seat::load).filter(|held| held.byte() != 0)
    }

    /// The places that `held` says are held.
    #[inline]
    pub(crate) fn mask(&self, held: Held) -> u64 {
        if held.is_masked() { self.mask_with_holes(held) } else { prefix(held.cutoff()) }
    }

    #[cold]
    fn mask_with_holes(&self, held: Held) -> u64 {
        // Acquire fence: pairs with the release that stored the flag. The key and the mask were written before it.
        fence(Ordering::Acquire);
        // Beside a writer the mask may not be found: then the window does not hold either.
        self.hole(held.slot()).map_or(prefix(held.cutoff()), |at| self.holes[at + 1].load(Ordering::Relaxed))
    }

    /// Where the key of `slot`'s mask is.
    fn hole(&self, slot: Slot) -> Option<usize> {
        let key = u64::from(slot.0) + 1;
        probe(slot, self.holes.len() / 2).map(|at| at * 2).find_map(|at| match self.holes[at].load(Ordering::Relaxed) {
            0 => Some(None),
            found => (found == key).then_some(Some(at)),
        })?
    }

    #[inline]
    fn seat(&self, slot: Slot) -> Option<Seat<'a>> {
        self.seat_or_free(slot).0
    }

    /// The slot's seat or, if it has none, perhaps one that is empty.
    #[inline]
    fn seat_or_free(&self, slot: Slot) -> (Option<Seat<'a>>, Option<Seat<'a>>) {
        if self.is_dense(slot) {
            return (Some(Seat::byte(self.dense, slot)), None);
        }
        let mut free = None;
        for words in [self.inline, self.list] {
            for word in words {
                let pair = word.load(Ordering::Relaxed);
                if Held(pair as u32).0 >> 8 == slot.0 && Held(pair as u32).0 != 0 {
                    return (Some(Seat::Half(word, 0)), None);
                }
                if (pair >> 40) as u32 == slot.0 && pair >> 32 != 0 {
                    return (Some(Seat::Half(word, 32)), None);
                }
                if free.is_none() && (pair as u32 == 0 || pair >> 32 == 0) {
                    free = Some(Seat::Half(word, if pair as u32 == 0 { 0 } else { 32 }));
                }
            }
        }
        (None, free)
    }

    fn half(&self, wanted: impl Fn(Held) -> bool) -> Option<Seat<'a>> {
        for words in [self.inline, self.list] {
            for word in words {
                let pair = word.load(Ordering::Relaxed);
                if wanted(Held(pair as u32)) {
                    return Some(Seat::Half(word, 0));
                }
                if wanted(Held((pair >> 32) as u32)) {
                    return Some(Seat::Half(word, 32));
                }
            }
        }
        None
    }
}

impl<'a> Seat<'a> {
    #[inline]
    fn byte(dense: &'a [AtomicU64], slot: Slot) -> Self {
        Self::Byte(&dense[slot.0 as usize / 8], slot.0 << 8 | ((slot.0 % 8) * 8))
    }

    #[inline]
    fn load(self) -> Held {
        match self {
            Self::Half(word, shift) => Held((word.load(Ordering::Relaxed) >> shift) as u32),
            Self::Byte(word, tagged) => Held::new(Slot(tagged >> 8), (word.load(Ordering::Relaxed) >> (tagged & 0x3f)) as u8),
        }
    }

    /// Under the segment's lock: nobody else changes the other half.
    #[inline]
    fn store(self, held: Held) {
        let (word, shift, width, value) = match self {
            Self::Half(word, shift) => (word, shift, u64::from(u32::MAX), u64::from(held.0)),
            Self::Byte(word, tagged) => (word, tagged & 0x3f, 0xff, u64::from(held.byte())),
        };
        let rest = word.load(Ordering::Relaxed) & !(width << shift);
        // Release: a reader that sees the flag of a mask sees the mask.
        word.store(rest | value << shift, Ordering::Release);
    }
}

#[inline]
fn part_in(extension: &[AtomicU64], which: usize) -> Part {
    // Acquire: the part's words are there, and what moved out of another home is in this one.
    Part(extension.get(which).map_or(0, |word| word.load(Ordering::Acquire)))
}

#[inline]
fn part_words(segments: &Segments, part: Part) -> &[AtomicU64] {
    segments.slabs.words(part.block(), part.lines() * LINE_WORDS)
}

/// The order in which the seats of a table are tried for a slot.
fn probe(slot: Slot, seats: usize) -> impl Iterator<Item = usize> {
    // Neighbouring workers hold the same chains: an odd multiplier spreads them. Seats are a power of two.
    let home = (slot.0.wrapping_mul(0x9e37_79b1) >> 7) as usize;
    (0..seats).map(move |step| (home + step) & (seats - 1))
}

#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests;
