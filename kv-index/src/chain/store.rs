//! Storing: along the segments that are there, then into new ones.

use super::core::{Core, has_edge};
use super::names_ahead::NamesAhead;
use super::own::Key;
use super::state::Writer;
use crate::raw::holders::{Entry, Slot, prefix};
use crate::raw::place::Place;
use crate::raw::record::{Meta, PLACES};
use crate::raw::segments::{Locked, SegmentId};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::{Block, BlockName, Stored, View};

/// Where the next block goes: after `offset` places of a segment, or (0 of the root) at the beginning.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    segment: SegmentId,
    offset: usize,
    /// The segment's generation, if the place before the next block may vanish: this worker does not hold it.
    generation: Option<u64>,
}

/// How far one look at a segment brought the store.
enum Step {
    /// Some more blocks are done, perhaps none.
    On(Cursor),
    /// The path behind is gone: others had it cut off while this worker did not hold it.
    Lost,
}

/// A store on its way.
struct Store<'w, 'a> {
    writer: &'w mut Writer<'a>,
    slot: Slot,
    view: u32,
    blocks: &'w [Block],
    out: &'w mut Vec<Stored>,
    ahead: &'w mut NamesAhead,
}

impl Writer<'_> {
    /// Stores `blocks` after `parent`, a place that the worker holds, or from the root. `out` gets one entry for each.
    pub(crate) fn store(
        &mut self,
        view: View,
        parent: Option<Place>,
        blocks: &[Block],
        ahead: &mut NamesAhead,
        out: &mut Vec<Stored>,
    ) {
        // Steps behind the last name lead nowhere.
        let named = blocks.iter().rposition(|block| block.name.is_some()).map_or(0, |last| last + 1);
        let slot = self.state.slot(view);
        Store { writer: self, slot, view: 1 << view.0, blocks: &blocks[..named], out, ahead }.run(parent);
        out.resize(blocks.len(), Stored::Step);
        if self.state.naming.wants_privacy(self.state.held()) {
            self.go_private();
        }
    }
}

