//! Segments: their ids, their locks, and the windows through which readers look at them.
//!
//! A segment's *descriptor* is one word: where its record is, a generation, and a lock bit. A writer locks a segment
//! by that bit. It builds what takes more than one store aside and swings it in with one store, after which the generation is
//! another; a reader never finds a segment half changed, and a writer that is preempted holds nobody up but writers.
//!
//! # Invariants
//! 1. The descriptor names a record (block 0: none, the segment is dead) that is whole: everything a reader may follow from it
//!    was written before the descriptor.
//! 2. While the generation stands still, the record and every block reachable from it belong to this segment, `contents[..len]`
//!    of any `len` ever published do not change, and each holder's word alone tells what the holder covers.
//! 3. What leaves the segment (an old record, an old block, a place cut off) is written over only after the generation has
//!    changed and a release fence: a reader that sees the new value fails its check.
//! 4. The lock bit says nothing to readers.

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{Mutex, hint, thread};

use super::holders::{Holders, Slot};
use super::memory::Memory;
use super::place::Place;
use super::record::{HOLDER_LINES_MAX, Meta, PLACES, Record};
use super::slabs::{LINE_WORDS, Line, Slabs};

/// A segment. 0 is the root, which is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SegmentId(pub(crate) u32);

impl SegmentId {
    pub(crate) const ROOT: Self = Self(0);
}

/// One more than the largest id: a place is an id and an offset in 32 bits.
pub(crate) const SEGMENTS_MAX: u32 = 1 << 26;

#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) slabs: Slabs,
    descriptors: Memory,
    /// What loom's readers see: see [`Segments::shown`].
    #[cfg(kv_loom)]
    shown: Memory,
    ids: Mutex<Ids>,
}

#[derive(Debug)]
struct Ids {
    free: Vec<u32>,
    end: u32,
}

/// Where the record is (low half), the generation, and the lock (highest bit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Descriptor(u64);

const LOCK: u64 = 1 << 63;
const GENERATION: u64 = 1 << 32;

impl Descriptor {
    #[inline]
    fn block(self) -> Line {
        Line(self.0 as u32)
    }

    #[inline]
    fn unlocked(self) -> Self {
        Self(self.0 & !LOCK)
    }

    /// The next generation, with the record at `block`.
    fn next(self, block: Line) -> Self {
        let generation = (self.0 & !LOCK & !u64::from(u32::MAX)).wrapping_add(GENERATION) & !LOCK;
        Self(generation | u64::from(block.0))
    }
}

/// A reader's look at a segment. What was read through it counts only if [`holds`](Self::holds) says so afterwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'a> {
    segments: &'a Segments,
    pub(crate) id: SegmentId,
    word: &'a AtomicU64,
    seen: Descriptor,
}

/// A segment that this thread has locked.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    pub(crate) segments: &'a Segments,
    pub(crate) id: SegmentId,
    descriptor: Descriptor,
}

impl Segments {
    pub(crate) fn new() -> Self {
        Self {
            slabs: Slabs::new(),
            descriptors: Memory::new(SEGMENTS_MAX as usize),
            #[cfg(kv_loom)]
            shown: Memory::new(SEGMENTS_MAX as usize),
            ids: Mutex::new(Ids { free: Vec::new(), end: 1 }),
        }
    }

    #[inline]
    fn descriptor(&self, id: SegmentId) -> &AtomicU64 {
        &self.descriptors.words(id.0 as usize, 1)[0]
    }

    /// The descriptors that readers see. For loom copies without the lock bit: every value that a word had is one that later
    /// loads may see, and what says nothing to readers would multiply their schedules by thousands.
    #[inline]
    fn shown(&self) -> &Memory {
        #[cfg(kv_loom)]
        return &self.shown;
        #[cfg(not(kv_loom))]
        return &self.descriptors;
    }

    /// Shows a new descriptor to loom's readers; others see it already.
    #[inline]
    #[cfg_attr(not(kv_loom), expect(clippy::unused_self, reason = "for loom only"))]
    fn show(&self, _id: SegmentId, _descriptor: Descriptor) {
        // Release: as the store of the descriptor itself.
        #[cfg(kv_loom)]
        self.shown.words(_id.0 as usize, 1)[0].store(_descriptor.0, Ordering::Release);
    }

