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

use std::ops::ControlFlow;

use crate::sync::atomic::{AtomicU64, Ordering, fence};

use super::record::{HOLDER_LINES_MAX, Meta, Record, copy_words};
use super::segments::{Locked, Segments};
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

impl From<u32> for Held {
    #[inline]
    fn from(half: u32) -> Self {
        Self(half)
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

    /// The dense table, eight workers to a word.
    #[inline]
    pub(crate) fn dense(&self) -> &'a [AtomicU64] {
        self.dense
    }

    /// Whether all holders are words in the record.
    #[inline]
    pub(crate) fn is_inline(&self) -> bool {
        self.list.is_empty() && self.dense.is_empty()
    }

    /// Whether there is no list outside, and no table larger than a record's.
    fn is_in_record(&self) -> bool {
        self.list.is_empty() && self.span() <= HOLDER_LINES_MAX * LINE_BYTES
    }

    /// The words in the record, two to a word: in each half the slot from bit 8 up and the cutoff in the lowest seven.
    #[inline]
    pub(crate) fn inline(&self) -> &'a [AtomicU64] {
        self.inline
    }

    /// The cutoff of a worker's main view that has a byte.
    #[inline]
    pub(crate) fn dense_cutoff(&self, worker: u32) -> usize {
        Seat::byte(self.dense, Slot(worker)).load().cutoff()
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

impl<'a> Locked<'a> {
    /// The segment's holders.
    #[inline]
    pub(crate) fn holders(&self) -> Holders<'a> {
        let record = self.record();
        Holders::of(self.segments, record, record.meta())
    }

    /// The places that `slot` holds.
    #[inline]
    pub(crate) fn mask(&self, slot: Slot) -> u64 {
        self.entry(slot).mask
    }

    /// What `slot` holds, and where that is written.
    #[inline]
    pub(crate) fn entry(&self, slot: Slot) -> Entry<'a> {
        let holders = self.holders();
        let (seat, free) = holders.seat_or_free(slot);
        let mask = seat.map_or(0, |seat| holders.mask(seat.load()));
        Entry { slot, generation: self.generation(), seat, free, mask }
    }

    /// Makes `slot` hold `mask` and nothing else.
    pub(crate) fn set_mask(&mut self, slot: Slot, mask: u64) {
        let entry = self.entry(slot);
        self.put(entry, mask);
    }

    /// Makes the slot that was found hold `mask` and nothing else.
    #[inline]
    pub(crate) fn put(&mut self, mut entry: Entry<'a>, mask: u64) {
        let slot = entry.slot;
        let held = Held::of(slot, mask);
        if held.is_masked() {
            self.set_holes(slot, mask);
        }
        if entry.generation != self.generation() {
            entry = self.entry(slot);
        }
        match entry.seat.or(if mask == 0 { None } else { entry.free }) {
            Some(seat) => seat.store(held),
            None if mask == 0 => return,
            None => self.free_seat(slot).store(held),
        }
        if (entry.mask == 0) != (mask == 0) {
            self.count_holder(mask != 0);
        }
    }

    fn count_holder(&mut self, more: bool) {
        let record = self.record();
        let mut meta = record.meta();
        meta.holders = if more { meta.holders + 1 } else { meta.holders - 1 };
        record.set_meta(meta);
        if !more {
            self.thin_out(meta);
        }
    }

    /// Which of `wanted` somebody holds, counting the slots that `counts` says.
    pub(crate) fn held_of(&self, wanted: u64, counts: impl Fn(Slot) -> bool) -> u64 {
        let holders = self.holders();
        let mut found = 0;
        // Most places have many holders and the first few cover what is asked for.
        let _ = holders.try_for_each(|held| {
            if counts(held.slot()) {
                found |= holders.mask(held);
            }
            if wanted & !found == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found & wanted
    }

    /// Gives the extension's blocks back. Nobody holds anything any more.
    pub(crate) fn free_extension(&mut self) {
        let record = self.record();
        let extension = Part(record.extension());
        if extension.is_none() {
            return;
        }
        let parts = [LIST, DENSE, HOLES].map(|which| self.part(which));
        record.set_extension(0);
        self.bump();
        parts.into_iter().for_each(|part| self.free_part(part));
        if !extension.is_direct() {
            self.segments.slabs.free(extension.block(), 1);
        }
    }

    /// An empty place for a new holder's word.
    fn free_seat(&mut self, slot: Slot) -> Seat<'a> {
        loop {
            let holders = self.holders();
            if holders.is_dense(slot) {
                return Seat::byte(holders.dense, slot);
            }
            if let Some(seat) = holders.half(|held| held.0 == 0) {
                return seat;
            }
            self.make_room(slot);
        }
    }

    /// Makes room for one more word: in the record, in a table there if that has a byte for everybody, then in a table outside
    /// if its bytes come to at most twice those of a list, otherwise in a list.
    #[cold]
    fn make_room(&mut self, slot: Slot) {
        let meta = self.record().meta();
        let holders = self.holders();
        let span = self.wanted_span(slot);
        if meta.holder_lines < HOLDER_LINES_MAX && holders.is_in_record() {
            // A table may take a line more than words would: it is found and read without a search.
            let table_lines = span / LINE_BYTES;
            let tabled = slot.is_main() && table_lines <= HOLDER_LINES_MAX && self.others() <= HEADER_HOLDERS;
            if tabled || !meta.tabled {
                let holder_lines = if tabled { table_lines.max(meta.holder_lines) } else { meta.holder_lines + 1 };
                return self.reshape(Meta { holder_lines, tabled, ..meta });
            }
        }
        let list_bytes = (holders.inline.len() + (holders.list.len() * 2).max(LINE_WORDS)) * 8;
        if slot.is_main() && span > holders.span() && span <= (list_bytes * 2).max(holders.span() * 2) {
            self.spread(span);
        } else {
            self.lengthen();
        }
    }

    /// Holders that are no main views.
    fn others(&self) -> usize {
        let mut others = 0;
        let _ = self.holders().try_for_each(|held| {
            others += usize::from(!held.slot().is_main());
            ControlFlow::<()>::Continue(())
        });
        others
    }

    /// Bytes that a dense table for everybody's main view takes.
    fn wanted_span(&self, slot: Slot) -> usize {
        let mut most = if slot.is_main() { slot.0 } else { 0 };
        let _ = self.holders().try_for_each(|held| {
            if held.slot().is_main() {
                most = most.max(held.slot().0);
            }
            ControlFlow::<()>::Continue(())
        });
        (most as usize + 1).next_power_of_two().max(LINE_BYTES)
    }

    /// Moves all main views into a dense table for `span` workers.
    fn spread(&mut self, span: usize) {
        let holders = self.holders();
        let (part, table) = self.new_part(span / LINE_BYTES);
        let _ = holders.try_for_each(|held| {
            if (held.slot().0 as usize) < span {
                Seat::byte(table, held.slot()).store(held);
            }
            ControlFlow::<()>::Continue(())
        });
        let old = self.swap_part(DENSE, part);
        // Release, here and below: whoever misses a word where it was sees the new generation.
        self.record().table(self.record().meta()).iter().for_each(|word| word.store(0, Ordering::Release));
        for word in holders.inline.iter().chain(holders.list) {
            for shift in [0, 32] {
                let seat = Seat::Half(word, shift);
                if seat.load().0 != 0 && (seat.load().slot().0 as usize) < span {
                    seat.store(Held(0));
                }
            }
        }
        self.free_part(old);
    }

    /// Moves the few that are left of a table outside into the record, if they fit there.
    fn thin_out(&mut self, meta: Meta) {
        // A quarter of where it was worth having: no to and fro at the border.
        if self.part(DENSE).is_none() || meta.holders * 32 > self.holders().span() {
            return;
        }
        let (holders, table) = (self.holders(), self.record().table(meta));
        let inner = Holders { list: &[], dense: table, ..holders };
        let mut moving = Vec::new();
        let _ = Holders { inline: &[], list: &[], ..holders }.try_for_each(|held| {
            moving.push(held);
            ControlFlow::<()>::Continue(())
        });
        if moving.iter().filter(|held| !inner.is_dense(held.slot())).count() > holders.empty_halves() {
            return;
        }
        for held in moving {
            let (seat, free) = inner.seat_or_free(held.slot());
            seat.or(free).expect("there is room, as counted").store(held);
        }
        let old = self.swap_part(DENSE, Part::default());
        self.free_part(old);
    }

    /// Twice the room in the list.
    fn lengthen(&mut self) {
        let old_words = self.holders().list;
        let (part, words) = self.new_part((old_words.len() * 2).max(LINE_WORDS) / LINE_WORDS);
        copy_words(words, old_words);
        let old = self.swap_part(LIST, part);
        self.free_part(old);
    }

    /// Puts `slot`'s mask where readers find it, once its word says that there is one.
    #[cold]
    fn set_holes(&mut self, slot: Slot, mask: u64) {
        let holders = self.holders();
        let at = holders.hole(slot).unwrap_or_else(|| self.new_hole(slot));
        self.holders().holes[at + 1].store(mask, Ordering::Relaxed);
    }

    /// A key for `slot`'s mask.
    fn new_hole(&mut self, slot: Slot) -> usize {
        let part = self.part(HOLES);
        if (part.count() + 1) * 4 > part.lines() * LINE_MASKS * 3 {
            self.renew_holes();
        }
        let holes = self.holders().holes;
        let at = insert_key(holes, slot);
        let part = self.part(HOLES);
        self.set_part(HOLES, part.counting(part.count() + 1));
        at
    }

    /// A new table of masks with room for one more, without the keys of those who have no holes any more.
    fn renew_holes(&mut self) {
        let holders = self.holders();
        let live = |held: Held| held.is_masked() && holders.hole(held.slot()).is_some();
        let mut count = 0usize;
        let each = |visit: &mut dyn FnMut(Held)| {
            let _ = holders.try_for_each(|held| {
                if live(held) {
                    visit(held);
                }
                ControlFlow::<()>::Continue(())
            });
        };
        each(&mut |_| count += 1);
        let lines = ((count + 1) * 2).div_ceil(LINE_MASKS).next_power_of_two();
        let (part, table) = self.new_part(lines);
        each(&mut |held| {
            let at = insert_key(table, held.slot());
            table[at + 1].store(holders.mask(held), Ordering::Relaxed);
        });
        let old = self.swap_part(HOLES, part.counting(count));
        self.free_part(old);
    }

    fn new_part(&self, lines: usize) -> (Part, &'a [AtomicU64]) {
        let segments: &'a Segments = self.segments;
        let part = Part::new(segments.slabs.allocate(lines), lines.trailing_zeros(), 0);
        let words = part_words(segments, part);
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        (part, words)
    }

    /// Publishes a part, and starts a new generation so that readers of the old one notice. Returns the old one.
    fn swap_part(&mut self, which: usize, part: Part) -> Part {
        let extension = Part(self.record().extension());
        if which != HOLES && (extension.is_none() || extension.is_direct()) {
            self.extend(extension);
        }
        let old = self.part(which);
        self.set_part(which, part);
        self.bump();
        old
    }

    /// Makes a line for the parts of an extension, which has masks or nothing.
    fn extend(&self, holes: Part) {
        let line = self.segments.slabs.allocate(1);
        let words = self.segments.slabs.words(line, LINE_WORDS);
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        words[HOLES].store(holes.0 & !Part::DIRECT, Ordering::Relaxed);
        self.record().set_extension(Part::new(line, 0, 0).0);
    }

    fn part(&self, which: usize) -> Part {
        let extension = Part(self.record().extension());
        if extension.is_direct() {
            return if which == HOLES { extension } else { Part::default() };
        }
        if extension.is_none() { extension } else { part_in(self.segments.slabs.words(extension.block(), LINE_WORDS), which) }
    }

    fn set_part(&self, which: usize, part: Part) {
        let extension = Part(self.record().extension());
        if extension.is_none() || extension.is_direct() {
            debug_assert_eq!(which, HOLES);
            return self.record().set_extension(part.0 | Part::DIRECT);
        }
        // Release: pairs with the acquire in `part_in`.
        self.segments.slabs.words(extension.block(), LINE_WORDS)[which].store(part.0, Ordering::Release);
    }

    fn free_part(&self, part: Part) {
        if !part.is_none() {
            self.segments.slabs.free(part.block(), part.lines());
        }
    }
}

