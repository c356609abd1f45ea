//! Removing: names that stand side by side go together.

use super::names_ahead::BURST;
use super::naming::Naming;
use super::own::Key;
use super::state::Writer;
use crate::raw::holders::{Slot, prefix};
use crate::raw::place::Place;
use crate::raw::record::PLACES;
use crate::raw::segments::{Locked, SegmentId};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::{BlockName, ContentHash, Digest, Removed, View};

impl Writer<'_> {
    /// Takes `names` out of `view`. `out` gets one entry for each.
    pub(crate) fn remove(&mut self, view: View, names: &[BlockName], out: &mut Vec<Removed>) {
        let slot = self.state.slot(view);
        let mut guess = None;
        let mut fetched = 0;
        while let Some(&name) = names.get(out.len()) {
            let rest = &names[out.len()..];
            // Names that came one by one so far lie apart: a dozen cache misses each, which can be had side by side.
            if guess.is_none() && out.len() >= fetched && fetched > 0 && !self.state.naming.private {
                self.fetch(slot, &rest[..rest.len().min(BURST)]);
                fetched += BURST;
            }
            let taken = match &self.state.naming {
                naming if !naming.private => self.remove_run(slot, rest, &mut guess),
                _ if self.state.views() == 1 => self.remove_own(slot, rest),
                _ => None,
            };
            match taken {
                Some(0) => out.push(Removed::Unknown),
                Some(taken) => {
                    fetched = if taken == 1 { fetched.max(out.len() + 1) } else { 0 };
                    out.resize(out.len() + taken, Removed::Removed);
                }
                None => out.push(self.remove_one(1 << view.0, name)),
            }
        }
    }

    /// Fetches what the removal of these names will look at.
    fn fetch(&self, slot: Slot, names: &[BlockName]) {
        // Nothing that a model checker sees.
        if cfg!(any(kv_loom, kv_shuttle)) {
            return;
        }
        let core = self.core;
        let mut hashes = [0; BURST];
        for (hash, name) in hashes.iter_mut().zip(names) {
            *hash = core.names.hash(name.0);
            core.names.prefetch::<1>(*hash);
        }
        let mut places = [None; BURST];
        for (place, hash) in places.iter_mut().zip(&hashes[..names.len()]) {
            *place = core.names.likely(*hash);
            place.iter().for_each(|place| core.segments.prefetch_descriptor(place.segment()));
        }
        let each = || places.iter().flatten();
        each().for_each(|place| core.segments.prefetch_header(place.segment()));
        each().for_each(|&place| core.segments.prefetch_place(place, slot));
        each().for_each(|place| core.segments.prefetch_mask(place.segment(), slot));
    }

    /// Removes the first of `names`, of a private worker with one view, and those after it that stand in the same segment.
    /// How many; none at all if that takes a closer look.
    fn remove_own(&mut self, slot: Slot, names: &[BlockName]) -> Option<usize> {
        let (core, state) = (self.core, &mut *self.state);
        let mut keys = [Key::of_word(0); PLACES];
        for (key, name) in keys.iter_mut().zip(names) {
            *key = state.naming.own.key(name.0);
            state.naming.own.prefetch(*key);
        }
        let Some(first) = state.naming.own.find(keys[0]) else { return Some(0) };
        let mut segment = core.segments.lock(first.segment()).expect("a worker's places stay");
        let entry = segment.entry(slot);
        let record = segment.record();
        let contents = record.contents(record.meta(), record.meta().len);
        let position = record.parent().1;
        let (mut gone, mut count, mut digest) = (0, 0, state.digests[0]);
        let Naming { own, special, .. } = &mut state.naming;
        let is_plain = |place: Place| place.segment() == first.segment() && !special.contains_key(&place);
        for (&key, &name) in keys.iter().zip(names) {
            let Some(place) = own.remove_if(key, is_plain) else { break };
            let content = ContentHash(contents[place.offset()].load(Ordering::Relaxed));
            digest.subtract(position + place.offset() as u32, content, name);
            gone |= place.bit();
            count += 1;
        }
        state.digests[0] = digest;
        if count == 0 {
            return None;
        }
        self.put(&mut segment, entry, entry.mask & !gone);
        core.release(segment, gone);
        Some(count)
    }

    /// Removes the first of `names`, of an agreeing worker, and those after it that stand beside it in the segment. How many;
    /// `None` if that takes a closer look. `guess` is where the first may be, and then where the next may be.
    fn remove_run(&mut self, slot: Slot, names: &[BlockName], guess: &mut Option<Place>) -> Option<usize> {
        let segments = &self.core.segments;
        let BlockName(first) = names[0];
        let guessed = guess.take().filter(|&place| segments.name_at(place) == Some(first));
        let found = guessed.or_else(|| self.core.names.find(segments, self.core.names.hash(first), first));
        if !self.state.naming.is_plain(found.unwrap_or_default(), first) {
            return None;
        }
        let Some(place) = found else { return Some(0) };
        if names.len() > 1 {
            segments.prefetch_whole(place.segment());
        }
        let Some(mut segment) = segments.lock(place.segment()) else { return Some(0) };
        let (parent, _) = segment.record().parent();
        if parent != SegmentId::ROOT && names.len() > place.offset() + 1 {
            // Tail first, the rest is likely to stand there. It comes while this segment is looked at.
            segments.prefetch_whole(parent);
        }
        let entry = segment.entry(slot);
        let mask = entry.mask;
        // Of what this worker holds, nobody else takes the name away; if it holds nothing here, anything may have happened.
        if mask & place.bit() == 0 || name_of(&segment, place.offset()) != Some(first) {
            return Some(0);
        }
        let run = run(&segment, place.offset(), mask, names, &self.state.naming);
        let gone = run.bits();
        if run.len == segment.record().meta().len {
            self.fetch_grave(&segment, &names[run.len..]);
        }
        subtract(&segment, &run, &mut self.state.digests[usize::from(slot.view())]);
        *guess = beside(&segment, run.last());
        self.put(&mut segment, entry, mask & !gone);
        self.core.release(segment, gone);
        Some(run.len)
    }

    /// If nobody else holds anything of the segment, fetches what has to be touched for its end, and for that of the next one: `names`
    /// are those that go next.
    fn fetch_grave(&self, segment: &Locked<'_>, names: &[BlockName]) {
        let record = segment.record();
        let (meta, (parent, _)) = (record.meta(), record.parent());
        if meta.holders != 1 {
            return;
        }
        names.iter().take(BURST).for_each(|&name| _ = self.fetch_name::<1>(name));
        if record.edges() == 0 && parent != SegmentId::ROOT {
            let content = record.contents(meta, 1)[0].load(Ordering::Relaxed);
            self.core.prefetch_edge(Place::new(parent, meta.parent_offset - 1), content);
            self.core.segments.prefetch_header(parent);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        for id in self.state.roll.segments() {
            self.forget_in(id);
        }
        if self.state.naming.private {
            self.core.private.remove(self.state.id);
        }
        *self.state = self.state.renewed(self.core);
    }

    /// Lets go of everything in a segment, past the roll, which goes with the state.
    fn forget_in(&mut self, id: SegmentId) {
        let Some(mut segment) = self.core.segments.lock(id) else { return };
        let mut gone = 0;
        for view in 0..self.state.views() {
            let slot = Slot::new(self.state.id, view);
            gone |= segment.mask(slot);
            segment.set_mask(slot, 0);
        }
        if gone != 0 {
            self.core.release(segment, gone);
        }
    }
}