    /// Opens a window on a segment; none if it is dead or was never made.
    #[inline]
    pub(crate) fn window(&self, id: SegmentId) -> Option<Window<'_>> {
        let word = self.shown().words(id.0 as usize, 1).first()?;
        // Acquire: what the record says was written before.
        let seen = Descriptor(word.load(Ordering::Acquire)).unlocked();
        (seen.block() != Line(0)).then_some(Window { segments: self, id, word, seen })
    }

    /// Moves a segment's record into a lower slab, if there is room and nobody has the segment locked.
    pub(crate) fn move_down(&self, id: SegmentId) {
        let Some(window) = self.window(id) else { return };
        if self.slabs.has_room_below(window.seen.block(), window.record().meta().lines())
            && let Some(mut segment) = self.try_lock(id)
            && segment.descriptor == window.seen
        {
            segment.reshape(segment.record().meta());
        }
    }

    /// Locks a segment if nobody has it locked and it is alive.
    fn try_lock(&self, id: SegmentId) -> Option<Locked<'_>> {
        let word = self.descriptors.words(id.0 as usize, 1).first()?;
        let seen = Descriptor(word.load(Ordering::Relaxed));
        let free = seen.block() != Line(0) && seen == seen.unlocked();
        // Acquire: as in `lock`.
        let locked = free && word.compare_exchange(seen.0, seen.0 | LOCK, Ordering::Acquire, Ordering::Relaxed).is_ok();
        locked.then_some(Locked { segments: self, id, descriptor: seen })
    }

    /// One more than the largest id that was ever given.
    pub(crate) fn end(&self) -> u32 {
        self.ids.lock().end
    }

    /// Locks a segment; none if it is dead or was never made. Whoever holds another lock may only lock its parent.
    pub(crate) fn lock(&self, id: SegmentId) -> Option<Locked<'_>> {
        let word = self.descriptors.words(id.0 as usize, 1).first()?;
        for spins in 0.. {
            let seen = Descriptor(word.load(Ordering::Relaxed));
            if seen.block() == Line(0) {
                return None;
            }
            // Acquire: what the last holder of the lock wrote is there.
            let free = seen == seen.unlocked();
            if free && word.compare_exchange_weak(seen.0, seen.0 | LOCK, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(Locked { segments: self, id, descriptor: seen });
            }
            relax(spins);
        }
        unreachable!("the loop has no end")
    }

    /// A new segment of the shape, locked, without places or holders; none when all ids are taken.
    pub(crate) fn create(&self, meta: Meta) -> Option<Locked<'_>> {
        let id = self.take_id()?;
        let block = self.slabs.allocate(meta.lines());
        Record::new(self.slabs.words(block, Record::WORDS)).clear(meta);
        let word = self.descriptor(id);
        let descriptor = Descriptor(word.load(Ordering::Relaxed)).next(block);
        // Release: whoever sees the descriptor sees the record. Locked, so that an outdated id finds a lock and waits.
        word.store(descriptor.0 | LOCK, Ordering::Release);
        self.show(id, descriptor);
        Some(Locked { segments: self, id, descriptor })
    }

    fn take_id(&self) -> Option<SegmentId> {
        let mut ids = self.ids.lock();
        if let Some(id) = ids.free.pop() {
            // The next one's descriptor was not used for a while.
            ids.free.last().into_iter().for_each(|&next| self.prefetch_descriptor(SegmentId(next)));
            return Some(SegmentId(id));
        }
        let id = ids.end;
        if id == SEGMENTS_MAX {
            return None;
        }
        if !self.descriptors.reserve(id as usize + 1) {
            return None;
        }
        #[cfg(kv_loom)]
        self.shown.reserve(id as usize + 1);
        ids.end += 1;
        Some(SegmentId(id))
    }

    /// The name that the shared table is said to lead from to `place`, if the place is claimed.
    #[inline]
    pub(crate) fn name_at(&self, place: Place) -> Option<u64> {
        loop {
            let window = self.window(place.segment())?;
            let record = window.record();
            let names = record.names(record.meta(), place.offset() + 1);
            let name = names.last().map(|name| name.load(Ordering::Relaxed));
            let name = name.filter(|_| record.claimed() & place.bit() != 0);
            if window.holds() {
                return name;
            }
        }
    }

    /// The mask of `slot` in a segment, and the generation is one.
    pub(crate) fn mask(&self, id: SegmentId, slot: Slot) -> u64 {
        loop {
            let Some(window) = self.window(id) else { return 0 };
            let record = window.record();
            let holders = Holders::of(self, record, record.meta());
            let mask = holders.find(slot).map_or(0, |held| holders.mask(held));
            if window.holds() {
                return mask;
            }
        }
    }

    /// Whether a segment follows `offset` places of `parent` and begins with `content`.
    #[inline]
    pub(crate) fn is_child(&self, id: SegmentId, parent: SegmentId, offset: usize, content: u64) -> bool {
        loop {
            let Some(window) = self.window(id) else { return false };
            let is = window.record().is_child(parent, offset, content);
            if window.holds() {
                return is;
            }
        }
    }

    /// Segments that are alive.
    pub(crate) fn count(&self) -> usize {
        let ids = self.ids.lock();
        ids.end as usize - 1 - ids.free.len()
    }

    /// Bytes of memory that does not come from the allocator.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.slabs.bytes() + self.ids.lock().end as usize * 8
    }

    /// Bytes in use: blocks, descriptors, free ids.
    pub(crate) fn bytes(&self) -> usize {
        let ids = self.ids.lock();
        self.slabs.bytes() + ids.end as usize * 8 + ids.free.capacity() * 4
    }

    #[inline]
    pub(crate) fn prefetch_descriptor(&self, id: SegmentId) {
        super::prefetch::read(self.descriptors.address(id.0 as usize));
    }
}

