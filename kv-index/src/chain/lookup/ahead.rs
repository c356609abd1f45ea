//! Fetching what a walk reads next.

use crate::ContentHash;
use crate::raw::prefetch;
use crate::raw::record::{HOLDER_LINES_MAX, Link, Meta, PLACES};
use crate::raw::segments::{SegmentId, Segments};
use crate::raw::slabs::LINE_WORDS;

/// How many segments ahead of the one that is read. A segment takes less time to read than memory takes to answer, and its
/// link leads only one ahead. But segments that one store made have numbers in a row, so a link to the next number tells where
/// those after it probably are. A wrong guess costs some fetches in vain.
const AHEAD: u32 = 4;

/// Up to which segment everything was fetched.
#[derive(Debug)]
pub(super) struct Ahead {
    last: u32,
}

impl Ahead {
    pub(super) fn new() -> Self {
        Self { last: SegmentId::ROOT.0 }
    }

    /// Fetches `places` of the request from `depth` on: a long one has not been read lately when it is as long as the nearest
    /// caches.
    #[inline]
    pub(super) fn request(request: &[ContentHash], depth: usize, places: usize) {
        // Eight lines at a time; what is fetched behind the end may be somebody's.
        for start in (depth..request.len().min(depth + places)).step_by(PLACES) {
            prefetch::lines(request.as_ptr().wrapping_add(start).cast(), PLACES / LINE_WORDS);
        }
    }

    /// Fetches a segment that will be read at once, and has `places` places of the request at most.
    #[inline]
    pub(super) fn fetch(&mut self, segments: &Segments, id: SegmentId, places: usize) {
        if id.0 != self.last {
            segments.prefetch_record(id, HOLDER_LINES_MAX, places);
            self.last = id.0;
        }
    }

    /// Fetches what follows `id`, where so many places of the request are left. Its holders are likely to take as much room.
    #[inline]
    pub(super) fn follow(&mut self, segments: &Segments, id: SegmentId, meta: Meta, link: Link, places: usize) {
        let Some(left) = places.checked_sub(link.offset).filter(|&left| left > 0 && link.child != SegmentId::ROOT) else {
            return;
        };
        if link.child.0 != id.0.wrapping_add(1) {
            return self.fetch(segments, link.child, left);
        }
        let end = id.0.wrapping_add(AHEAD.min(left.div_ceil(PLACES) as u32));
        // Those up to `last` are on their way, if it is of this row.
        let mut next = if self.last.wrapping_sub(id.0) <= AHEAD { self.last.max(id.0) } else { id.0 };
        while next < end {
            next += 1;
            segments.prefetch_record(SegmentId(next), meta.holder_lines, left);
            self.last = next;
        }
    }
}
