//! Who covers everything that a lookup has read so far.

use crate::matches::Found;
use crate::raw::compare;
use crate::raw::holders::{Held, Holders, Slot};
use crate::raw::record::{Meta, Record};
use crate::sync::atomic::{AtomicU64, Ordering};

/// Who covers everything so far: a bit for each worker, in a row for each view that was met. Kept for the next lookup.
#[derive(Clone, Debug, Default)]
pub(crate) struct Active {
    bits: Vec<u64>,
    /// Who covers all that the segment at hand has of the request; then, who covered everything before and does not any more.
    next: Vec<u64>,
    /// Words of a row.
    stride: usize,
    /// Whether no segment was read yet: everybody covers nothing.
    is_first: bool,
    is_empty: bool,
    /// Who covers the beginning of the segment, and how many places of it.
    partial: Vec<(u32, Partial)>,
    /// Main views of one cutoff, a row for each class.
    classes: Vec<u64>,
    /// The last segment's words of holders, if they are all that is active.
    remembered: Vec<u64>,
}

/// Who covers the beginning of a segment.
#[derive(Clone, Copy, Debug)]
enum Partial {
    /// A view.
    View(Slot),
    /// All of a class.
    Class(usize),
}

/// The slots, the cutoffs and the lowest bits of both halves of a pair of holders' words.
const SLOTS: u64 = 0xffff_ff00_ffff_ff00;
const CUTOFFS: u64 = 0x0000_007f_0000_007f;
const EACH_HALF: u64 = 0x0000_0001_0000_0001;

/// Classes that are looked for before those that are left are taken one by one.
const CLASSES_MAX: usize = 8;