/// The name that is claimed at a place of a locked segment.
fn name_of(segment: &Locked<'_>, at: usize) -> Option<u64> {
    let record = segment.record();
    let names = record.names(record.meta(), at + 1);
    names.last().filter(|_| record.claimed() >> at & 1 == 1).map(|word| word.load(Ordering::Relaxed))
}

/// Some places in a row, whose names came one after the other in either direction.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: usize,
    len: usize,
    descends: bool,
}

impl Run {
    fn bits(self) -> u64 {
        prefix(self.len) << self.start
    }

    /// The place of the last name.
    fn last(self) -> usize {
        if self.descends { self.start } else { self.start + self.len - 1 }
    }
}

/// The places, from `at` on, whose names come one after the other in `names`, and which are in `mask`.
fn run(segment: &Locked<'_>, at: usize, mask: u64, names: &[BlockName], naming: &Naming) -> Run {
    let record = segment.record();
    let meta = record.meta();
    let words = record.names(meta, meta.len);
    let free = mask & record.claimed() & prefix(words.len());
    let same = |(word, name): &(&AtomicU64, &BlockName)| word.load(Ordering::Relaxed) == name.0;
    let is_plain = |at: usize, nth: usize| naming.is_plain(Place::new(segment.id, at), names[nth].0);
    // Engines evict a chain from its tail; some drop a node from its head.
    let below = (free << (63 - at)).leading_ones() as usize;
    let mut descending = words[at + 1 - below.max(1)..at].iter().rev().zip(&names[1..]).take_while(same).count();
    if !naming.own.is_empty() {
        descending = (1..=descending).take_while(|&nth| is_plain(at - nth, nth)).count();
    }
    if descending > 0 {
        return Run { start: at - descending, len: descending + 1, descends: true };
    }
    let above = (free >> at).trailing_ones() as usize;
    let mut ascending = words[at..][..above.max(1)].iter().zip(names).skip(1).take_while(same).count();
    if !naming.own.is_empty() {
        ascending = (1..=ascending).take_while(|&nth| is_plain(at + nth, nth)).count();
    }
    Run { start: at, len: ascending + 1, descends: false }
}

/// Where the chain goes on beyond the last place of a run: above the segment, or below it.
fn beside(segment: &Locked<'_>, last: usize) -> Option<Place> {
    let record = segment.record();
    let meta = record.meta();
    let (parent, _) = record.parent();
    if last == 0 {
        return (parent != SegmentId::ROOT).then(|| Place::new(parent, meta.parent_offset - 1));
    }
    let link = record.link();
    (last + 1 == link.offset() && link.is_some()).then(|| Place::new(link.child(), 0))
}

fn subtract(segment: &Locked<'_>, run: &Run, digest: &mut Digest) {
    let record = segment.record();
    let meta = record.meta();
    let range = run.start..run.start + run.len;
    let (contents, names) = (&record.contents(meta, meta.len)[range.clone()], &record.names(meta, meta.len)[range]);
    let position = record.parent().1 + run.start as u32;
    // In registers: the compiler cannot know that the words are not the digest's.
    let mut sums = *digest;
    for (position, (content, name)) in (position..).zip(contents.iter().zip(names)) {
        sums.subtract(position, ContentHash(content.load(Ordering::Relaxed)), BlockName(name.load(Ordering::Relaxed)));
    }
    *digest = sums;
}
