//! Looking a request up without a lock: segment by segment, each through a window.
//!
//! A lookup goes down the request's path. At each segment it copies the holders' cutoffs, checks that the window held, and
//! only then counts: who covers all that was compared goes on, the others are done. A window that did not hold is
//! opened again; if a parent changed while its child was read, the lookup begins again, for the child may have been
//! another parent's. Every time around means that a writer has finished a change of structure, so some thread always gets on.

use super::core::{Core, common_prefix};
use crate::raw::holders::{Held, Holders, Slot};
use crate::raw::record::Link;
use crate::raw::segments::{SegmentId, Window};
use crate::sync::atomic::Ordering;
use crate::{ContentHash, Matches, Runs};

/// What a lookup works with, kept for the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// Holders' words of the segment in view.
    seen: Vec<Held>,
    /// Its dense table.
    dense: Vec<u64>,
    /// Slots that cover everything so far, but for those in `bits`.
    active: Vec<Slot>,
    next: Vec<Slot>,
    /// Main views that cover everything so far, as long as every segment has had a dense table.
    bits: Vec<u64>,
    /// Slots that are done, and how deep.
    done: Vec<(u32, Slot)>,
    /// By slot: the stamp of the last segment that it covered.
    marks: Vec<Vec<u32>>,
    stamp: u32,
    is_first: bool,
    pub(crate) retries: u32,
}

/// A segment that was read through a window that held.
struct Seen<'a> {
    window: Window<'a>,
    /// How many of its places are the request's.
    matched: usize,
    /// Whether a child leaves behind them, and perhaps which.
    has_edge: bool,
    link: Link,
}

impl Core {
    /// Finds out who covers how much of `request`.
    pub(crate) fn find(&self, request: &[ContentHash], out: &mut Matches) {
        out.clear();
        let mut scratch = std::mem::take(&mut out.scratch);
        scratch.retries = 0;
        while self.walk(request, &mut scratch, out).is_none() {
            scratch.retries += 1;
            out.clear();
        }
        out.scratch = scratch;
    }

