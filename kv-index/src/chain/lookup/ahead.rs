//! Fetching what a walk reads next.

use crate::raw::record::{Link, PLACES};
use crate::raw::segments::{SegmentId, Segments};

/// How many segments ahead of the one that is read. A segment takes less time to read than memory takes to answer, and its
/// link leads only one ahead. But segments that one store made have numbers in a row, so a link to the next number tells where
/// those after it probably are. A wrong guess costs some fetches in vain.
const AHEAD: u32 = 4;

/// Up to which segment everything was fetched.
#[derive(Debug)]
pub(super) struct Ahead {
    last: SegmentId,
}

impl Ahead {
    pub(super) fn new() -> Self {
        Self { last: SegmentId::ROOT }
    }

    /// Fetches a segment that will be read at once.
    #[inline]
    pub(super) fn fetch(&mut self, segments: &Segments, id: SegmentId, places: usize) {
        segments.prefetch_record(id, places);
        self.last = id;
    }

    /// Fetches what follows `id`, `places` places of the request at most.
    #[inline]
    pub(super) fn follow(&mut self, segments: &Segments, id: SegmentId, link: Link, mut places: usize) {
        if link.child.0 != id.0.wrapping_add(1) {
            return self.fetch(segments, link.child, places);
        }
        // Those up to `last` are on their way, if it is of this row.
        let known = Some(self.last.0.wrapping_sub(id.0)).filter(|&known| known <= AHEAD).unwrap_or(0);
        for step in 1..=AHEAD {
            if places == 0 {
                return;
            }
            if step > known {
                self.fetch(segments, SegmentId(id.0.wrapping_add(step)), places);
            }
            places = places.saturating_sub(PLACES);
        }
    }
}
