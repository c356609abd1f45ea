//! Who covers everything that a lookup has read so far.

use crate::matches::Found;
use crate::raw::compare::{Reach, Width};
use crate::raw::holders::{Cutoffs, Held, Slot};
use crate::raw::record::{Meta, Record};
use crate::raw::slabs::LINE_WORDS;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Who covers everything so far: a bit for each worker, in a row for each view that was met. Kept for the next lookup.
#[derive(Clone, Debug, Default)]
pub(crate) struct Active {
    bits: Vec<u64>,
    /// Who covers by a word all that the segment at hand has of the request; then, who covered everything before and does not
    /// any more. As long as `bits`.
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
    /// The last segment's words of holders, if whoever is active is among them, and nobody among them stops in the segment.
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

/// 64 workers' cutoffs.
type Row = [AtomicU64; LINE_WORDS];

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
    #[inline(always)]
    pub(super) fn all_go_on(&self, width: impl Width, record: Record<'_>, meta: Meta, wanted: usize) -> bool {
        let wanted = wanted.min(meta.len);
        if record.extension() != 0 {
            return false;
        }
        if meta.tabled {
            return self.all_in(width, record.table(meta).as_chunks().0, wanted);
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
    #[inline(always)]
    fn all_in(&self, width: impl Width, table: &[Row], wanted: usize) -> bool {
        let mut left = 0;
        for (at, &bits) in self.bits.iter().enumerate() {
            // Rows of further views follow those of the main views, and have no byte.
            let row = table.get(at).filter(|_| at < self.stride);
            left |= bits & !row.map_or(0, |row| width.reach(row, wanted).enough);
        }
        left == 0
    }

    /// Takes a segment's holders into account: `matched` places of it are the request's, behind `depth` others. Whether
    /// what was read fits together.
    #[inline(always)]
    pub(super) fn count(&mut self, width: impl Width, cutoffs: Cutoffs<'_>, depth: u32, matched: usize, out: &mut Found) -> bool {
        self.remembered.clear();
        self.partial.clear();
        match cutoffs {
            Cutoffs::Table(table) => self.count_rows::<false>(width, table, depth, matched, out),
            Cutoffs::Words(words) => {
                self.next.fill(0);
                for word in words {
                    // Loaded once: what is remembered is what was counted, whatever a writer does meanwhile.
                    let pair = word.load(Ordering::Relaxed);
                    self.remembered.push(pair);
                    self.count_pair(pair, matched);
                }
                self.count_rows::<true>(width, &[], depth, matched, out)
            }
            Cutoffs::Spread(holders) => {
                self.next.fill(0);
                holders.for_each_word(|held| self.count_word(held, matched));
                self.count_rows::<true>(width, holders.dense(), depth, matched, out)
            }
        }
    }

    /// Notes who of a pair of holders covers what was matched, or some of it.
    #[inline]
    fn count_pair(&mut self, pair: u64, matched: usize) {
        if pair != 0 {
            Held::pair(pair).into_iter().for_each(|held| self.count_word(held, matched));
        }
    }

    /// Notes whether the holder of a word covers what was matched, or some of it.
    #[inline]
    fn count_word(&mut self, held: Held, matched: usize) {
        let (slot, cutoff) = (held.slot(), held.cutoff());
        if cutoff >= matched {
            // A main view: there are at most as many workers as a slot has numbers below the first further view.
            if let Some(word) = self.next[..self.stride].get_mut(slot.0 as usize / 64) {
                *word |= 1 << (slot.0 % 64);
            } else if let Some((word, bit)) = self.seat(slot) {
                self.next[word] |= bit;
            }
        } else if cutoff > 0 {
            self.partial.push((cutoff as u32, Partial::View(slot)));
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

    /// Keeps those that cover what was matched, by the table and, if `WORDS` were counted, by these. The others stop: in the
    /// first segment all that cover any of it, later all that covered everything so far. Whether what was read fits together.
    #[inline(always)]
    fn count_rows<const WORDS: bool>(
        &mut self,
        width: impl Width,
        table: &[Row],
        depth: u32,
        matched: usize,
        out: &mut Found,
    ) -> bool {
        let first = if self.is_first { u64::MAX } else { 0 };
        let (mut stop, mut within, mut left) = (0, 0, 0);
        let tabled = table.len().min(self.stride);
        for (at, (bits, next)) in self.bits.iter_mut().zip(&mut self.next).enumerate() {
            let reach = if at < tabled { width.reach(&table[at], matched) } else { Reach::default() };
            let words = if WORDS { *next } else { 0 };
            let enough = reach.enough | words;
            let before = *bits & !first | (reach.some | words) & first;
            *bits = before & enough;
            *next = before & !enough;
            stop |= *next;
            within |= *next & reach.some;
            left |= *bits;
        }
        self.is_empty = left == 0;
        if WORDS && !self.partial.is_empty() {
            if self.is_first {
                self.stop_partial();
            }
        } else if within == 0 {
            // Nobody stops in the middle of the segment.
            self.is_first = false;
            if stop != 0 {
                append(depth, &self.next, self.stride, out);
            }
            return true;
        }
        self.is_first = false;
        self.remembered.clear();
        self.stop(width, &table[..tabled], depth, matched, out)
    }

    /// In the first segment, who covers the beginning of it by a word stops there.
    fn stop_partial(&mut self) {
        for at in 0..self.partial.len() {
            if let (_, Partial::View(slot)) = self.partial[at]
                && let Some((word, bit)) = self.seat(slot)
            {
                self.next[word] |= bit & !self.bits[word];
            }
        }
    }

    /// Hands over those that stop in this segment, which are in `next`, shallowest first. Whether what was read fits together.
    #[inline(always)]
    fn stop(&mut self, width: impl Width, table: &[Row], depth: u32, matched: usize, out: &mut Found) -> bool {
        let mut partial = std::mem::take(&mut self.partial);
        // A slot may have come twice, beside a writer, or have stopped before.
        partial.retain(|&(_, partial)| match partial {
            Partial::View(slot) => self.take_stopped(slot),
            Partial::Class(_) => false,
        });
        let fits = self.part_rows(width, table, matched, &mut partial);
        if fits && depth > 0 && self.next.iter().any(|&word| word != 0) {
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

    /// Takes those that cover some of the segment, by the table, out of those that stop. As classes of one cutoff as
    /// long as there are few, for many of a crowd stop where their common prompt ends. Whether what was read fits together.
    #[inline(always)]
    fn part_rows(&mut self, width: impl Width, table: &[Row], matched: usize, partial: &mut Vec<(u32, Partial)>) -> bool {
        self.classes.clear();
        let mut classes = [0; CLASSES_MAX];
        let mut known = 0;
        for (at, row) in table.iter().enumerate() {
            let mut rest = self.next[at] & width.reach(row, 1).some;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                let cutoff = cutoff_in(row, bit);
                if cutoff >= matched || classes[..known].contains(&cutoff) {
                    // It is more by now, or was another a moment ago.
                    return false;
                }
                rest &= rest - 1;
                if cutoff == 0 {
                    continue;
                }
                if known < CLASSES_MAX {
                    let class = self.part_class(width, table, cutoff);
                    if self.next[at] >> bit & 1 == 1 {
                        return false;
                    }
                    classes[known] = cutoff;
                    known += 1;
                    partial.push((cutoff as u32, class));
                    rest &= self.next[at];
                } else {
                    partial.push((cutoff as u32, Partial::View(Slot(at as u32 * 64 + bit))));
                    self.next[at] &= !(1 << bit);
                }
            }
        }
        true
    }

    /// Takes all of one cutoff out of those that stop.
    #[inline(always)]
    fn part_class(&mut self, width: impl Width, table: &[Row], cutoff: usize) -> Partial {
        let start = self.classes.len();
        self.classes.resize(start + self.stride, 0);
        for ((class, next), row) in self.classes[start..].iter_mut().zip(&mut self.next).zip(table) {
            // By one load: whose cutoff fell from above to below between two would pass for one of the class.
            *class = *next & width.exactly(row, cutoff);
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

/// The cutoff of the worker whose bit is `bit`.
fn cutoff_in(row: &Row, bit: u32) -> usize {
    (row[bit as usize / 8].load(Ordering::Relaxed) >> (bit % 8 * 8) & 0x7f) as usize
}

/// Adds a level of those whose bits are set, of which there is one, in rows of `stride` words for one view after the other.
#[inline]
fn append(depth: u32, bits: &[u64], stride: usize, out: &mut Found) {
    if bits.len() == stride && stride < SPARSE {
        out.append_bits(depth, bits);
    } else {
        append_many(depth, bits, stride, out);
    }
}

/// A level is kept as bits if there are fewer words, or if more than one in so many says anything.
const SPARSE: usize = 8;

fn append_many(depth: u32, bits: &[u64], stride: usize, out: &mut Found) {
    let main = &bits[..stride];
    if main.iter().filter(|&&word| word != 0).count() * SPARSE > stride {
        out.append_bits(depth, main);
    } else {
        append_rows(depth, 0, main, out);
    }
    (1u8..).zip(bits[stride..].chunks(stride)).for_each(|(view, row)| append_rows(depth, view, row, out));
}

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

#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests;