    /// One walk; none if what was read does not fit together.
    fn walk(&self, request: &[ContentHash], scratch: &mut Scratch, out: &mut Matches) -> Option<()> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let Some(first) = request.first() else { return Some(()) };
        scratch.begin();
        let hash = self.edge(SegmentId::ROOT, 0, first.0);
        let mut at = self.edges.find(&self.segments.slabs, hash, |child| {
            self.look(child, SegmentId::ROOT, 0, request, scratch)
        });
        let mut depth = 0;
        while let Some(seen) = at.take() {
            scratch.count(depth as u32, seen.matched, out);
            depth += seen.matched;
            if depth == request.len() || !seen.has_edge || scratch.is_done() {
                break;
            }
            at = self.follow(&seen, &request[depth..], scratch);
            if !seen.window.holds() {
                return None;
            }
        }
        scratch.finish(depth as u32, out);
        // A worker's number that was given to another worker meanwhile would mix the two.
        crate::sync::atomic::fence(Ordering::Acquire);
        (self.epoch.load(Ordering::Relaxed) == epoch).then_some(())
    }

    /// The child that goes on as the request does.
    #[inline]
    fn follow<'a>(&'a self, from: &Seen<'_>, request: &[ContentHash], scratch: &mut Scratch) -> Option<Seen<'a>> {
        let (id, offset, content) = (from.window.id, from.matched, request[0].0);
        if from.link.offset == offset
            && from.link.tag == Link::tag_of(content)
            && let Some(seen) = self.look(from.link.child, id, offset, request, scratch)
        {
            return Some(seen);
        }
        let hash = self.edge(id, offset, content);
        self.edges.find(&self.segments.slabs, hash, |child| self.look(child, id, offset, request, scratch))
    }

    /// Reads a segment, if it is the one that follows `offset` places of `parent`.
    #[inline]
    fn look<'a>(
        &'a self,
        id: SegmentId,
        parent: SegmentId,
        offset: usize,
        request: &[ContentHash],
        scratch: &mut Scratch,
    ) -> Option<Seen<'a>> {
        loop {
            let window = self.segments.window(id)?;
            let record = window.record();
            let meta = record.meta();
            let link = record.link();
            if link.child != SegmentId::ROOT {
                self.segments.prefetch_descriptor(link.child);
            }
            let is_child = record.is_child(parent, offset, request[0].0);
            let matched = common_prefix(record.contents(meta, meta.len), request);
            if matched == link.offset && link.child != SegmentId::ROOT {
                self.segments.prefetch_record(link.child);
            }
            let has_edge = matched > 0 && record.edges() >> (matched - 1) & 1 == 1;
            scratch.copy(&Holders::of(&self.segments, record, meta));
            if !window.holds() {
                scratch.retries += 1;
                continue;
            }
            return (is_child && matched > 0).then_some(Seen { window, matched, has_edge, link });
        }
    }

    /// Calls `visit` with the first position and the mask of what `slot` holds of each segment along `request`, and with how
    /// many places are the request's, until it says no.
    pub(crate) fn along(&self, slot: Slot, request: &[ContentHash], mut visit: impl FnMut(u32, u64, usize) -> bool) -> Option<()> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let (mut parent, mut offset, mut depth) = (None::<Window<'_>>, 0, 0);
        while depth < request.len() {
            let rest = &request[depth..];
            let id = parent.map_or(SegmentId::ROOT, |window| window.id);
            let hash = self.edge(id, offset, rest[0].0);
            let linked = parent.map(|window| window.record().link()).filter(|link| link.offset == offset);
            let found = linked.and_then(|link| self.peek(link.child, id, offset, slot, rest));
            let found = found.or_else(|| {
                self.edges.find(&self.segments.slabs, hash, |child| self.peek(child, id, offset, slot, rest))
            });
            if parent.is_some_and(|window| !window.holds()) {
                return None;
            }
            let Some((window, mask, matched)) = found else { break };
            if !visit(depth as u32, mask, matched) {
                break;
            }
            (parent, offset, depth) = (Some(window), matched, depth + matched);
        }
        crate::sync::atomic::fence(Ordering::Acquire);
        (self.epoch.load(Ordering::Relaxed) == epoch).then_some(())
    }

    /// What `slot` holds of the segment that follows `offset` places of `parent`, if it is the one.
    fn peek(
        &self,
        id: SegmentId,
        parent: SegmentId,
        offset: usize,
        slot: Slot,
        request: &[ContentHash],
    ) -> Option<(Window<'_>, u64, usize)> {
        loop {
            let window = self.segments.window(id)?;
            let record = window.record();
            let meta = record.meta();
            let is_child = record.is_child(parent, offset, request[0].0);
            let matched = common_prefix(record.contents(meta, meta.len), request);
            let holders = Holders::of(&self.segments, record, meta);
            let mask = holders.find(slot).map_or(0, |held| holders.mask(held));
            if window.holds() {
                return (is_child && matched > 0).then_some((window, mask, matched));
            }
        }
    }

    /// How many of the request's first places `slot` covers.
    pub(crate) fn depth(&self, slot: Slot, request: &[ContentHash]) -> u32 {
        loop {
            let mut depth = 0;
            let whole = self.along(slot, request, |start, mask, matched| {
                let covered = (mask.trailing_ones() as usize).min(matched);
                depth = start + covered as u32;
                covered == matched
            });
            if whole.is_some() {
                return depth;
            }
        }
    }

    /// The positions of the request that `slot` covers.
    pub(crate) fn coverage(&self, slot: Slot, request: &[ContentHash], out: &mut Runs) {
        loop {
            out.clear();
            let whole = self.along(slot, request, |start, mask, matched| {
                push_runs(start, mask & crate::raw::holders::prefix(matched), out);
                true
            });
            if whole.is_some() {
                return;
            }
        }
    }
}

