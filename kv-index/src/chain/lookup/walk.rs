//! One walk of a lookup, from segment to segment.

use super::active::Active;
use super::ahead::Ahead;
use crate::ContentHash;
use crate::chain::core::Core;
use crate::matches::Found;
use crate::raw::compare::common_prefix;
use crate::raw::holders::Holders;
use crate::raw::record::Link;
use crate::raw::segments::{SegmentId, Window};

/// What was read does not fit together: a writer changed it meanwhile.
#[derive(Debug)]
pub(super) struct Torn;

/// A walk along a request.
pub(super) struct Walk<'a> {
    core: &'a Core,
    request: &'a [ContentHash],
    /// Places of the request that were found.
    pub(super) depth: usize,
    /// The last segment that was read, and how many of its places are the request's; the root before that.
    segment: SegmentId,
    offset: usize,
    /// The segment's window, through which it must still look the same when its child has been read.
    window: Option<Window<'a>>,
    link: Link,
    has_edge: bool,
    ahead: Ahead,
}

impl<'a> Walk<'a> {
    pub(super) fn new(core: &'a Core, request: &'a [ContentHash]) -> Self {
        let (segment, link) = (SegmentId::ROOT, Link::default());
        Self { core, request, depth: 0, segment, offset: 0, window: None, link, has_edge: true, ahead: Ahead::new() }
    }

    #[inline]
    pub(super) fn goes_on(&self) -> bool {
        self.has_edge && self.depth < self.request.len()
    }

    /// Goes on to the child that begins as the request goes on. Whether there was one.
    #[inline]
    pub(super) fn step(&mut self, active: &mut Active, out: &mut Found) -> Result<bool, Torn> {
        let content = self.request[self.depth].0;
        let linked =
            self.link.offset == self.offset && self.link.tag == Link::tag_of(content) && self.link.child != SegmentId::ROOT;
        if linked && self.read(self.link.child, active, out)? {
            return Ok(true);
        }
        self.step_by_table(content, active, out)
    }

    fn step_by_table(&mut self, content: u64, active: &mut Active, out: &mut Found) -> Result<bool, Torn> {
        let hash = self.core.edge(self.segment, self.offset, content);
        let core = self.core;
        let found = core.edges.find(&core.segments.slabs, hash, |child| {
            // All at once what otherwise comes line by line.
            self.ahead.fetch(&core.segments, child, self.request.len() - self.depth);
            match self.read(child, active, out) {
                Ok(false) => None,
                other => Some(other),
            }
        });
        found.unwrap_or(Ok(false))
    }

    /// Reads a segment and takes its holders into account, if it is the one that goes on as the request does.
    #[inline]
    fn read(&mut self, id: SegmentId, active: &mut Active, out: &mut Found) -> Result<bool, Torn> {
        let segments = &self.core.segments;
        loop {
            let Some(window) = segments.window(id) else { return Ok(false) };
            let record = window.record();
            let meta = record.meta();
            let link = record.link();
            let rest = &self.request[self.depth..];
            if link.child != SegmentId::ROOT && rest.len() > link.offset {
                self.ahead.follow(segments, id, link, rest.len() - link.offset);
            }
            let is_child = record.parent().0 == self.segment && meta.parent_offset == self.offset;
            let matched = common_prefix(record.contents(meta, meta.len), rest);
            if !is_child || matched == 0 {
                if window.holds() {
                    return Ok(false);
                }
                continue;
            }
            let has_edge = record.edges() >> (matched - 1) & 1 == 1;
            let fits = active.count(&Holders::of(segments, record, meta), self.depth as u32, matched, out);
            // What was counted cannot be taken back piece by piece: the walk begins again. If the parent is what it was, then
            // this is its child and no other's.
            if !fits || !window.holds() || !self.window.is_none_or(|parent| parent.holds()) {
                return Err(Torn);
            }
            self.depth += matched;
            (self.segment, self.offset, self.window, self.link, self.has_edge) = (id, matched, Some(window), link, has_edge);
            return Ok(true);
        }
    }
}
