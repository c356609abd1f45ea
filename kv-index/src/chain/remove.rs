//! Removing: names that stand side by side go together.

use super::state::Writer;
use crate::raw::holders::Slot;
use crate::raw::place::Place;
use crate::raw::segments::{Locked, SegmentId};
use crate::sync::atomic::Ordering;
use crate::{BlockName, Digest, Removed, View};

impl Writer<'_> {
    /// Takes `names` out of `view`. `out` gets one entry for each.
    pub(crate) fn remove(&mut self, view: View, names: &[BlockName], out: &mut Vec<Removed>) {
        let slot = self.state.slot(view);
        let mut guess = None;
        while let Some(&name) = names.get(out.len()) {
            if self.state.naming.is_plain() {
                let taken = self.remove_run(slot, &names[out.len()..], &mut guess);
                out.resize(out.len() + taken.max(1), if taken > 0 { Removed::Removed } else { Removed::Unknown });
            } else {
                out.push(self.remove_one(1 << view.0, name));
            }
        }
    }

    /// Removes the first of `names`, of an agreeing worker, and those after it that stand beside it in the segment. How many; none
    /// if the view does not hold the first. `guess` is where the first may be, and then where the next may be.
    fn remove_run(&mut self, slot: Slot, names: &[BlockName], guess: &mut Option<Place>) -> usize {
        let segments = &self.core.segments;
        let BlockName(first) = names[0];
        let guessed = guess.take().filter(|&place| segments.name_at(place) == Some(first));
        let Some(place) = guessed.or_else(|| self.core.names.find(segments, self.core.names.hash(first), first)) else {
            return 0;
        };
        let Some(mut segment) = segments.lock(place.segment()) else { return 0 };
        let entry = segment.entry(slot);
        let mask = entry.mask;
        // Of what this worker holds, nobody else takes the name away; if it holds nothing here, anything may have happened.
        if mask & place.bit() == 0 || name_of(&segment, place.offset()) != Some(first) {
            return 0;
        }
        let (gone, count, last) = run(&segment, place.offset(), mask, names);
        subtract(&segment, gone, &mut self.state.digests[usize::from(slot.view())]);
        *guess = beside(&segment, last);
        self.put(&mut segment, entry, mask & !gone);
        self.core.release(segment, gone);
        count
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        let mut list = std::mem::take(&mut self.state.segments);
        list.sort_unstable();
        list.dedup();
        for id in list {
            self.leave(id);
        }
        if self.state.naming.private {
            self.core.private.remove(self.state.id);
        }
        *self.state = self.state.renewed(self.core);
    }

    /// Lets go of everything in a segment.
    fn leave(&mut self, id: SegmentId) {
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

/// The places, from `at` on, whose names come one after the other in `names`, in either direction, and are in `mask`: as
/// bits, how many, and the last.
fn run(segment: &Locked<'_>, mut at: usize, mask: u64, names: &[BlockName]) -> (u64, usize, usize) {
    let record = segment.record();
    let meta = record.meta();
    let words = record.names(meta, meta.len);
    let free = mask & record.claimed();
    let mut gone = 1u64 << at;
    let is = |at: usize, gone: u64, name: BlockName| {
        at < words.len() && (free & !gone) >> at & 1 == 1 && words[at].load(Ordering::Relaxed) == name.0
    };
    for (nth, &name) in names.iter().enumerate().skip(1) {
        // Engines evict a chain from its tail; some drop a node from its head.
        at = match at {
            _ if is(at.wrapping_sub(1), gone, name) => at - 1,
            _ if is(at + 1, gone, name) => at + 1,
            _ => return (gone, nth, at),
        };
        gone |= 1 << at;
    }
    (gone, names.len(), at)
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
    (last + 1 == link.offset && link.child != SegmentId::ROOT).then(|| Place::new(link.child, 0))
}

fn subtract(segment: &Locked<'_>, gone: u64, digest: &mut Digest) {
    let record = segment.record();
    let meta = record.meta();
    let (contents, names) = (record.contents(meta, meta.len), record.names(meta, meta.len));
    let position = record.parent().1;
    for at in super::release::bits(gone) {
        let content = crate::ContentHash(contents[at].load(Ordering::Relaxed));
        digest.subtract(position + at as u32, content, BlockName(names[at].load(Ordering::Relaxed)));
    }
}