/// Adds the runs of ones in `mask`.
fn push_runs(start: u32, mut mask: u64, out: &mut Runs) {
    let mut position = start;
    while mask != 0 {
        let gap = mask.trailing_zeros();
        let run = (mask >> gap).trailing_ones();
        out.push(position + gap, position + gap + run);
        position += gap + run;
        mask = mask.checked_shr(gap + run).unwrap_or(0);
    }
}

impl Scratch {
    fn begin(&mut self) {
        self.active.clear();
        self.bits.clear();
        // A stamp for each segment, and none twice as long as marks may bear it.
        if self.stamp > u32::MAX / 2 {
            self.marks.clear();
            self.stamp = 0;
        }
        self.stamp += 1;
        self.is_first = true;
    }

    fn is_done(&self) -> bool {
        self.active.is_empty() && self.bits.is_empty()
    }

    /// Copies what a segment's holders hold.
    #[inline]
    fn copy(&mut self, holders: &Holders<'_>) {
        self.seen.clear();
        holders.for_each_word(|held| self.seen.push(held));
        self.dense.clear();
        self.dense.extend(holders.dense().iter().map(|word| word.load(Ordering::Relaxed)));
    }

    #[inline]
    fn mark(&mut self, slot: Slot) -> &mut u32 {
        let view = usize::from(slot.view());
        if self.marks.len() <= view {
            self.marks.resize_with(view + 1, Vec::new);
        }
        let marks = &mut self.marks[view];
        let worker = slot.worker() as usize;
        if marks.len() <= worker {
            marks.resize((worker + 1).next_power_of_two(), 0);
        }
        &mut marks[worker]
    }

    /// Takes the segment that was copied into account: `matched` places behind `depth` of them.
    #[inline]
    fn count(&mut self, depth: u32, matched: usize, out: &mut Matches) {
        self.done.clear();
        self.next.clear();
        if self.is_first {
            self.count_first(matched);
            self.is_first = false;
        } else {
            self.count_next(depth, matched, out);
        }
        std::mem::swap(&mut self.active, &mut self.next);
        self.stamp += 1;
        self.settle(out);
    }

    /// In the first segment everybody with a cutoff covers something.
    fn count_first(&mut self, matched: usize) {
        let (old, new) = (self.stamp, self.stamp + 1);
        let seen = std::mem::take(&mut self.seen);
        for &held in &seen {
            // Beside a writer a slot may come twice.
            if *self.mark(held.slot()) < old {
                *self.mark(held.slot()) = old;
                self.sort(held.slot(), held.cutoff(), 0, matched, new);
            }
        }
        self.seen = seen;
        if self.dense.is_empty() {
            return;
        }
        self.bits = at_least(&self.dense, matched).collect();
        for worker in set_bits(at_least(&self.dense, 1).zip(&self.bits).map(|(some, all)| some & !all)) {
            self.done.push((self.dense_cutoff(worker) as u32, Slot(worker)));
        }
    }

    fn count_next(&mut self, depth: u32, matched: usize, out: &mut Matches) {
        let (old, new) = (self.stamp, self.stamp + 1);
        let seen = std::mem::take(&mut self.seen);
        for &held in &seen {
            let slot = held.slot();
            if *self.mark(slot) == old || self.take_bit(slot) {
                *self.mark(slot) = 0;
                self.sort(slot, held.cutoff(), depth, matched, new);
            }
        }
        self.seen = seen;
        self.count_bits(depth, matched, out);
        let active = std::mem::take(&mut self.active);
        for &slot in &active {
            if *self.mark(slot) == old {
                *self.mark(slot) = 0;
                let cutoff = if (slot.0 as usize) < self.dense.len() * 8 { self.dense_cutoff(slot.0) } else { 0 };
                self.sort(slot, cutoff, depth, matched, new);
            }
        }
        self.active = active;
    }