impl<'a> Store<'_, 'a> {
    fn run(&mut self, parent: Option<Place>) {
        let start = match parent {
            None => Cursor { segment: SegmentId::ROOT, offset: 0, generation: None },
            Some(place) => Cursor { segment: place.segment(), offset: place.offset() + 1, generation: None },
        };
        let mut cursor = start;
        while self.out.len() < self.blocks.len() {
            cursor = match self.step(cursor) {
                Step::On(next) => next,
                Step::Lost => self.find_again(start),
            };
        }
    }

    /// Goes along the blocks that are done, making what is gone again.
    #[cold]
    fn find_again(&mut self, start: Cursor) -> Cursor {
        let done = self.out.len();
        let contents: Vec<Block> = self.blocks[..done].iter().map(|block| Block::step(block.content)).collect();
        let mut cursor = start;
        let mut out = Vec::with_capacity(done);
        let ahead = &mut NamesAhead::of(self.writer, &contents);
        while out.len() < done {
            let (writer, slot, view, ahead) = (&mut *self.writer, self.slot, self.view, &mut *ahead);
            let mut path = Store { writer, slot, view, blocks: &contents, out: &mut out, ahead };
            cursor = match path.step(cursor) {
                Step::On(next) => next,
                Step::Lost => {
                    out.clear();
                    start
                }
            };
        }
        cursor
    }

    fn rest(&self) -> &[Block] {
        &self.blocks[self.out.len()..]
    }

    fn step(&mut self, at: Cursor) -> Step {
        if at.segment == SegmentId::ROOT {
            return self.below_root();
        }
        let Some(segment) = self.writer.core.segments.lock(at.segment) else { return Step::Lost };
        if at.generation.is_some_and(|generation| generation != segment.generation()) {
            return Step::Lost;
        }
        self.along(segment, at.offset)
    }

    fn below_root(&mut self) -> Step {
        let content = self.rest()[0].content.0;
        let core = self.writer.core;
        if let Some(child) = core.root_child(content) {
            return self.enter(child, SegmentId::ROOT, 0, Cursor { segment: SegmentId::ROOT, offset: 0, generation: None });
        }
        let hash = core.edge(SegmentId::ROOT, 0, content);
        // Before the lock, for which others wait.
        self.ahead.fetch(self.writer, self.blocks, self.out.len());
        let mut shard = core.edges.lock(&core.segments.slabs, hash);
        let is = |child| core.segments.is_child(child, SegmentId::ROOT, 0, content).then_some(());
        if shard.find(is).is_some() {
            // Somebody else was faster.
            return Step::On(Cursor { segment: SegmentId::ROOT, offset: 0, generation: None });
        }
        let segment = self.create(SegmentId::ROOT, 0, 0);
        shard.insert(segment.id);
        drop(shard);
        self.along(segment, 0)
    }

    /// Goes on in a child that was seen after `from`.
    fn enter(&mut self, child: SegmentId, parent: SegmentId, offset: usize, from: Cursor) -> Step {
        let content = self.rest()[0].content.0;
        match self.writer.core.segments.lock(child) {
            Some(segment) if segment.record().is_child(parent, offset, content) => self.along(segment, 0),
            _ => Step::On(from),
        }
    }

    /// Goes along a locked segment from `offset`: over the places that are there, then over new ones at its end, or on to a child.
    fn along(&mut self, mut segment: Locked<'a>, offset: usize) -> Step {
        let record = segment.record();
        let meta = record.meta();
        let link = record.link();
        if link.offset() >= offset
            && let Some(block) = self.rest().get(link.offset() - offset)
            && link.leads(link.offset(), block.content.0)
        {
            self.writer.core.segments.prefetch_whole(link.child());
        }
        let same = common(&record.contents(meta, meta.len)[offset..], self.rest());
        if same > 0 {
            return self.hold_run(segment, offset, same);
        }
        if offset < meta.len || has_edge(record, offset) || meta.len == PLACES {
            return self.branch(segment, offset);
        }
        let count = self.rest().len().min(PLACES - meta.len);
        self.extend(&mut segment, count);
        self.hold_run(segment, offset, count)
    }

    /// Goes from `offset` of a locked segment to the child that goes on as the blocks do, made if there is none.
    fn branch(&mut self, segment: Locked<'a>, offset: usize) -> Step {
        let content = self.rest()[0].content.0;
        let core = self.writer.core;
        if let Some(child) = core.child(&segment, offset, content) {
            let from = self.cursor(&segment, offset);
            let parent = segment.id;
            drop(segment);
            return self.enter(child, parent, offset, from);
        }
        let position = segment.record().parent().1 + offset as u32;
        let child = self.create(segment.id, offset, position);
        core.attach(&segment, offset, content, child.id);
        drop(segment);
        self.along(child, 0)
    }

    /// A cursor after `offset` places of a locked segment.
    fn cursor(&self, segment: &Locked<'_>, offset: usize) -> Cursor {
        let held = self.out.is_empty() || self.blocks[self.out.len() - 1].name.is_some();
        Cursor { segment: segment.id, offset, generation: (!held).then(|| segment.generation()) }
    }

    /// A new segment of the next blocks, which nobody holds yet and nothing leads to.
    fn create(&mut self, parent: SegmentId, offset: usize, position: u32) -> Locked<'a> {
        let len = self.rest().len().min(PLACES);
        let named = !self.writer.state.naming.private;
        let shape = Meta { capacity: len, named, parent_offset: offset, ..Meta::default() }.roomy();
        let core: &'a Core = self.writer.core;
        // New blocks have new names, as a rule. Their lines come while the segment is made and attached.
        self.ahead.fetch(self.writer, self.blocks, self.out.len());
        let segment = core.segments.create(shape).expect("the store made sure that ids are left");
        segment.record().set_parent(parent, position);
        self.write_places(&segment, shape, len);
        segment
    }

    /// Makes room for `count` more places in a segment, and the places.
    fn extend(&self, segment: &mut Locked<'_>, count: usize) {
        let meta = segment.record().meta();
        let len = meta.len + count;
        let named = meta.named || !self.writer.state.naming.private;
        if len > meta.capacity || named != meta.named {
            segment.reshape(Meta { capacity: meta.capacity.max(len), named, ..meta }.roomy());
        }
        // What is written beyond the length may lie where a place was cut off by an earlier holder of the lock.
        fence(Ordering::Release);
        self.write_places(segment, segment.record().meta(), count);
    }

    /// Writes the next blocks behind the last place of a segment of shape `meta`, and then its new length.
    fn write_places(&self, segment: &Locked<'_>, meta: Meta, count: usize) {
        let record = segment.record();
        let len = meta.len + count;
        let contents = &record.contents(meta, len)[meta.len..];
        for (word, block) in contents.iter().zip(self.rest()) {
            word.store(block.content.0, Ordering::Relaxed);
        }
        record.set_meta(Meta { len, ..meta });
    }

    /// Holds the next `count` blocks at the places from `offset` of a locked segment, as far as no block moves: letting go
    /// of the old place takes another lock.
    fn hold_run(&mut self, mut segment: Locked<'a>, offset: usize, count: usize) -> Step {
        let entry = segment.entry(self.slot);
        let mut mask = entry.mask;
        let mut done = 0;
        let naming = &self.writer.state.naming;
        if !naming.private {
            done += self.hold_agreed(&segment, offset, count, &mut mask);
            if done < count {
                done += self.claim_fresh(&mut segment, offset + done, count - done, &mut mask);
            }
        } else if self.writer.state.views() == 1 {
            done += self.own_fresh(&segment, offset, count, &mut mask);
        }
        if done < count {
            return self.hold_one_by_one(segment, offset + done, count - done, entry, mask);
        }
        if mask != entry.mask {
            self.writer.put(&mut segment, entry, mask);
        }
        Step::On(self.cursor(&segment, offset + count))
    }

    /// The same with a closer look at each block. What `mask` says beyond the entry's is held already but not yet written.
    fn hold_one_by_one(
        &mut self,
        mut segment: Locked<'a>,
        offset: usize,
        count: usize,
        mut entry: Entry<'a>,
        mut mask: u64,
    ) -> Step {
        for at in offset..offset + count {
            let Some(BlockName(name)) = self.rest()[0].name else {
                self.out.push(Stored::Step);
                continue;
            };
            if let Some(stored) = self.hold_easily(&mut segment, at, name, mask) {
                if stored == Stored::New {
                    mask |= 1 << at;
                    self.writer.note(&segment, at, name, self.view, true);
                }
                self.out.push(stored);
                continue;
            }
            self.writer.put(&mut segment, entry, mask);
            let (stored, moved) = self.writer.hold(&mut segment, at, name, self.slot);
            entry = segment.entry(self.slot);
            mask = entry.mask;
            self.out.push(stored);
            if let Some((place, views)) = moved {
                let cursor = self.cursor(&segment, at + 1);
                drop(segment);
                self.writer.let_go(place, name, views);
                return Step::On(cursor);
            }
        }
        self.writer.put(&mut segment, entry, mask);
        Step::On(self.cursor(&segment, offset + count))
    }

    /// Holds the next blocks as long as the places from `offset` bear their names. The whole of it is a comparison of arrays.
    #[inline]
    fn hold_agreed(&mut self, segment: &Locked<'_>, offset: usize, count: usize, mask: &mut u64) -> usize {
        let record = segment.record();
        let claimed = (record.claimed() >> offset).trailing_ones() as usize;
        let names = record.names(record.meta(), offset + count.min(claimed)).get(offset..).unwrap_or_default();
        let blocks = &self.blocks[self.out.len()..];
        let agrees = |(word, block): &(&AtomicU64, &Block)| block.name == Some(BlockName(word.load(Ordering::Relaxed)));
        let mut count = names.iter().zip(blocks).take_while(agrees).count();
        if !self.writer.state.naming.own.is_empty() {
            count = self.plain_prefix(segment, offset, count);
        }
        if count > 0 {
            self.take_agreed(segment, offset, count, mask);
            self.writer.state.naming.agreed += count as u64;
        }
        count
    }

    /// How many of the next `count` blocks, which have names, are nothing special to the worker at the places from `offset`.
    fn plain_prefix(&self, segment: &Locked<'_>, offset: usize, count: usize) -> usize {
        let naming = &self.writer.state.naming;
        let is_plain = |(nth, name): &(usize, BlockName)| naming.is_plain(Place::new(segment.id, offset + nth), name.0);
        names(self.rest()).take(count).enumerate().take_while(is_plain).count()
    }

    /// Notes that the next `count` blocks are held from `offset` on, those in the mask as before.
    #[inline]
    fn take_agreed(&mut self, segment: &Locked<'_>, offset: usize, count: usize, mask: &mut u64) {
        let held = *mask >> offset & prefix(count);
        if held == 0 {
            return self.take(segment, offset, count, mask);
        }
        for at in 0..count {
            let is_held = held >> at & 1 == 1;
            if let (false, Some(BlockName(name))) = (is_held, self.rest()[0].name) {
                self.writer.note(segment, offset + at, name, self.view, true);
            }
            self.out.push(if is_held { Stored::AlreadyHeld } else { Stored::New });
        }
        *mask |= prefix(count) << offset;
    }

    /// Holds the next blocks as long as the places from `offset` have no claim and nobody claims their names elsewhere.
    fn claim_fresh(&mut self, segment: &mut Locked<'_>, offset: usize, count: usize, mask: &mut u64) -> usize {
        if count == 0 {
            return 0;
        }
        let core = self.writer.core;
        let claimed = segment.record().claimed();
        let all = self.blocks;
        let blocks = &all[self.out.len()..];
        let free = (claimed >> offset).trailing_zeros() as usize;
        let mut fresh = blocks.iter().take(count.min(free)).take_while(|block| block.name.is_some()).count();
        if !self.writer.state.naming.own.is_empty() {
            fresh = self.plain_prefix(segment, offset, fresh);
        }
        if fresh == 0 {
            return 0;
        }
        segment.make_named();
        let record = segment.record();
        let words = &record.names(record.meta(), offset + fresh)[offset..];
        words.iter().zip(names(blocks)).for_each(|(word, name)| word.store(name.0, Ordering::Relaxed));
        record.set_claimed(claimed | prefix(fresh) << offset);
        let done = self.out.len();
        let mut held = 0;
        self.ahead.fetch_again(self.writer, all, done);
        while held < fresh {
            let hash = self.ahead.hash(self.writer, all, done + held);
            let name = words[held].load(Ordering::Relaxed);
            if core.names.claim(&core.segments, hash, name, Place::new(segment.id, offset + held)).is_err() {
                break;
            }
            held += 1;
        }
        if held < fresh {
            record.set_claimed(claimed | prefix(held) << offset);
        }
        self.take(segment, offset, held, mask);
        held
    }

    /// Holds the next blocks of a private worker as long as the places from `offset` are free and their names are new.
    fn own_fresh(&mut self, segment: &Locked<'_>, offset: usize, count: usize, mask: &mut u64) -> usize {
        let free = (*mask >> offset).trailing_zeros() as usize;
        let done = self.out.len();
        let fresh = names(&self.blocks[done..]).take(count.min(free)).count();
        self.ahead.fetch_again(self.writer, self.blocks, done);
        let mut enters = |nth: usize| {
            let key = Key::of_word(self.ahead.hash(self.writer, self.blocks, done + nth));
            self.writer.state.naming.own.insert(key, Place::new(segment.id, offset + nth)).is_ok()
        };
        let held = (0..fresh).take_while(|&nth| enters(nth)).count();
        self.take(segment, offset, held, mask);
        held
    }

    /// Notes that the next `count` blocks, which have names, are held anew from `offset` on.
    #[inline]
    fn take(&mut self, segment: &Locked<'_>, offset: usize, count: usize, mask: &mut u64) {
        let position = segment.record().parent().1 + offset as u32;
        let start = self.out.len();
        let digest = &mut self.writer.state.digests[usize::from(self.slot.view())];
        // In registers: the compiler cannot know that the blocks are not the digest's.
        let mut sums = *digest;
        for (nth, block) in (position..).zip(&self.blocks[start..start + count]) {
            if let Some(name) = block.name {
                sums.add(nth, block.content, name);
            }
        }
        *digest = sums;
        self.out.resize(start + count, Stored::New);
        *mask |= prefix(count) << offset;
    }

    /// Holds `name` at `at` if it is held nowhere and nothing stands in its way; `None` if that takes a closer look. `mask` is
    /// what the view holds of the segment.
    #[inline]
    fn hold_easily(&mut self, segment: &mut Locked<'_>, at: usize, name: u64, mask: u64) -> Option<Stored> {
        let bit = 1 << at;
        let place = Place::new(segment.id, at);
        let naming = &self.writer.state.naming;
        if naming.private {
            let free = mask & bit == 0 && (self.writer.state.views() == 1 || self.writer.covering_locked(segment, place) == 0);
            let own = &mut self.writer.state.naming.own;
            return (free && own.insert(own.key(name), place).is_ok()).then_some(Stored::New);
        }
        if !naming.is_plain(place, name) {
            return None;
        }
        let record = segment.record();
        if record.claimed() & bit != 0 {
            let names = record.names(record.meta(), at + 1);
            let agrees = names.last().is_some_and(|word| word.load(Ordering::Relaxed) == name);
            return agrees.then_some(if mask & bit == 0 { Stored::New } else { Stored::AlreadyHeld });
        }
        self.writer.core.claim(segment, at, name).then_some(Stored::New)
    }
}

/// The names of the blocks up to the first without one.
fn names(blocks: &[Block]) -> impl Iterator<Item = BlockName> {
    blocks.iter().map_while(|block| block.name)
}

fn common(contents: &[AtomicU64], blocks: &[Block]) -> usize {
    let pairs = contents.iter().zip(blocks);
    pairs.take_while(|(content, block)| content.load(Ordering::Relaxed) == block.content.0).count()
}