/// What a writer will look at, as far as one line leads to the next.
impl Segments {
    /// Fetches a whole record, as far as one without further holders goes: contents and names.
    #[inline]
    pub(crate) fn prefetch_whole(&self, id: SegmentId) {
        // Nothing that a model checker sees.
        if cfg!(any(kv_loom, kv_shuttle)) {
            return;
        }
        if let Some(window) = self.window(id) {
            super::prefetch::lines(self.slabs.address(window.seen.block()), 1 + 2 * PLACES / LINE_WORDS);
        }
    }

    /// Fetches what a short record has: the header, and a few contents and names.
    #[inline]
    pub(crate) fn prefetch_start(&self, id: SegmentId) {
        // Nothing that a model checker sees.
        if cfg!(any(kv_loom, kv_shuttle)) {
            return;
        }
        if let Some(window) = self.window(id) {
            super::prefetch::lines(self.slabs.address(window.seen.block()), 4);
        }
    }

    /// Fetches the header.
    pub(crate) fn prefetch_header(&self, id: SegmentId) {
        // Nothing that a model checker sees.
        if cfg!(any(kv_loom, kv_shuttle)) {
            return;
        }
        if let Some(window) = self.window(id) {
            super::prefetch::read(self.slabs.address(window.seen.block()));
        }
    }

    /// Fetches a place's content and name, the slot's byte, and the masks' first line.
    pub(crate) fn prefetch_place(&self, place: Place, slot: Slot) {
        let Some(window) = self.window(place.segment()) else { return };
        let record = window.record();
        let meta = record.meta();
        let len = place.offset() + 1;
        for words in [record.contents(meta, len), record.names(meta, len)] {
            words.last().into_iter().for_each(super::prefetch::word);
        }
        Holders::of(self, record, meta).prefetch_byte(slot);
    }

    /// Fetches the slot's mask, if there are masks.
    pub(crate) fn prefetch_mask(&self, id: SegmentId, slot: Slot) {
        let Some(window) = self.window(id) else { return };
        let record = window.record();
        Holders::of(self, record, record.meta()).prefetch_mask(slot);
    }
}