    /// Main views that are known as bits meet the segment's dense table; without one, they are done.
    fn count_bits(&mut self, depth: u32, matched: usize, out: &mut Matches) {
        if self.bits.is_empty() {
            return;
        }
        if self.dense.is_empty() {
            if self.bits.iter().any(|&word| word != 0) {
                out.append_bits(depth, &self.bits);
            }
            self.bits.clear();
            return;
        }
        let mut bits = std::mem::take(&mut self.bits);
        let all = at_least(&self.dense, matched).chain(std::iter::repeat(0));
        for (at, (word, all)) in (0u32..).zip(bits.iter_mut().zip(all)) {
            for bit in set_bits(std::iter::once(*word & !all)) {
                let worker = at * 64 + bit;
                let cutoff = if (worker as usize) < self.dense.len() * 8 { self.dense_cutoff(worker) } else { 0 };
                self.done.push((depth + cutoff.min(matched) as u32, Slot(worker)));
            }
            *word &= all;
        }
        if bits.iter().all(|&word| word == 0) {
            bits.clear();
        }
        self.bits = bits;
    }

    /// Takes the slot out of the bits, if it is among them.
    #[inline]
    fn take_bit(&mut self, slot: Slot) -> bool {
        let bit = 1 << (slot.0 % 64);
        let Some(word) = self.bits.get_mut(slot.0 as usize / 64) else { return false };
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    /// Puts a slot among those that go on or those that are done.
    #[inline]
    fn sort(&mut self, slot: Slot, cutoff: usize, depth: u32, matched: usize, new: u32) {
        if cutoff >= matched {
            *self.mark(slot) = new;
            self.next.push(slot);
        } else {
            self.done.push((depth + cutoff as u32, slot));
        }
    }

    #[inline]
    fn dense_cutoff(&self, worker: u32) -> usize {
        (self.dense[worker as usize / 8] >> (worker % 8 * 8) & 0x7f) as usize
    }

    /// Hands those that are done over, shallowest first.
    fn settle(&mut self, out: &mut Matches) {
        if self.done.len() > 1 {
            self.done.sort_unstable_by_key(|&(depth, _)| depth);
        }
        for (depth, slot) in self.done.drain(..).filter(|&(depth, _)| depth > 0) {
            out.append_row(depth, slot.worker(), slot.view());
        }
    }

    /// Those that are left cover everything.
    fn finish(&mut self, depth: u32, out: &mut Matches) {
        if self.bits.iter().any(|&word| word != 0) {
            out.append_bits(depth, &self.bits);
        }
        for slot in self.active.drain(..) {
            out.append_row(depth, slot.worker(), slot.view());
        }
    }
}

/// For each 64 workers, the bits of those whose cutoff is at least `cutoff`, 1 to 64.
#[inline]
fn at_least(dense: &[u64], cutoff: usize) -> impl Iterator<Item = u64> {
    let subtract = cutoff as u64 * 0x0101_0101_0101_0101;
    dense.chunks(8).map(move |words| {
        let bits = words.iter().map(|&word| {
            // Cutoffs fit in seven bits: the highest bit of each byte is left only if nothing was borrowed.
            let high = ((word | HIGHEST) - subtract) & HIGHEST;
            // Moves the eight highest bits together (one multiplication: bit 8i + 7 goes to 56 + i).
            high.wrapping_mul(0x0002_0408_1020_4081) >> 56
        });
        (0..).zip(bits).fold(0, |all, (nth, bits)| all | bits << (nth * 8))
    })
}

const HIGHEST: u64 = 0x8080_8080_8080_8080;

/// The numbers of the bits that are set.
fn set_bits(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    (0u32..).zip(words).flat_map(|(at, mut word)| {
        std::iter::from_fn(move || {
            let bit = (word != 0).then(|| at * 64 + word.trailing_zeros());
            word &= word.wrapping_sub(1);
            bit
        })
    })
}