impl Active {
    #[inline]
    pub(super) fn begin(&mut self, workers: usize) {
        self.stride = workers.div_ceil(64);
        // The first segment writes over what is in them.
        self.bits.resize(self.stride, 0);
        self.next.resize(self.stride, 0);
        self.is_first = true;
        self.is_empty = false;
        self.remembered.clear();
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Those that are left cover everything.
    #[inline]
    pub(super) fn finish(&mut self, depth: u32, out: &mut Found) {
        if !self.is_first && !self.is_empty {
            append(depth, &self.bits, self.stride, out);
        }
    }

    /// Whether the active slots are this segment's holders too, and cover as many of its places as `wanted`, or all. A chain's
    /// holders come in one order along it, so that this is a comparison of words.
    #[inline]
    pub(super) fn all_go_on(&self, record: Record<'_>, meta: Meta, wanted: usize) -> bool {
        let wanted = wanted.min(meta.len);
        if record.extension() != 0 {
            return false;
        }
        if meta.tabled {
            return self.all_in(record.table(meta), wanted);
        }
        let words = record.holders(meta);
        if words.len() != self.remembered.len() {
            return false;
        }
        // 128 + cutoff - wanted has its highest bit where the cutoff reaches.
        let add = (0x80 - wanted as u64) * EACH_HALF;
        let mut differ = 0;
        for (word, &before) in words.iter().zip(&self.remembered) {
            let pair = word.load(Ordering::Relaxed);
            // Where there was a cutoff, 127 and it have the highest bit too.
            let held = (before & CUTOFFS) + 0x7f * EACH_HALF;
            differ |= ((pair ^ before) & SLOTS) | (!((pair & CUTOFFS) + add) & held & (0x80 * EACH_HALF));
        }
        differ == 0
    }

    /// Whether all that are active cover so many places, by a table of the workers.
    #[inline]
    fn all_in(&self, table: &[AtomicU64], wanted: usize) -> bool {
        let rows = table.len() / 8;
        let covered =
            table.chunks_exact(8).zip(&self.bits).all(|(cutoffs, bits)| bits & !compare::at_least(cutoffs, wanted) == 0);
        covered && self.bits.iter().skip(rows).all(|&bits| bits == 0)
    }

    /// Takes a segment's holders into account: `matched` places of it are the request's, behind `depth` others. Whether
    /// what was read fits together.
    #[inline]
    pub(super) fn count(&mut self, holders: &Holders<'_>, depth: u32, matched: usize, out: &mut Found) -> bool {
        self.partial.clear();
        let dense = holders.dense();
        let rows = (dense.len() / 8).min(self.stride);
        for (word, cutoffs) in self.next[..rows].iter_mut().zip(dense.chunks_exact(8)) {
            *word = compare::at_least(cutoffs, matched);
        }
        self.next[rows..].fill(0);
        self.remembered.clear();
        if holders.is_inline() {
            // Each word is loaded once: what is remembered is what was counted, whatever a writer does meanwhile.
            self.remembered.extend(holders.inline().iter().map(|word| word.load(Ordering::Relaxed)));
        }
        self.count_words(holders, matched);
        let (stops, is_all) = if self.is_first { self.begin_with(dense, rows) } else { self.keep_those_of_next() };
        self.is_first = false;
        if !is_all || !self.partial.is_empty() {
            self.remembered.clear();
        }
        !stops || self.stop(holders, depth, matched, out)
    }

    /// Counts those that have words.
    #[inline]
    fn count_words(&mut self, holders: &Holders<'_>, matched: usize) {
        let main = &mut self.next[..self.stride];
        let mut further = false;
        let count = |held: Held| {
            let (slot, cutoff) = (held.slot(), held.cutoff());
            if cutoff < matched {
                if cutoff > 0 {
                    self.partial.push((cutoff as u32, Partial::View(slot)));
                }
            } else if let Some(word) = main.get_mut(slot.0 as usize / 64) {
                // A main view: there are at most as many workers as a slot has numbers below the first further view.
                *word |= 1 << (slot.0 % 64);
            } else {
                further = true;
            }
        };
        if holders.is_inline() {
            self.remembered.iter().copied().flat_map(Held::pair).for_each(count);
        } else {
            holders.for_each_word(count);
        }
        if further {
            self.count_further(holders, matched);
        }
    }

    /// Counts the further views that have words, and main views once more.
    #[cold]
    fn count_further(&mut self, holders: &Holders<'_>, matched: usize) {
        let mut covering = Vec::new();
        let mut count = |held: Held| {
            if held.cutoff() >= matched {
                covering.push(held.slot());
            }
        };
        if holders.is_inline() {
            self.remembered.iter().copied().flat_map(Held::pair).for_each(&mut count);
        } else {
            holders.for_each_word(&mut count);
        }
        for slot in covering {
            if let Some((word, bit)) = self.seat(slot) {
                self.next[word] |= bit;
            }
        }
    }

    /// The word and the bit of a slot; a further view gets a row. Workers that came since the lookup began have none: at that
    /// moment they covered nothing.
    fn seat(&mut self, slot: Slot) -> Option<(usize, u64)> {
        let within = slot.worker() as usize / 64;
        if within >= self.stride {
            return None;
        }
        let row = usize::from(slot.view()) * self.stride;
        if row >= self.next.len() {
            self.next.resize(row + self.stride, 0);
            self.bits.resize(row + self.stride, 0);
        }
        Some((row + within, 1 << (slot.worker() % 64)))
    }

    /// The first segment: whoever covers what was matched is active, and whoever covers less stops. Whether somebody does, and
    /// whether everybody is active who covers this.
    fn begin_with(&mut self, dense: &[AtomicU64], rows: usize) -> (bool, bool) {
        std::mem::swap(&mut self.bits, &mut self.next);
        self.next.fill(0);
        let mut stop = 0;
        for ((word, bits), cutoffs) in self.next[..rows].iter_mut().zip(&self.bits).zip(dense.chunks_exact(8)) {
            *word = compare::at_least(cutoffs, 1) & !bits;
            stop |= *word;
        }
        self.is_empty = self.bits.iter().all(|&word| word == 0);
        for at in 0..self.partial.len() {
            if let (_, Partial::View(slot)) = self.partial[at]
                && let Some((word, bit)) = self.seat(slot)
            {
                self.next[word] |= bit & !self.bits[word];
            }
        }
        (stop != 0 || !self.partial.is_empty(), true)
    }

    /// A further segment: whoever does not cover what was matched stops. Whether somebody does, and whether everybody is active
    /// who covers this.
    #[inline]
    fn keep_those_of_next(&mut self) -> (bool, bool) {
        let (mut stop, mut left, mut others) = (0, 0, 0);
        for (word, next) in self.bits.iter_mut().zip(&mut self.next) {
            let stops = *word & !*next;
            others |= *next & !*word;
            *word &= *next;
            *next = stops;
            stop |= stops;
            left |= *word;
        }
        self.is_empty = left == 0;
        (stop != 0, others == 0)
    }

    /// Hands over those that stop in this segment, which are in `next`, shallowest first. Whether what was read fits together.
    fn stop(&mut self, holders: &Holders<'_>, depth: u32, matched: usize, out: &mut Found) -> bool {
        let mut partial = std::mem::take(&mut self.partial);
        // A slot may have come twice, beside a writer, or have stopped before.
        partial.retain(|&(_, partial)| match partial {
            Partial::View(slot) => self.take_stopped(slot),
            Partial::Class(_) => false,
        });
        let fits = self.part_dense(holders, matched, &mut partial);
        if fits && depth > 0 {
            append(depth, &self.next, self.stride, out);
        }
        partial.sort_unstable_by_key(|&(cutoff, _)| cutoff);
        for &(cutoff, partial) in &partial {
            match partial {
                Partial::View(slot) => out.append_row(depth + cutoff, slot.worker(), slot.view()),
                Partial::Class(nth) => {
                    append(depth + cutoff, &self.classes[nth * self.stride..][..self.stride], self.stride, out);
                }
            }
        }
        self.partial = partial;
        fits
    }

    /// Takes those that cover some of the segment, by the dense table, out of those that stop. As classes of one cutoff as
    /// long as there are few, for many of a crowd stop where their common prompt ends. Whether what was read fits together.
    fn part_dense(&mut self, holders: &Holders<'_>, matched: usize, partial: &mut Vec<(u32, Partial)>) -> bool {
        self.classes.clear();
        let dense = holders.dense();
        let rows = (dense.len() / 8).min(self.stride);
        let mut classes = [0; CLASSES_MAX];
        let mut known = 0;
        for at in 0..rows {
            let cutoffs = &dense[at * 8..][..8];
            let mut rest = self.next[at] & compare::at_least(cutoffs, 1);
            while rest != 0 {
                let worker = at as u32 * 64 + rest.trailing_zeros();
                let cutoff = holders.dense_cutoff(worker);
                let is_known = classes[..known].contains(&cutoff);
                if cutoff >= matched || is_known {
                    // It is more by now, or was another a moment ago.
                    return false;
                }
                rest &= rest - 1;
                if cutoff == 0 {
                    continue;
                }
                if known < CLASSES_MAX {
                    let class = self.part_class(dense, rows, cutoff);
                    if self.next[at] >> (worker % 64) & 1 == 1 {
                        return false;
                    }
                    classes[known] = cutoff;
                    known += 1;
                    partial.push((cutoff as u32, class));
                    rest &= self.next[at];
                } else {
                    partial.push((cutoff as u32, Partial::View(Slot(worker))));
                    self.next[at] &= !(1 << (worker % 64));
                }
            }
        }
        true
    }

    /// Takes all of one cutoff out of those that stop.
    fn part_class(&mut self, dense: &[AtomicU64], rows: usize, cutoff: usize) -> Partial {
        let start = self.classes.len();
        self.classes.resize(start + self.stride, 0);
        for ((class, next), cutoffs) in self.classes[start..].iter_mut().zip(&mut self.next[..rows]).zip(dense.chunks_exact(8)) {
            *class = *next & compare::at_least(cutoffs, cutoff) & !compare::at_least(cutoffs, cutoff + 1);
            *next &= !*class;
        }
        Partial::Class(start / self.stride)
    }

    /// Takes a slot that covers some of the segment out of those that stop. Whether it was there.
    fn take_stopped(&mut self, slot: Slot) -> bool {
        let Some((word, bit)) = self.seat(slot) else { return false };
        let was = self.next[word] & bit != 0;
        self.next[word] &= !bit;
        was
    }
}

/// Adds a level of those whose bits are set, in rows of `stride` words for one view after the other.
#[inline]
fn append(depth: u32, bits: &[u64], stride: usize, out: &mut Found) {
    let main = &bits[..stride];
    let words = main.iter().filter(|&&word| word != 0).count();
    if words * SPARSE > stride {
        out.append_bits(depth, main);
    } else if words > 0 {
        append_rows(depth, 0, main, out);
    }
    if bits.len() > stride {
        (1u8..).zip(bits[stride..].chunks(stride)).for_each(|(view, row)| append_rows(depth, view, row, out));
    }
}

/// A level is kept as bits if more than one word in so many says anything.
const SPARSE: usize = 8;

fn append_rows(depth: u32, view: u8, row: &[u64], out: &mut Found) {
    for (at, &word) in (0u32..).zip(row) {
        ones(word).for_each(|bit| out.append_row(depth, at * 64 + bit, view));
    }
}

/// The numbers of the bits that are set.
fn ones(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros());
        word &= word.wrapping_sub(1);
        bit
    })
}
