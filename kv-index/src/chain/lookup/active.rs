//! Who covers everything that a lookup has read so far.

use crate::matches::Found;
use crate::raw::compare;
use crate::raw::holders::{Held, Holders, Slot};
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
    /// Who covers the beginning of the segment, and how many places of it; or a class.
    partial: Vec<(u32, Slot)>,
    /// Main views of one cutoff, a row for each of `cutoffs`.
    classes: Vec<u64>,
    cutoffs: Vec<u32>,
    /// The last segment's words of holders, if they are all that is active: the slots, and where a cutoff is wanted.
    same: Vec<(u64, u64)>,
}

/// The slots, the cutoffs and the lowest bits of both halves of a pair of holders' words.
const SLOTS: u64 = 0xffff_ff00_ffff_ff00;
const CUTOFFS: u64 = 0x0000_007f_0000_007f;
const EACH_HALF: u64 = 0x0000_0001_0000_0001;

/// Stands for all of a class: no view has such a number.
const CLASS: Slot = Slot(u32::MAX);

/// Classes that are looked for before those that are left are taken one by one.
const CLASSES_MAX: usize = 8;

impl Active {
    pub(super) fn begin(&mut self, workers: usize) {
        self.stride = workers.div_ceil(64);
        self.bits.clear();
        self.next.clear();
        self.bits.resize(self.stride, 0);
        self.next.resize(self.stride, 0);
        self.is_first = true;
        self.is_empty = false;
        self.same.clear();
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Takes a segment's holders into account: `matched` places of it are the request's, behind `depth` others. Whether
    /// what was read fits together.
    #[inline]
    pub(super) fn count(&mut self, holders: &Holders<'_>, depth: u32, matched: usize, out: &mut Found) -> bool {
        self.all_go_on(holders, matched) || self.count_each(holders, depth, matched, out)
    }

    /// Those that are left cover everything.
    #[inline]
    pub(super) fn finish(&mut self, depth: u32, out: &mut Found) {
        if !self.is_first && !self.is_empty {
            append(depth, &self.bits, self.stride, out);
        }
    }

    /// Whether the active slots are the segment's holders, as they were the last segment's, and cover all that was matched.
    /// A chain's holders come in one order along it, so that this is a comparison of words.
    #[inline]
    fn all_go_on(&self, holders: &Holders<'_>, matched: usize) -> bool {
        let words = holders.inline();
        if self.same.is_empty() || words.len() != self.same.len() || !holders.is_inline() {
            return false;
        }
        // 128 + cutoff - matched has its highest bit where the cutoff reaches.
        let add = (0x80 - matched as u64) * EACH_HALF;
        let mut differ = 0;
        for (word, &(slots, wanted)) in words.iter().zip(&self.same) {
            let pair = word.load(Ordering::Relaxed);
            differ |= (pair & SLOTS ^ slots) | (!((pair & CUTOFFS) + add) & wanted);
        }
        differ == 0
    }

    /// Holder by holder.
    fn count_each(&mut self, holders: &Holders<'_>, depth: u32, matched: usize, out: &mut Found) -> bool {
        self.next.fill(0);
        self.partial.clear();
        let dense = holders.dense();
        for (word, cutoffs) in self.next[..self.stride].iter_mut().zip(dense.chunks(8)) {
            *word = compare::at_least(cutoffs, matched);
        }
        self.count_words(holders, matched);
        let anybody_stops = if self.is_first { self.begin_with(dense) } else { self.keep_those_of_next() };
        self.is_first = false;
        !anybody_stops || self.stop(holders, depth, matched, out)
    }

    /// Those that have words, which are remembered if they are all that is active from here on.
    #[inline]
    fn count_words(&mut self, holders: &Holders<'_>, matched: usize) {
        let span = holders.span() as u32;
        let mut all_known = holders.is_inline();
        self.same.clear();
        for word in holders.inline().iter().chain(holders.list()) {
            let pair = word.load(Ordering::Relaxed);
            let mut wanted = 0;
            for half in [0, 32] {
                let held = Held::from((pair >> half) as u32);
                // In the reach of the dense table, only the table counts.
                if held.is_some() && held.slot().0 >= span {
                    all_known &= self.count_one(held, matched);
                    wanted |= 0x80 << half;
                }
            }
            self.same.push((pair & SLOTS, wanted));
        }
        if !all_known {
            self.same.clear();
        }
    }

    /// Whether it covers all that was matched, as it covers everything before.
    #[inline]
    fn count_one(&mut self, held: Held, matched: usize) -> bool {
        let Some((word, bit)) = self.seat(held.slot()) else { return false };
        if held.cutoff() < matched {
            self.partial.push((held.cutoff() as u32, held.slot()));
            return false;
        }
        self.next[word] |= bit;
        self.is_first || self.bits[word] & bit != 0
    }

    /// The word and the bit of a slot. Workers that came since the lookup began have none: at that moment they covered nothing.
    #[inline]
    fn seat(&mut self, slot: Slot) -> Option<(usize, u64)> {
        // Below the stride it is a main view: the stride has at most as many words as there can be workers.
        let word = slot.0 as usize / 64;
        if word < self.stride { Some((word, 1 << (slot.0 % 64))) } else { self.further_seat(slot) }
    }

    /// The same of a further view, which gets a row.
    #[cold]
    fn further_seat(&mut self, slot: Slot) -> Option<(usize, u64)> {
        let within = slot.worker() as usize / 64;
        if within >= self.stride {
            return None;
        }
        let row = usize::from(slot.view()) * self.stride;
        if row >= self.bits.len() {
            self.bits.resize(row + self.stride, 0);
            self.next.resize(row + self.stride, 0);
        }
        Some((row + within, 1 << (slot.worker() % 64)))
    }

    /// The first segment: whoever covers what was matched is active, and whoever covers less stops. Whether somebody does.
    fn begin_with(&mut self, dense: &[AtomicU64]) -> bool {
        std::mem::swap(&mut self.bits, &mut self.next);
        let mut stop = 0;
        for ((word, bits), cutoffs) in self.next.iter_mut().zip(&self.bits).zip(dense.chunks(8)) {
            *word = compare::at_least(cutoffs, 1) & !bits;
            stop |= *word;
        }
        self.is_empty = self.bits.iter().all(|&word| word == 0);
        for at in 0..self.partial.len() {
            if let Some((word, bit)) = self.seat(self.partial[at].1) {
                self.next[word] |= bit & !self.bits[word];
            }
        }
        stop != 0 || !self.partial.is_empty()
    }

    /// A later segment: whoever does not cover what was matched stops. Whether somebody does.
    #[inline]
    fn keep_those_of_next(&mut self) -> bool {
        let (mut stop, mut left) = (0, 0);
        for (word, next) in self.bits.iter_mut().zip(&mut self.next) {
            let stops = *word & !*next;
            *word &= *next;
            *next = stops;
            stop |= stops;
            left |= *word;
        }
        self.is_empty = left == 0;
        stop != 0
    }

    /// Hands over those that stop in this segment, which are in `next`, shallowest first. Whether what was read fits together.
    fn stop(&mut self, holders: &Holders<'_>, depth: u32, matched: usize, out: &mut Found) -> bool {
        let mut partial = std::mem::take(&mut self.partial);
        // A slot may have come twice, beside a writer, or have stopped before.
        partial.retain(|&(_, slot)| self.take_stopped(slot));
        self.classes.clear();
        self.cutoffs.clear();
        if !self.part_dense(holders, matched, &mut partial) {
            return false;
        }
        if depth > 0 {
            append(depth, &self.next, self.stride, out);
        }
        partial.sort_unstable_by_key(|&(cutoff, _)| cutoff);
        for &(cutoff, slot) in partial.iter().filter(|&&(cutoff, _)| depth + cutoff > 0) {
            match slot {
                CLASS => append(depth + cutoff, self.class(cutoff), self.stride, out),
                slot => out.append_row(depth + cutoff, slot.worker(), slot.view()),
            }
        }
        self.partial = partial;
        true
    }

    /// Takes those that cover some of the segment, by the dense table, out of those that stop. As classes of one cutoff as
    /// long as there are few, for many of a crowd stop where their common prompt ends. Whether what was read fits together.
    fn part_dense(&mut self, holders: &Holders<'_>, matched: usize, partial: &mut Vec<(u32, Slot)>) -> bool {
        let rows = holders.dense().len().div_ceil(8).min(self.stride);
        for at in 0..rows {
            let mut rest = self.next[at];
            while rest != 0 {
                let worker = at as u32 * 64 + rest.trailing_zeros();
                let cutoff = holders.dense_cutoff(worker);
                if cutoff >= matched {
                    // It is more by now.
                    return false;
                }
                rest &= rest - 1;
                if cutoff == 0 {
                    continue;
                }
                if self.classes.len() < CLASSES_MAX * self.stride {
                    let seen = self.cutoffs.contains(&(cutoff as u32));
                    self.part_class(holders.dense(), rows, cutoff);
                    if seen || self.next[at] >> (worker % 64) & 1 == 1 {
                        // It was another a moment ago, or is by now.
                        return false;
                    }
                    partial.push((cutoff as u32, CLASS));
                    rest &= self.next[at];
                } else {
                    partial.push((cutoff as u32, Slot(worker)));
                    self.next[at] &= !(1 << (worker % 64));
                }
            }
        }
        true
    }

    /// Takes all of one cutoff out of those that stop.
    fn part_class(&mut self, dense: &[AtomicU64], rows: usize, cutoff: usize) {
        let start = self.classes.len();
        self.classes.resize(start + self.stride, 0);
        for ((class, next), cutoffs) in self.classes[start..].iter_mut().zip(&mut self.next[..rows]).zip(dense.chunks(8)) {
            *class = *next & compare::at_least(cutoffs, cutoff) & !compare::at_least(cutoffs, cutoff + 1);
            *next &= !*class;
        }
        self.cutoffs.push(cutoff as u32);
    }

    /// The class of a cutoff.
    fn class(&self, cutoff: u32) -> &[u64] {
        let nth = self.cutoffs.iter().position(|&class| class == cutoff).unwrap_or_default();
        &self.classes[nth * self.stride..][..self.stride]
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
