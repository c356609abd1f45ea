//! One walk of a lookup, from segment to segment.

use super::active::Active;
use super::ahead::Ahead;
use crate::ContentHash;
use crate::chain::core::Core;
use crate::matches::Found;
use crate::raw::compare::Width;
use crate::raw::holders::Cutoffs;
use crate::raw::record::{Link, PLACES};
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
    /// The last segment that was read; none is the root.
    at: Option<Seen<'a>>,
    ahead: Ahead,
}

/// A segment as it was read.
#[derive(Clone, Copy)]
struct Seen<'a> {
    /// Through this it must still look the same when its child has been read.
    window: Window<'a>,
    /// How many of its places are the request's, at least one.
    matched: usize,
    link: Link,
    has_edge: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(core: &'a Core, request: &'a [ContentHash]) -> Self {
        Self { core, request, depth: 0, at: None, ahead: Ahead::new() }
    }

    /// Goes as far as the request, or as somebody covers all of it.
    #[inline(always)]
    pub(super) fn run(&mut self, width: impl Width, active: &mut Active, out: &mut Found) -> Result<(), Torn> {
        while self.depth < self.request.len() && self.step(width, active, out)? && !active.is_empty() {
            self.along_links(width, active)?;
        }
        Ok(())
    }

    /// Goes on to the child that begins as the request goes on. Whether there was one.
    #[inline(always)]
    fn step(&mut self, width: impl Width, active: &mut Active, out: &mut Found) -> Result<bool, Torn> {
        let content = self.request[self.depth].0;
        let (mut id, mut offset, mut linked) = (SegmentId::ROOT, 0, None);
        if let Some(at) = self.at {
            if !at.has_edge {
                return Ok(false);
            }
            (id, offset, linked) = (at.window.id, at.matched, at.link.leads(at.matched, content).then_some(at.link.child()));
        }
        let core = self.core;
        let mut candidates = core.edges.candidates(&core.segments.slabs, core.edge(id, offset, content));
        loop {
            let Some(child) = linked.take().or_else(|| candidates.next()) else {
                if candidates.is_complete() {
                    return Ok(false);
                }
                continue;
            };
            if self.read(width, child, active, out)? {
                return Ok(true);
            }
        }
    }

    /// Reads a segment and takes its holders into account, if it is the one that goes on as the request does.
    #[inline(always)]
    fn read(&mut self, width: impl Width, id: SegmentId, active: &mut Active, out: &mut Found) -> Result<bool, Torn> {
        let segments = &self.core.segments;
        let (parent, offset) = self.at.map_or((SegmentId::ROOT, 0), |at| (at.window.id, at.matched));
        loop {
            let Some(window) = segments.window(id) else { return Ok(false) };
            let rest = &self.request[self.depth..];
            // All at once what otherwise comes line by line.
            self.ahead = self.ahead.fetch(&window, rest.len());
            let record = window.record();
            let meta = record.meta();
            let link = record.link();
            self.ahead = self.ahead.follow(segments, id, meta, link, rest.len());
            let is_child = record.parent() == (parent, self.depth as u32) && meta.parent_offset == offset;
            let matched = width.common_prefix(record.contents(meta, meta.len), rest);
            if !is_child || matched == 0 {
                if window.holds() {
                    return Ok(false);
                }
                continue;
            }
            let has_edge = record.edges() >> (matched - 1) & 1 == 1;
            let fits = active.count(width, Cutoffs::of(segments, record, meta), self.depth as u32, matched, out);
            // What was counted cannot be taken back piece by piece: the walk begins again. If the parent is what it was, then
            // this is its child and no other's.
            if !fits || !window.holds() || !self.at.is_none_or(|at| at.window.holds()) {
                return Err(Torn);
            }
            self.depth += matched;
            self.at = Some(Seen { window, matched, link, has_edge });
            return Ok(true);
        }
    }

    /// Goes on as long as links lead to the request's next segment and everybody goes on too, which is all there is of most
    /// long chains. What is another way is left to [`step`](Self::step), and nothing is taken into account before.
    #[inline(always)]
    fn along_links(&mut self, width: impl Width, active: &Active) -> Result<(), Torn> {
        let Some(mut at) = self.at else { return Ok(()) };
        let segments = &self.core.segments;
        let mut depth = self.depth;
        while let Some(content) = self.request.get(depth)
            && at.link.leads(at.matched, content.0)
            && let Some(window) = segments.window(at.link.child())
        {
            Ahead::request(self.request, depth + 2 * PLACES);
            let rest = &self.request[depth..];
            let record = window.record();
            let meta = record.meta();
            let link = record.link();
            self.ahead = self.ahead.follow(segments, window.id, meta, link, rest.len());
            let is_child = record.parent() == (at.window.id, depth as u32) && meta.parent_offset == at.matched;
            if !is_child || !active.all_go_on(width, record, meta, rest.len()) {
                break;
            }
            let matched = width.common_prefix(record.contents(meta, meta.len), rest);
            if matched == 0 {
                break;
            }
            let has_edge = record.edges() >> (matched - 1) & 1 == 1;
            if !window.holds() || !at.window.holds() {
                return Err(Torn);
            }
            depth += matched;
            at = Seen { window, matched, link, has_edge };
        }
        (self.depth, self.at) = (depth, Some(at));
        Ok(())
    }
}