impl<'a> Window<'a> {
    #[inline]
    pub(crate) fn record(&self) -> Record<'a> {
        let segments: &'a Segments = self.segments;
        Record::new(segments.slabs.words(self.seen.block(), Record::WORDS))
    }

    /// Fetches the record: the header, so many lines of holders, and the contents of so many places.
    #[inline]
    pub(crate) fn prefetch(&self, holder_lines: usize, places: usize) {
        // Two sizes without a loop: most segments are full, or short.
        let address = self.segments.slabs.address(self.seen.block());
        let contents = address.wrapping_add((1 + holder_lines) * LINE_WORDS * 8);
        super::prefetch::lines(address, 1);
        if holder_lines > 0 {
            super::prefetch::lines(address.wrapping_add(LINE_WORDS * 8), HOLDER_LINES_MAX);
        }
        super::prefetch::lines(contents, PLACES / 2 / LINE_WORDS);
        if places > PLACES / 2 {
            super::prefetch::lines(contents.wrapping_add(PLACES / 2 * 8), PLACES / 2 / LINE_WORDS);
        }
    }

    /// Whether everything read through the window so far was of this one segment, whole.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        // Acquire fence: if a load before it saw a word that was written over after the generation had changed, then the
        // load below sees that change.
        fence(Ordering::Acquire);
        Descriptor(self.word.load(Ordering::Relaxed)).unlocked() == self.seen
    }
}

impl<'a> Locked<'a> {
    #[inline]
    pub(crate) fn record(&self) -> Record<'a> {
        let segments: &'a Segments = self.segments;
        Record::new(segments.slabs.words(self.descriptor.block(), Record::WORDS))
    }

    /// The generation: whoever finds it again under the lock finds the places where they were.
    pub(crate) fn generation(&self) -> u64 {
        self.descriptor.0
    }

    /// Starts the next generation: what left the segment before may be written over afterwards.
    pub(crate) fn bump(&mut self) {
        self.publish(self.descriptor.block());
    }

    /// Moves the record into one of shape `meta`.
    pub(crate) fn reshape(&mut self, meta: Meta) {
        let (old_block, old) = (self.descriptor.block(), self.record());
        let old_lines = old.meta().lines();
        let block = self.segments.slabs.allocate(meta.lines());
        let new = Record::new(self.segments.slabs.words(block, Record::WORDS));
        new.copy(meta, old);
        if !meta.keeps_holders_of(old.meta()) {
            self.holders().write(new, meta);
        }
        self.publish(block);
        self.segments.slabs.free(old_block, old_lines);
    }

    /// Makes sure that there is room for names.
    pub(crate) fn make_named(&mut self) {
        let meta = self.record().meta();
        if !meta.named {
            self.reshape(Meta { named: true, ..meta }.roomy());
        }
    }

    /// Ends the segment. Its extension must be gone; no holder, child or name may be left.
    pub(crate) fn destroy(mut self) {
        let (block, lines) = (self.descriptor.block(), self.record().meta().lines());
        self.descriptor = self.descriptor.next(Line(0));
        let (segments, id) = (self.segments, self.id);
        segments.show(id, self.descriptor);
        // Unlocks: a dead segment cannot be locked, so nobody waits for it any more.
        drop(self);
        segments.slabs.free(block, lines);
        segments.ids.lock().free.push(id.0);
    }

    fn publish(&mut self, block: Line) {
        self.descriptor = self.descriptor.next(block);
        let word = self.segments.descriptor(self.id);
        // Release: the new record is whole before it is seen.
        word.store(self.descriptor.0 | LOCK, Ordering::Release);
        self.segments.show(self.id, self.descriptor);
        // Whatever is written from here on over what has left the segment comes with the new generation.
        fence(Ordering::Release);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Release: the next holder of the lock sees what this one wrote.
        self.segments.descriptor(self.id).store(self.descriptor.0, Ordering::Release);
    }
}

/// Waits a little for another writer: by turns of the processor at first, then by giving the thread's turn away, since
/// the holder may be preempted.
pub(crate) fn relax(spins: u32) {
    if spins < 64 && !cfg!(any(kv_loom, kv_shuttle)) {
        hint::spin_loop();
    } else {
        thread::yield_now();
    }
}
