//! Looking a request up without a lock: segment by segment, each through a window.
//!
//! A lookup goes down the request's path. At each segment, who covers all that was compared goes on, and the others are
//! done. If the window did not hold, the walk begins again; also if a parent changed while its child was read, for the child may
//! have been another parent's. Every time around means that a writer has finished a change of structure, so some thread
//! always gets on.

#![expect(clippy::inline_always, reason = "work is compiled for a width only where it is inlined: see `compare::Work`")]

mod active;
mod ahead;
mod walk;

use super::core::Core;
use crate::matches::Found;
use crate::raw::compare::{Width, Work, common_prefix, widest};
use crate::raw::holders::{Holders, Slot, prefix};
use crate::raw::segments::{SegmentId, Window};
use crate::sync::atomic::{Ordering, fence};
use crate::{ContentHash, Runs};
pub(crate) use active::Active;
use ahead::Ahead;
use walk::{Torn, Walk};

/// A lookup.
struct Find<'a> {
    core: &'a Core,
    request: &'a [ContentHash],
    active: &'a mut Active,
    out: &'a mut Found,
}

impl Work for Find<'_> {
    /// How often it had to look again.
    type Output = u32;

    #[inline(always)]
    fn with(self, width: impl Width) -> u32 {
        let mut retries = 0;
        while self.core.walk(width, self.request, self.active, self.out).is_err() {
            retries += 1;
        }
        retries
    }
}

impl Core {
    /// Finds out who covers how much of `request`. How often it had to look again.
    pub(crate) fn find(&self, request: &[ContentHash], active: &mut Active, out: &mut Found) -> u32 {
        Ahead::begin(request);
        widest(Find { core: self, request, active, out })
    }

    /// One walk.
    #[inline(always)]
    fn walk(&self, width: impl Width, request: &[ContentHash], active: &mut Active, out: &mut Found) -> Result<(), Torn> {
        out.clear();
        // Acquire: whoever sees that a number has changed hands sees nothing of its former owner.
        let epoch = self.epoch.load(Ordering::Acquire);
        active.begin(self.workers.load(Ordering::Relaxed));
        let mut walk = Walk::new(self, request);
        walk.run(width, active, out)?;
        active.finish(walk.depth as u32, out);
        // A worker's number that was given to another worker meanwhile would mix the two. Acquire fence: if a load before it saw a
        // word of the other worker, then the load below sees that the number has changed hands.
        fence(Ordering::Acquire);
        if self.epoch.load(Ordering::Relaxed) == epoch { Ok(()) } else { Err(Torn) }
    }

    /// Calls `visit` with the first position and the mask of what `slot` holds of each segment along `request`, and with how
    /// many places are the request's, until it says no.
    pub(crate) fn along(
        &self,
        slot: Slot,
        request: &[ContentHash],
        mut visit: impl FnMut(u32, u64, usize) -> bool,
    ) -> Option<()> {
        // Acquire, and the fence at the end: as in `walk`.
        let epoch = self.epoch.load(Ordering::Acquire);
        let (mut parent, mut offset, mut depth) = (None::<Window<'_>>, 0, 0);
        while depth < request.len() {
            let rest = &request[depth..];
            let id = parent.map_or(SegmentId::ROOT, |window| window.id);
            let hash = self.edge(id, offset, rest[0].0);
            let linked = parent.map(|window| window.record().link()).filter(|link| link.offset() == offset);
            let found = linked.and_then(|link| self.peek(link.child(), id, offset, slot, rest));
            let found =
                found.or_else(|| self.edges.find(&self.segments.slabs, hash, |child| self.peek(child, id, offset, slot, rest)));
            if parent.is_some_and(|window: Window<'_>| !window.holds()) {
                return None;
            }
            let Some((window, mask, matched)) = found else { break };
            if !visit(depth as u32, mask, matched) {
                break;
            }
            (parent, offset, depth) = (Some(window), matched, depth + matched);
        }
        fence(Ordering::Acquire);
        (self.epoch.load(Ordering::Relaxed) == epoch).then_some(())
    }

    /// What `slot` holds of the segment that follows `offset` places of `parent`, if it is the one.
    fn peek(
        &self,
        id: SegmentId,
        parent: SegmentId,
        offset: usize,
        slot: Slot,
        request: &[ContentHash],
    ) -> Option<(Window<'_>, u64, usize)> {
        loop {
            let window = self.segments.window(id)?;
            let record = window.record();
            let meta = record.meta();
            let is_child = record.is_child(parent, offset, request[0].0);
            let matched = common_prefix(record.contents(meta, meta.len), request);
            let holders = Holders::of(&self.segments, record, meta);
            let mask = holders.find(slot).map_or(0, |held| holders.mask(held));
            if window.holds() {
                return (is_child && matched > 0).then_some((window, mask, matched));
            }
        }
    }

    /// How many of the request's first places `slot` covers.
    pub(crate) fn depth(&self, slot: Slot, request: &[ContentHash]) -> u32 {
        loop {
            let mut depth = 0;
            let whole = self.along(slot, request, |start, mask, matched| {
                let covered = (mask.trailing_ones() as usize).min(matched);
                depth = start + covered as u32;
                covered == matched
            });
            if whole.is_some() {
                return depth;
            }
        }
    }

    /// The positions of the request that `slot` covers.
    pub(crate) fn coverage(&self, slot: Slot, request: &[ContentHash], out: &mut Runs) {
        loop {
            out.clear();
            let whole = self.along(slot, request, |start, mask, matched| {
                push_runs(start, mask & prefix(matched), out);
                true
            });
            if whole.is_some() {
                return;
            }
        }
    }
}

/// Adds the runs of ones in `mask`.
fn push_runs(start: u32, mut mask: u64, out: &mut Runs) {
    let mut position = start;
    while mask != 0 {
        let gap = mask.trailing_zeros();
        let run = (mask >> gap).trailing_ones();
        out.push(position + gap, position + gap + run);
        position += gap + run;
        mask = mask.checked_shr(gap + run).unwrap_or(0);
    }
}
