//! What one worker keeps for itself: its digests, its roll of segments, its naming.

use super::core::Core;
use super::naming::Naming;
use super::roll::Roll;
use crate::raw::holders::{Entry, Slot};
use crate::raw::place::Place;
use crate::raw::segments::Locked;
use crate::sync::atomic::Ordering;
use crate::{BlockName, ContentHash, Digest, View};

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) id: u32,
    /// One for each view.
    pub(crate) digests: Vec<Digest>,
    pub(crate) naming: Naming,
    pub(crate) roll: Roll,
    /// Bytes of this that the index was told of.
    reported_bytes: usize,
}

/// A worker's state beside what it shares.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) core: &'a Core,
    pub(crate) state: &'a mut State,
}

impl State {
    pub(crate) fn new(core: &Core, id: u32) -> Self {
        Self { id, digests: vec![Digest::default()], naming: Naming::new(core.secret), roll: Roll::default(), reported_bytes: 0 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most VIEWS_MAX")]
    pub(crate) fn views(&self) -> u8 {
        self.digests.len() as u8
    }

    pub(crate) fn slot(&self, view: View) -> Slot {
        Slot::new(self.id, view.0)
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = (u32, Slot)> + use<> {
        let id = self.id;
        (0..self.views()).map(move |view| (1 << view, Slot::new(id, view)))
    }

    /// Names held in all views, an estimate of the worker's size.
    pub(crate) fn held(&self) -> u64 {
        self.digests.iter().map(|digest| digest.count).max().unwrap_or(0)
    }

    /// The state of a worker that holds nothing.
    pub(crate) fn renewed(&self, core: &Core) -> Self {
        let digests = vec![Digest::default(); self.digests.len()];
        Self { digests, reported_bytes: self.reported_bytes, ..Self::new(core, self.id) }
    }

    /// Takes what it reported back.
    pub(crate) fn leave(&mut self, core: &Core) {
        core.worker_bytes.fetch_sub(self.reported_bytes, Ordering::Relaxed);
        self.reported_bytes = 0;
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.roll.bytes() + self.digests.capacity() * size_of::<Digest>() + self.naming.bytes()
    }
}

impl Writer<'_> {
    /// The views that cover `place`, as bits. Only this writer changes them.
    pub(crate) fn covering(&self, place: Place) -> u32 {
        let segments = &self.core.segments;
        self.state.slots().filter(|&(_, slot)| segments.mask(place.segment(), slot) & place.bit() != 0).map(|(bit, _)| bit).sum()
    }

    /// The same of a locked segment.
    pub(crate) fn covering_locked(&self, segment: &Locked<'_>, place: Place) -> u32 {
        self.state.slots().filter(|&(_, slot)| segment.mask(slot) & place.bit() != 0).map(|(bit, _)| bit).sum()
    }

    /// Where the worker holds `name`, and in which views. Some view holds it.
    pub(crate) fn resolve(&self, name: u64) -> Option<(Place, u32)> {
        let naming = &self.state.naming;
        let own = if naming.own.is_empty() { None } else { naming.own.find(naming.own.key(name)) };
        let place = match own {
            Some(place) => place,
            None if naming.private => return None,
            None => self.core.names.find(&self.core.segments, self.core.names.hash(name), name)?,
        };
        let views = naming.views(place, name, self.covering(place));
        (views != 0).then_some((place, views))
    }

    /// Makes the slot that was found in a locked segment hold `mask`.
    #[inline]
    pub(crate) fn put<'a>(&mut self, segment: &mut Locked<'a>, entry: Entry<'a>, mask: u64) {
        let before = entry.mask;
        segment.put(entry, mask);
        match (before, mask) {
            (0, 0) => {}
            (0, _) => self.state.roll.enter(segment.id),
            (_, 0) => self.state.roll.leave(segment.id),
            _ => {}
        }
    }

    /// Tells the index how many bytes the worker keeps.
    pub(crate) fn report_bytes(&mut self) {
        let bytes = self.state.bytes();
        let counter = &self.core.worker_bytes;
        counter.fetch_add(bytes.wrapping_sub(self.state.reported_bytes), Ordering::Relaxed);
        self.state.reported_bytes = bytes;
    }

    /// Notes in the digest of each of `views` that `name` is held at `offset` of the segment.
    pub(crate) fn note(&mut self, segment: &Locked<'_>, offset: usize, name: u64, views: u32, held: bool) {
        let (position, content) = position_and_content(segment, offset);
        for view in bits(views) {
            let digest = &mut self.state.digests[view];
            if held {
                digest.add(position, content, BlockName(name));
            } else {
                digest.subtract(position, content, BlockName(name));
            }
        }
    }
}

/// Where a place of a locked segment stands in its chain, and what is there.
pub(crate) fn position_and_content(segment: &Locked<'_>, offset: usize) -> (u32, ContentHash) {
    let record = segment.record();
    let content = record.contents(record.meta(), offset + 1)[offset].load(Ordering::Relaxed);
    (record.parent().1 + offset as u32, ContentHash(content))
}

/// The positions of the bits that are set.
pub(crate) fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        bit
    })
}
