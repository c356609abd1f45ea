//! Looking a request up without a lock: segment by segment, each through a window.
//!
//! A lookup goes down the request's path. At each segment, who covers all that was compared goes on, and the others are
//! done. If the window did not hold, the walk begins again; also if a parent changed while its child was read, for the child may
//! have been another parent's. Every time around means that a writer has finished a change of structure, so some thread
//! always gets on.

use super::core::Core;
use crate::raw::compare::{self, common_prefix};
use crate::raw::holders::{Holders, Slot};
use crate::raw::record::Link;
use crate::raw::segments::{SegmentId, Window};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::{ContentHash, Matches, Runs};

/// What a lookup works with, kept for the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// Slots that cover everything so far, but for those in `bits`.
    active: Vec<Slot>,
    next: Vec<Slot>,
    /// Main views that cover everything so far, as long as every segment has had a dense table.
    bits: Vec<u64>,
    /// Slots that are done, and how deep.
    done: Vec<(u32, Slot)>,
    /// For each worker's main view: the stamp of the last segment that it covered.
    marks: Vec<u32>,
    /// The same for the further views.
    other_marks: Vec<Vec<u32>>,
    stamp: u32,
    is_first: bool,
    /// The holders' words of the last segment, if they are all that is active: slots only, and where a cutoff is wanted.
    same: Vec<(u64, u64)>,
    pub(crate) retries: u32,
}

/// What was read does not fit together: a writer changed it meanwhile.
#[derive(Debug)]
struct Torn;

/// A walk along a request.
struct Walk<'a> {
    core: &'a Core,
    request: &'a [ContentHash],
    /// Places of the request that were found.
    depth: usize,
    /// The last segment that was read, and how many of its places are the request's; the root before that.
    segment: SegmentId,
    offset: usize,
    /// The segment's window, through which it must still look the same when its child has been read.
    window: Option<Window<'a>>,
    link: Link,
    has_edge: bool,
}

impl Core {
    /// Finds out who covers how much of `request`.
    pub(crate) fn find(&self, request: &[ContentHash], out: &mut Matches) {
        out.clear();
        let mut scratch = std::mem::take(&mut out.scratch);
        scratch.retries = 0;
        while self.walk(request, &mut scratch, out).is_err() {
            scratch.retries += 1;
            out.clear();
        }
        out.scratch = scratch;
    }

    /// One walk.
    fn walk(&self, request: &[ContentHash], scratch: &mut Scratch, out: &mut Matches) -> Result<(), Torn> {
        // Acquire: whoever sees that a number has changed hands sees nothing of its former owner.
        let epoch = self.epoch.load(Ordering::Acquire);
        scratch.begin(self.workers.load(Ordering::Relaxed));
        let mut walk = Walk::new(self, request);
        while walk.goes_on() && walk.step(scratch, out)? && !scratch.is_done() {}
        scratch.finish(walk.depth as u32, out);
        // A worker's number that was given to another worker meanwhile would mix the two. Acquire fence: if a load before it saw a
        // word of the other worker, then the load below sees that the number has changed hands.
        fence(Ordering::Acquire);
        if self.epoch.load(Ordering::Relaxed) == epoch { Ok(()) } else { Err(Torn) }
    }

