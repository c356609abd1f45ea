//! What the owner of a segment's lock changes of its holders.

use std::ops::ControlFlow;

use super::{
    DENSE, Entry, HEADER_HOLDERS, HOLES, Held, Holders, LINE_BYTES, LINE_MASKS, LIST, Part, Seat, Slot, part_in, part_words,
    probe,
};
use crate::raw::record::{HOLDER_LINES_MAX, Meta, copy_words};
use crate::raw::segments::{Locked, Segments};
use crate::raw::slabs::LINE_WORDS;
use crate::sync::atomic::{AtomicU64, Ordering};

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
    pub(super) fn empty_halves(&self) -> usize {
        let words = self.inline.iter().map(|word| word.load(Ordering::Relaxed));
        words.map(|pair| usize::from(pair as u32 == 0) + usize::from(pair >> 32 == 0)).sum()
    }
}

/// Enters `slot`'s key, which is not there; the caller made room.
fn insert_key(holes: &[AtomicU64], slot: Slot) -> usize {
    let free = probe(slot, holes.len() / 2).map(|at| at * 2).find(|&at| holes[at].load(Ordering::Relaxed) == 0);
    let at = free.expect("a quarter of the seats is free");
    holes[at].store(u64::from(slot.0) + 1, Ordering::Relaxed);
    at
}
