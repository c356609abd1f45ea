//! Fetching what a walk reads next.

use crate::ContentHash;
use crate::raw::prefetch;
use crate::raw::record::{HOLDER_LINES_MAX, Link, Meta, PLACES};
use crate::raw::segments::{SegmentId, Segments, Window};
use crate::raw::slabs::LINE_WORDS;

/// How many segments ahead of the one that is read. A segment takes less time to read than memory takes to answer, and its
/// link leads only one ahead. But segments that one store made have numbers in a row, so a link to the next number tells where
/// those after it probably are. A wrong guess costs some fetches in vain.
const AHEAD: u32 = 4;

/// Up to which segment everything was fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    last: u32,
}

impl Ahead {
    pub(super) fn new() -> Self {
        Self { last: SegmentId::ROOT.0 }
    }

    /// Fetches the beginning of the request.
    #[inline]
    pub(super) fn begin(request: &[ContentHash]) {
        prefetch::lines(request.as_ptr().cast(), request.len().div_ceil(LINE_WORDS).min(3 * PLACES / LINE_WORDS));
    }

    /// Fetches what a segment has of the request from `depth` on: a long one has not been read lately when it is as long as
    /// the nearest caches.
    #[inline]
    pub(super) fn request(request: &[ContentHash], depth: usize) {
        if depth < request.len() {
            // What is fetched behind the end may be somebody's.
            prefetch::lines(request.as_ptr().wrapping_add(depth).cast(), PLACES / LINE_WORDS);
        }
    }

    /// Fetches a segment that will be read at once, and has `places` places of the request at most.
    #[inline]
    pub(super) fn fetch(self, window: &Window<'_>, places: usize) -> Self {
        if window.id.0 != self.last {
            window.prefetch(HOLDER_LINES_MAX, places);
        }
        Self { last: window.id.0 }
    }

    /// Fetches what follows `id`, where so many places of the request are left. Its holders are likely to take as much room.
    #[inline]
    pub(super) fn follow(self, segments: &Segments, id: SegmentId, meta: Meta, link: Link, places: usize) -> Self {
        // Nothing that a model checker sees.
        if link.is_some() && link.offset() < places && !cfg!(any(kv_loom, kv_shuttle)) {
            self.fetch_row(segments, id, link.child(), meta.holder_lines, places - link.offset())
        } else {
            self
        }
    }

    fn fetch_row(self, segments: &Segments, id: SegmentId, child: SegmentId, holder_lines: usize, left: usize) -> Self {
        if child.0 != id.0.wrapping_add(1) {
            return segments.window(child).map_or(self, |window| self.fetch(&window, left));
        }
        let end = id.0.wrapping_add(AHEAD.min(left.div_ceil(PLACES) as u32));
        // Those up to `last` are on their way, if it is of this row.
        let begun = if self.last.wrapping_sub(id.0) <= AHEAD { self.last.max(id.0) } else { id.0 };
        for next in begun..end {
            segments.window(SegmentId(next + 1)).into_iter().for_each(|window| window.prefetch(holder_lines, left));
        }
        Self { last: if begun < end { end } else { self.last } }
    }
}