    /// Calls `visit` with the first position and the mask of what `slot` holds of each segment along `request`, and with how
    /// many places are the request's, until it says no.
    pub(crate) fn along(
        &self,
        slot: Slot,
        request: &[ContentHash],
        mut visit: impl FnMut(u32, u64, usize) -> bool,
    ) -> Option<()> {
        // Acquire, and the fence at the end: as in `walk`.
        let epoch = self.epoch.load(Ordering::Acquire);
        let (mut parent, mut offset, mut depth) = (None::<Window<'_>>, 0, 0);
        while depth < request.len() {
            let rest = &request[depth..];
            let id = parent.map_or(SegmentId::ROOT, |window| window.id);
            let hash = self.edge(id, offset, rest[0].0);
            let linked = parent.map(|window| window.record().link()).filter(|link| link.offset == offset);
            let found = linked.and_then(|link| self.peek(link.child, id, offset, slot, rest));
            let found =
                found.or_else(|| self.edges.find(&self.segments.slabs, hash, |child| self.peek(child, id, offset, slot, rest)));
            if parent.is_some_and(|window: Window<'_>| !window.holds()) {
                return None;
            }
            let Some((window, mask, matched)) = found else { break };
            if !visit(depth as u32, mask, matched) {
                break;
            }
            (parent, offset, depth) = (Some(window), matched, depth + matched);
        }
        fence(Ordering::Acquire);
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

impl<'a> Walk<'a> {
    fn new(core: &'a Core, request: &'a [ContentHash]) -> Self {
        let (segment, link) = (SegmentId::ROOT, Link::default());
        Self { core, request, depth: 0, segment, offset: 0, window: None, link, has_edge: true }
    }

    #[inline]
    fn goes_on(&self) -> bool {
        self.has_edge && self.depth < self.request.len()
    }

    /// Goes on to the child that begins as the request goes on. Whether there was one.
    #[inline]
    fn step(&mut self, scratch: &mut Scratch, out: &mut Matches) -> Result<bool, Torn> {
        let content = self.request[self.depth].0;
        let linked =
            self.link.offset == self.offset && self.link.tag == Link::tag_of(content) && self.link.child != SegmentId::ROOT;
        if linked && self.read(self.link.child, scratch, out)? {
            return Ok(true);
        }
        self.step_by_table(content, scratch, out)
    }

    fn step_by_table(&mut self, content: u64, scratch: &mut Scratch, out: &mut Matches) -> Result<bool, Torn> {
        let hash = self.core.edge(self.segment, self.offset, content);
        let core = self.core;
        let found = core.edges.find(&core.segments.slabs, hash, |child| match self.read(child, scratch, out) {
            Ok(false) => None,
            other => Some(other),
        });
        found.unwrap_or(Ok(false))
    }

    /// Reads a segment and takes its holders into account, if it is the one that goes on as the request does.
    #[inline]
    fn read(&mut self, id: SegmentId, scratch: &mut Scratch, out: &mut Matches) -> Result<bool, Torn> {
        let segments = &self.core.segments;
        loop {
            let Some(window) = segments.window(id) else { return Ok(false) };
            let record = window.record();
            let meta = record.meta();
            let link = record.link();
            if link.child != SegmentId::ROOT {
                segments.prefetch_record(link.child);
            }
            let is_child = record.parent().0 == self.segment && meta.parent_offset == self.offset;
            let matched = common_prefix(record.contents(meta, meta.len), &self.request[self.depth..]);
            if !is_child || matched == 0 {
                if window.holds() {
                    return Ok(false);
                }
                continue;
            }
            let has_edge = record.edges() >> (matched - 1) & 1 == 1;
            let fits = scratch.count(&Holders::of(segments, record, meta), self.depth as u32, matched, out);
            // What was counted cannot be taken back piece by piece: the walk begins again. If the parent is what it was, then
            // this is its child and no other's.
            if !fits || !window.holds() || !self.window.is_none_or(|parent| parent.holds()) {
                return Err(Torn);
            }
            self.depth += matched;
            (self.segment, self.offset, self.window, self.link, self.has_edge) = (id, matched, Some(window), link, has_edge);
            return Ok(true);
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
    fn begin(&mut self, workers: usize) {
        self.active.clear();
        self.bits.clear();
        self.is_first = true;
        self.same.clear();
        // A stamp for each segment, and none twice as long as marks may bear it.
        if self.marks.len() < workers || self.stamp > u32::MAX / 2 {
            self.forget_marks(workers);
        }
        self.stamp += 2;
    }

    #[cold]
    fn forget_marks(&mut self, workers: usize) {
        self.marks.clear();
        self.marks.resize(workers.next_power_of_two(), 0);
        self.other_marks.clear();
        self.stamp = 0;
    }

    #[inline]
    fn is_done(&self) -> bool {
        self.active.is_empty() && self.bits.is_empty()
    }

    /// The slot's mark. Workers that came since the lookup began may have none: at that moment they covered nothing.
    #[inline]
    fn mark(&mut self, slot: Slot) -> Option<&mut u32> {
        if (slot.0 as usize) < self.marks.len() { Some(&mut self.marks[slot.0 as usize]) } else { self.other_mark(slot) }
    }

    /// The mark of a further view.
    #[cold]
    fn other_mark(&mut self, slot: Slot) -> Option<&mut u32> {
        let view = usize::from(slot.view().checked_sub(1)?);
        let workers = self.marks.len();
        if self.other_marks.len() <= view {
            self.other_marks.resize_with(view + 1, Vec::new);
        }
        let marks = &mut self.other_marks[view];
        marks.resize(workers, 0);
        marks.get_mut(slot.worker() as usize)
    }

    /// Takes a segment's holders into account: `matched` places of it are the request's, behind `depth` others. Whether
    /// what was read fits together.
    #[inline]
    fn count(&mut self, holders: &Holders<'_>, depth: u32, matched: usize, out: &mut Matches) -> bool {
        if self.goes_on(holders, matched) || self.bits_go_on(holders, matched) {
            return true;
        }
        self.next.clear();
        let fits = if self.is_first { self.count_first(holders, matched) } else { self.count_next(holders, depth, matched, out) };
        self.is_first = false;
        std::mem::swap(&mut self.active, &mut self.next);
        self.stamp += 1;
        self.settle(out);
        self.keep(holders);
        fits
    }

    /// Whether the active slots are the segment's holders, as they were the last segment's, and cover all that was matched.
    /// A chain's holders come in one order along it, so that this is a comparison of words.
    #[inline]
    fn goes_on(&self, holders: &Holders<'_>, matched: usize) -> bool {
        let words = holders.inline();
        // 128 + cutoff - matched has its highest bit where the cutoff reaches.
        let add = (0x80 - matched as u64) * EACH_HALF;
        let count = self.same.len();
        let Some(words) = words.get(..count) else { return false };
        if count == 0 || !holders.is_inline() || holders.inline().len() != count {
            return false;
        }
        let mut differ = 0;
        for (word, &(slots, wanted)) in words.iter().zip(&self.same) {
            let pair = word.load(Ordering::Relaxed);
            differ |= (pair & SLOTS ^ slots) | (!((pair & CUTOFFS) + add) & wanted);
        }
        differ == 0
    }

    /// Whether all that is active is known as bits, and covers all that was matched.
    #[inline]
    fn bits_go_on(&self, holders: &Holders<'_>, matched: usize) -> bool {
        let all = at_least(holders.dense(), matched).chain(std::iter::repeat(0));
        self.active.is_empty()
            && !self.bits.is_empty()
            && !holders.dense().is_empty()
            && self.bits.iter().zip(all).fold(0, |left, (&word, all)| left | word & !all) == 0
    }

    /// Remembers the holders' words, if they are all that is active.
    #[inline]
    fn keep(&mut self, holders: &Holders<'_>) {
        self.same.clear();
        if !holders.is_inline() || !self.bits.is_empty() || self.active.is_empty() {
            return;
        }
        let mut known = 0;
        for word in holders.inline() {
            let pair = word.load(Ordering::Relaxed);
            let mut wanted = 0;
            for half in [0, 32] {
                if pair >> half & u64::from(u32::MAX) != 0 {
                    wanted |= 0x80 << half;
                    let slot = Slot((pair >> (half + 8)) as u32 & 0x00ff_ffff);
                    let stamp = self.stamp;
                    known += usize::from(self.mark(slot).is_some_and(|mark| *mark == stamp));
                }
            }
            self.same.push((pair & SLOTS, wanted));
        }
        let words: u32 = self.same.iter().map(|&(_, wanted)| wanted.count_ones()).sum();
        if known != self.active.len() || words as usize != known {
            self.same.clear();
        }
    }

    /// In the first segment everybody with a cutoff covers something.
    fn count_first(&mut self, holders: &Holders<'_>, matched: usize) -> bool {
        let old = self.stamp;
        holders.for_each_word(|held| {
            let goes_on = held.cutoff() >= matched;
            let Some(mark) = self.mark(held.slot()) else { return };
            // Beside a writer a slot may come twice.
            if *mark < old {
                *mark = old + u32::from(goes_on);
                self.sort(held.slot(), goes_on, held.cutoff() as u32);
            }
        });
        let dense = holders.dense();
        if dense.is_empty() {
            return true;
        }
        self.bits.extend(at_least(dense, matched));
        let done = &mut self.done;
        set_bits(at_least(dense, 1).zip(&self.bits).map(|(some, all)| some & !all)).all(|worker| {
            let cutoff = holders.dense_cutoff(worker);
            done.push((cutoff as u32, Slot(worker)));
            cutoff < matched
        })
    }

    fn count_next(&mut self, holders: &Holders<'_>, depth: u32, matched: usize, out: &mut Matches) -> bool {
        let old = self.stamp;
        let mut met = 0;
        holders.for_each_word(|held| {
            let slot = held.slot();
            let goes_on = held.cutoff() >= matched;
            let Some(mark) = self.mark(slot) else { return };
            let was_active = *mark == old;
            if was_active || self.take_bit(slot) {
                met += usize::from(was_active);
                self.set_mark(slot, goes_on);
                self.sort(slot, goes_on, depth + held.cutoff() as u32);
            }
        });
        let fits = self.count_bits(holders, depth, matched, out);
        if met < self.active.len() {
            self.count_others(holders, depth, matched);
        }
        fits
    }

    /// Those that are active and have no word here: they are in the dense table, or done.
    fn count_others(&mut self, holders: &Holders<'_>, depth: u32, matched: usize) {
        let old = self.stamp;
        let active = std::mem::take(&mut self.active);
        for &slot in &active {
            if self.mark(slot).is_some_and(|mark| *mark == old) {
                let cutoff = if (slot.0 as usize) < holders.span() { holders.dense_cutoff(slot.0) } else { 0 };
                self.set_mark(slot, cutoff >= matched);
                self.sort(slot, cutoff >= matched, depth + cutoff as u32);
            }
        }
        self.active = active;
    }

    /// Main views that are known as bits meet the segment's dense table; without one, they are done. Whether what was
    /// read fits together.
    fn count_bits(&mut self, holders: &Holders<'_>, depth: u32, matched: usize, out: &mut Matches) -> bool {
        if self.bits.is_empty() {
            return true;
        }
        let dense = holders.dense();
        if dense.is_empty() {
            if self.bits.iter().any(|&word| word != 0) {
                out.append_bits(depth, &self.bits);
            }
            self.bits.clear();
            return true;
        }
        let mut fits = true;
        let mut left = 0;
        let all = at_least(dense, matched).chain(std::iter::repeat(0));
        for (at, (word, all)) in (0u32..).zip(self.bits.iter_mut().zip(all)) {
            for bit in set_bits(std::iter::once(*word & !all)) {
                let worker = at * 64 + bit;
                let cutoff = if (worker as usize) < holders.span() { holders.dense_cutoff(worker) } else { 0 };
                fits &= cutoff < matched;
                self.done.push((depth + cutoff as u32, Slot(worker)));
            }
            *word &= all;
            left |= *word;
        }
        if left == 0 {
            self.bits.clear();
        }
        fits
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

    /// Marks a slot that was active as one that goes on, or does not.
    #[inline]
    fn set_mark(&mut self, slot: Slot, goes_on: bool) {
        let new = if goes_on { self.stamp + 1 } else { 0 };
        if let Some(mark) = self.mark(slot) {
            *mark = new;
        }
    }

    /// Puts a slot among those that go on or those that are done, `depth` deep.
    #[inline]
    fn sort(&mut self, slot: Slot, goes_on: bool, depth: u32) {
        if goes_on {
            self.next.push(slot);
        } else {
            self.done.push((depth, slot));
        }
    }

    /// Hands those that are done over, shallowest first.
    #[inline]
    fn settle(&mut self, out: &mut Matches) {
        if self.done.is_empty() {
            return;
        }
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
        if !self.active.is_empty() {
            out.append_rows(depth, self.active.iter().map(|slot| (slot.worker(), slot.view())));
        }
    }
}

/// For each 64 workers, the bits of those whose cutoff is at least `cutoff`, 1 to 64.
#[inline]
fn at_least(dense: &[AtomicU64], cutoff: usize) -> impl Iterator<Item = u64> {
    dense.chunks(8).map(move |words| compare::at_least(words, cutoff))
}

/// The slots, the cutoffs and the lowest bits of both halves of a pair of holders' words.
const SLOTS: u64 = 0xffff_ff00_ffff_ff00;
const CUTOFFS: u64 = 0x0000_007f_0000_007f;
const EACH_HALF: u64 = 0x0000_0001_0000_0001;

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
