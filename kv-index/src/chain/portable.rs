//! What a snapshot asks of a worker: its segments one by one, and a way to store at a place.

use std::io::Write;

use super::ChainWorker;
use super::core::Core;
use super::names_ahead::NamesAhead;
use super::state::State;
use crate::raw::compare::common_prefix;
use crate::raw::place::Place;
use crate::raw::record::PLACES;
use crate::raw::segments::{Locked, SegmentId};
use crate::snapshot::{Held, Parts, STRETCH_PLACES, Section, Stretch, WriteError};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::{Block, BlockName, ContentHash, Digest, StoreError, Stored, View};

const _: () = assert!(PLACES <= STRETCH_PLACES as usize, "a segment is a stretch");

impl Parts for ChainWorker {
    type Place = Place;

    fn digest(&self, view: View) -> Digest {
        self.state.lock().digests[usize::from(view.0)]
    }

    /// With the worker's state locked: its writer waits, readers and the other workers go on. Each segment is locked while it is
    /// copied, and no lock of the index is held while `section` writes.
    fn write_stretches<W: Write>(&self, section: &mut Section<'_, W>) -> Result<(), WriteError> {
        let state = self.state.lock();
        let mut copy = Copy::new(&self.shared.core, &state);
        state.roll.segments().into_iter().try_for_each(|id| copy.write(id, section))
    }

    fn store_after(
        &mut self,
        view: View,
        parent: Option<Place>,
        blocks: &[Block],
        out: &mut Vec<Stored>,
    ) -> Result<(), StoreError> {
        out.clear();
        self.write(|writer| {
            writer.check_budget(blocks.len())?;
            let mut ahead = NamesAhead::of(writer, blocks);
            writer.store(view, parent, blocks, &mut ahead, out);
            Ok(())
        })
    }

    fn place_after(&self, parent: Option<Place>, path: &[ContentHash]) -> Option<Place> {
        self.shared.core.place_after(parent, path)
    }
}

/// One segment at a time, copied out of the index, for one worker.
struct Copy<'a> {
    core: &'a Core,
    state: &'a State,
    /// A private worker's names, in the order of their places.
    own: Vec<(Place, u64)>,
    /// What each view holds of the segment.
    masks: Vec<u64>,
    contents: Vec<ContentHash>,
    names: Vec<BlockName>,
    agreed: u64,
    held: Vec<Held>,
    /// The parent's contents.
    lead: Vec<ContentHash>,
    /// Segments on the way up to one that the section knows.
    climb: Vec<SegmentId>,
}

impl<'a> Copy<'a> {
    fn new(core: &'a Core, state: &'a State) -> Self {
        let mut own = Vec::new();
        if state.naming.private {
            own.reserve_exact(state.naming.own.len());
            own.extend(state.naming.own.iter().map(|(name, place)| (place, name)));
            own.sort_unstable();
        }
        let (masks, contents, names) = (Vec::new(), Vec::new(), Vec::new());
        let (held, lead, climb) = (Vec::new(), Vec::new(), Vec::new());
        Self { core, state, own, masks, contents, names, agreed: 0, held, lead, climb }
    }

    /// Writes a segment, if the worker holds something there, and before it those above it.
    fn write<W: Write>(&mut self, id: SegmentId, section: &mut Section<'_, W>) -> Result<(), WriteError> {
        // The roll has segments where the worker held something once. They may be gone, or another's.
        let is_held = |segment: Locked<'_>| self.state.slots().any(|(_, slot)| segment.mask(slot) != 0);
        if !self.core.segments.lock(id).is_some_and(is_held) {
            return Ok(());
        }
        let mut at = id;
        while at != SegmentId::ROOT && !section.knows(at.0.into()) {
            self.climb.push(at);
            at = self.lock(at).record().parent().0;
        }
        while let Some(next) = self.climb.pop() {
            self.write_one(next, section)?;
        }
        Ok(())
    }

