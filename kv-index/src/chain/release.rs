//! What happens to places, segments and claims when somebody lets go of them.

use super::core::Core;
use crate::raw::holders::prefix;
use crate::raw::place::Place;
use crate::raw::record::PLACES;
use crate::raw::segments::{Locked, SegmentId};
use crate::sync::atomic::Ordering;

impl Core {
    /// Ends what nobody needs any more after somebody let go of the places `gone` of the segment, and unlocks it.
    pub(crate) fn release<'a>(&'a self, mut segment: Locked<'a>, gone: u64) {
        let dead = gone & !segment.held_of(gone, |_| true);
        let claimed = segment.record().claimed();
        let claims = gone & claimed;
        if claims != 0 {
            let stood_for = if self.private.any() { segment.held_of(claims, |slot| !self.private.contains(slot)) } else { !dead };
            self.release_claims(&segment, claims & !stood_for);
        }
        let len = segment.record().meta().len;
        if dead >> (len - 1) & 1 == 1 {
            Self::truncate(&mut segment);
            self.bury(segment);
        }
    }

    /// Takes claims back.
    pub(crate) fn release_claims(&self, segment: &Locked<'_>, claims: u64) {
        if claims == 0 {
            return;
        }
        let record = segment.record();
        let names = record.names(record.meta(), record.meta().len);
        let mut hashes = [0; PLACES];
        for offset in bits(claims) {
            hashes[offset] = self.names.hash(names[offset].load(Ordering::Relaxed));
            self.names.prefetch::<1>(hashes[offset]);
        }
        for offset in bits(claims) {
            self.names.release(hashes[offset], Place::new(segment.id, offset));
        }
        record.set_claimed(record.claimed() & !claims);
    }

    /// Cuts off the places at the end that nobody holds and no child follows.
    fn truncate(segment: &mut Locked<'_>) {
        let record = segment.record();
        let mut meta = record.meta();
        let needed = segment.held_of(prefix(meta.len), |_| true) | record.edges();
        let len = 64 - needed.leading_zeros() as usize;
        if len < meta.len {
            meta.len = len;
            record.set_meta(meta);
            segment.bump();
        }
    }

    /// If the segment has no place left, takes it out of the chain, and so on upwards. A chain of a million blocks is 15,625
    /// steps at most.
    fn bury<'a>(&'a self, mut segment: Locked<'a>) {
        while segment.record().meta().len == 0 {
            let record = segment.record();
            let (parent, offset) = (record.parent().0, record.meta().parent_offset);
            let content = record.contents(record.meta(), 1)[0].load(Ordering::Relaxed);
            if parent == SegmentId::ROOT {
                self.edges.lock(&self.segments.slabs, self.edge(parent, 0, content)).remove(segment.id);
                return Self::end(segment);
            }
            let mut above = self.segments.lock(parent).expect("a segment outlives its children");
            self.detach(&above, offset, content, segment.id);
            Self::end(segment);
            let len = above.record().meta().len;
            if offset == len {
                Self::truncate(&mut above);
            }
            segment = above;
        }
    }

    fn end(mut segment: Locked<'_>) {
        segment.free_extension();
        segment.destroy();
    }
}

/// The positions of the bits that are set.
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        bit
    })
}