impl Holders<'_> {
    fn empty_halves(&self) -> usize {
        let words = self.inline.iter().map(|word| word.load(Ordering::Relaxed));
        words.map(|pair| usize::from(pair as u32 == 0) + usize::from(pair >> 32 == 0)).sum()
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

/// Enters `slot`'s key, which is not there; the caller made room.
fn insert_key(holes: &[AtomicU64], slot: Slot) -> usize {
    let free = probe(slot, holes.len() / 2).map(|at| at * 2).find(|&at| holes[at].load(Ordering::Relaxed) == 0);
    let at = free.expect("a quarter of the seats is free");
    holes[at].store(u64::from(slot.0) + 1, Ordering::Relaxed);
    at
}

#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests {
    use std::collections::BTreeMap;

    use super::super::record::PLACES;
    use super::*;

    fn masks(segment: &Locked<'_>) -> BTreeMap<u32, u64> {
        let holders = segment.holders();
        let mut all = BTreeMap::new();
        let _ = holders.try_for_each(|held| {
            assert_eq!(all.insert(held.slot().0, holders.mask(held)), None, "{:?} comes twice", held.slot());
            assert_eq!(held.cutoff() as u32, holders.mask(held).trailing_ones());
            ControlFlow::<()>::Continue(())
        });
        all
    }

    fn agrees_with_a_map(workers: u32, views: u32, steps: u32) {
        let segments = Segments::new();
        let mut segment = segments.create(Meta { len: PLACES, capacity: PLACES, ..Meta::default() }).unwrap();
        let mut expected = BTreeMap::new();
        let mut state = u64::from(workers);
        for step in 0..steps {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let slot = Slot::new((state >> 40) as u32 % workers, ((state >> 20) as u32 % views) as u8);
            let grows = step % 2_000 < 1_300;
            let mask = match (state >> 60, grows) {
                (0..6, true) => prefix((state >> 33) as usize % 65),
                (6..12, true) => state.rotate_left(17),
                _ => 0,
            };
            segment.set_mask(slot, mask);
            if mask == 0 {
                expected.remove(&slot.0)
            } else {
                expected.insert(slot.0, mask)
            };
            assert_eq!(segment.mask(slot), mask);
            assert_eq!(segment.record().meta().holders, expected.len());
            if step % 97 == 0 {
                assert_eq!(masks(&segment), expected, "{workers} workers, step {step}");
                let union = expected.values().fold(0, |all, mask| all | mask);
                assert_eq!(segment.held_of(u64::MAX, |_| true), union);
            }
        }
        assert_eq!(masks(&segment), expected);
        expected.keys().for_each(|&slot| segment.set_mask(Slot(slot), 0));
        segment.free_extension();
        segment.destroy();
        assert_eq!(segments.count(), 0);
    }

    #[test]
    fn few_holders_agree_with_a_map() {
        agrees_with_a_map(3, 2, 4_000);
    }

    #[test]
    fn dense_fleets_agree_with_a_map() {
        for workers in [40, 70, 128, 150, 400] {
            agrees_with_a_map(workers, 1, 20_000);
        }
    }

    #[test]
    fn dense_fleets_with_further_views_agree_with_a_map() {
        for (workers, views) in [(70, 2), (8, 3), (12, 2), (30, 5)] {
            agrees_with_a_map(workers, views, 20_000);
        }
    }

    #[test]
    fn a_sparse_fleet_of_many_views_agrees_with_a_map() {
        agrees_with_a_map(65_536, 5, 20_000);
    }

    #[test]
    fn main_views_become_dense_and_the_last_few_thin_out() {
        let segments = Segments::new();
        let mut segment = segments.create(Meta { len: 1, capacity: 4, ..Meta::default() }).unwrap();
        (0..1_024).for_each(|worker| segment.set_mask(Slot(worker), 1));
        assert_eq!(segment.holders().span(), 1_024);
        assert_eq!(segment.holders().empty_halves(), 4);
        (5..1_024).for_each(|worker| segment.set_mask(Slot(worker), 0));
        assert_eq!((segment.holders().span(), masks(&segment).len()), (128, 5), "the record's own table");
    }
}