    fn write_one<W: Write>(&mut self, id: SegmentId, section: &mut Section<'_, W>) -> Result<(), WriteError> {
        let segment = self.lock(id);
        let (parent, after) = (segment.record().parent().0, segment.record().meta().parent_offset);
        self.copy(&segment);
        drop(segment);
        if parent != SegmentId::ROOT {
            // The worker holds a place behind these: they stay what they are.
            let above = self.lock(parent);
            let record = above.record();
            copy_words(&mut self.lead, record.contents(record.meta(), after), ContentHash);
        }
        section.tell(&Stretch {
            id: id.0.into(),
            lead: (parent != SegmentId::ROOT).then(|| (parent.0.into(), &*self.lead)),
            contents: &self.contents,
            agreed: self.agreed,
            names: &self.names,
            held: &self.held,
        })
    }

    fn lock(&self, id: SegmentId) -> Locked<'a> {
        self.core.segments.lock(id).expect("the worker holds a place of it or behind it")
    }

    fn copy(&mut self, segment: &Locked<'_>) {
        let record = segment.record();
        let meta = record.meta();
        copy_words(&mut self.contents, record.contents(meta, meta.len), ContentHash);
        copy_words(&mut self.names, record.names(meta, meta.len), BlockName);
        self.agreed = record.claimed();
        self.masks.clear();
        self.masks.extend(self.state.slots().map(|(_, slot)| segment.mask(slot)));
        self.held.clear();
        if self.state.naming.private { self.copy_own(segment.id) } else { self.copy_agreed(segment.id) }
    }

    /// What an agreeing worker holds of a segment.
    fn copy_agreed(&mut self, id: SegmentId) {
        let held = self.masks.iter().fold(0, |all, mask| all | mask);
        for at in super::release::bits(held) {
            let (default_views, others) = self.state.naming.at(Place::new(id, at), self.covering(at));
            if default_views != 0 {
                self.held.push(Held { offset: at, name: self.names[at], views: default_views });
            }
            self.held.extend(others.iter().map(|&(name, views)| Held { offset: at, name: BlockName(name), views }));
        }
    }

    /// What a private worker holds of a segment.
    fn copy_own(&mut self, id: SegmentId) {
        let start = self.own.partition_point(|&(place, _)| place.segment() < id);
        for &(place, name) in self.own[start..].iter().take_while(|(place, _)| place.segment() == id) {
            let views = self.state.naming.views(place, name, self.covering(place.offset()));
            self.held.push(Held { offset: place.offset(), name: BlockName(name), views });
        }
    }

    /// The views that cover a place, as bits.
    fn covering(&self, at: usize) -> u32 {
        self.masks.iter().enumerate().fold(0, |views, (view, mask)| views | ((mask >> at & 1) as u32) << view)
    }
}

/// Copies words, in place of what was there before.
fn copy_words<T>(to: &mut Vec<T>, from: &[AtomicU64], word: impl Fn(u64) -> T) {
    to.clear();
    to.extend(from.iter().map(|from| word(from.load(Ordering::Relaxed))));
}

impl Core {
    /// The place at the end of `path`, behind `from` or from the root, if there is one. Somebody holds it or a place behind it, so
    /// that it stays.
    fn place_after(&self, from: Option<Place>, path: &[ContentHash]) -> Option<Place> {
        let (mut at, mut rest) = (from, path);
        while let Some(first) = rest.first() {
            let (segment, offset) = self.behind(at, first.0)?;
            let record = segment.record();
            let same = common_prefix(&record.contents(record.meta(), record.meta().len)[offset..], rest);
            at = Some(Place::new(segment.id, offset + same.checked_sub(1)?));
            rest = &rest[same..];
        }
        at
    }

    /// The segment where `content` would follow a place, or the root, and the offset there.
    fn behind(&self, at: Option<Place>, content: u64) -> Option<(Locked<'_>, usize)> {
        let Some(place) = at else { return Some((self.segments.lock(self.root_child(content)?)?, 0)) };
        let segment = self.segments.lock(place.segment())?;
        let offset = place.offset() + 1;
        let record = segment.record();
        let next = record.contents(record.meta(), record.meta().len).get(offset);
        if next.is_some_and(|next| next.load(Ordering::Relaxed) == content) {
            return Some((segment, offset));
        }
        let child = self.child(&segment, offset, content)?;
        drop(segment);
        Some((self.segments.lock(child)?, 0))
    }
}
