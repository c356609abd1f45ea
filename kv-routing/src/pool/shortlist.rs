//! Whom a decision in a pool looks at.

use kv_index::{Level, Match, Matches, Scheme, View, WorkerId};

use super::{Pool, Refine};
use crate::limits::{HOLDERS_MAX, LEVEL_HOLDERS_MAX, POOL_DRAWS_MAX, POOL_SAMPLE, POOL_SCAN_MAX, REFINED_MAX};
use crate::select::{Draw, Scratch, apart};
use crate::{Overlap, Request, Router};

/// What the index found for a request.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// Who holds how much of it.
    pub matches: &'a Matches,
    /// How it was cut into blocks.
    pub scheme: Scheme,
    /// Who is expected to hold how much of it beyond that, in blocks, without having announced it: a burst's siblings that were sent
    /// there a moment ago. The first [`HOLDERS_MAX`](crate::limits::HOLDERS_MAX) count.
    pub predicted: &'a [Match],
}

impl Pool {
    /// Fills the shortlist: all workers of a small pool; else those that hold most, and a sample.
    pub(super) fn gather(
        &self,
        router: &Router,
        request: Request,
        lookup: &Lookup<'_>,
        refine: Option<Refine<'_>>,
        seed: u64,
        scratch: &mut Scratch,
    ) {
        scratch.begin(self.members.len());
        let prompt = usize::try_from(request.prompt_tokens).unwrap_or(usize::MAX);
        let reusable = lookup.scheme.reusable_in(prompt) as u64;
        let mut gathering = Gathering { pool: self, request, lookup, reusable, scratch };
        // Whoever may be chosen only as a last resort is found by looking at all.
        let all = self.len() <= POOL_SCAN_MAX || self.eligible.is_empty() || router.gates.read_memory();
        if router.policy.looks_at_overlap() {
            gathering.predicted();
            let room = if all { usize::MAX } else { HOLDERS_MAX };
            match refine {
                Some(refine) => gathering.refined_holders(refine),
                None => gathering.holders(room, seed),
            }
        }
        gathering.home();
        if all {
            (0..self.members.len()).for_each(|row| gathering.take(row, 0, 0));
        } else if router.policy == crate::Policy::RoundRobin {
            gathering.turn(seed);
        } else {
            gathering.sample(seed);
        }
    }
}

impl Scratch {
    fn begin(&mut self, members: usize) {
        self.shortlist.clear();
        self.decision += 1;
        if self.taken.len() < members {
            self.taken.resize(members, 0);
        }
    }
}

struct Gathering<'a, 'b> {
    pool: &'a Pool,
    request: Request,
    lookup: &'a Lookup<'a>,
    /// Blocks of the prompt without the last token, which is always computed.
    reusable: u64,
    scratch: &'b mut Scratch,
}

impl Gathering<'_, '_> {
    /// Those that are expected to hold more than they announced.
    fn predicted(&mut self) {
        for expected in self.lookup.predicted.iter().take(HOLDERS_MAX) {
            if let Some(row) = self.pool.row(expected.worker) {
                let announced = self.lookup.matches.depth(expected.worker, View::MAIN);
                self.take(row as usize, announced, expected.depth);
            }
        }
    }

    /// The deepest holders, level by level, until there are `room`.
    fn holders(&mut self, room: usize, seed: u64) {
        for (level, draw) in self.lookup.matches.levels().zip(0..) {
            if self.scratch.shortlist.len() >= room {
                return;
            }
            if room == usize::MAX {
                level.holders().filter(|(_, view)| *view == View::MAIN).for_each(|(worker, _)| self.hold(worker, level.depth));
            } else {
                self.some_of(level, room, apart(seed, 16 + draw));
            }
        }
    }

    /// Up to [`LEVEL_HOLDERS_MAX`] of a level: every so many-th from a drawn start, so that each has the same chance; for one that may not
    /// be chosen, the next that may.
    fn some_of(&mut self, level: Level<'_>, room: usize, seed: u64) {
        let stride = level.len().div_ceil(LEVEL_HOLDERS_MAX).max(1);
        let mut holders = level.holders();
        let mut drawn = holders.nth(Draw::new(seed).place(stride).unwrap_or(0));
        while let Some((worker, view)) = drawn.filter(|_| self.scratch.shortlist.len() < room) {
            let takes = view == View::MAIN && self.pool.may_be_chosen(worker);
            if takes {
                self.hold(worker, level.depth);
            }
            drawn = holders.nth(if takes { stride - 1 } else { 0 });
        }
    }

    /// The deepest holders by what all of their cache groups can reuse. Nobody's is more than its main group's, so the search ends
    /// where the best is as deep as the next level.
    fn refined_holders(&mut self, refine: Refine<'_>) {
        let (mut left, mut best) = (REFINED_MAX, 0);
        for level in self.lookup.matches.levels() {
            if best >= level.depth {
                return;
            }
            for (worker, view) in level.holders() {
                if view != View::MAIN || !self.pool.may_be_chosen(worker) {
                    continue;
                }
                let Some(rest) = left.checked_sub(1) else { return };
                left = rest;
                let depth = refine(worker, level.depth).min(level.depth);
                best = best.max(depth);
                self.hold(worker, depth);
            }
        }
    }

    /// The session's worker.
    fn home(&mut self) {
        let Some(worker) = self.request.home.map(WorkerId) else { return };
        if self.pool.may_be_chosen(worker) {
            self.hold(worker, self.lookup.matches.depth(worker, View::MAIN));
        }
    }

    fn hold(&mut self, worker: WorkerId, depth: u32) {
        if let Some(row) = self.pool.row(worker) {
            self.take(row as usize, depth, 0);
        }
    }

    /// Some of the eligible, whatever they hold: nobody among them holds more than those taken before.
    fn sample(&mut self, seed: u64) {
        let mut draw = Draw::new(apart(seed, 3));
        let full = self.scratch.shortlist.len() + POOL_SAMPLE;
        for _ in 0..POOL_DRAWS_MAX {
            let Some(nth) = draw.place(self.pool.eligible.len()) else { return };
            self.take(self.pool.eligible[nth] as usize, 0, 0);
            if self.scratch.shortlist.len() >= full {
                return;
            }
        }
    }

    /// The one whose turn it is.
    fn turn(&mut self, seed: u64) {
        let nth = seed.checked_rem(self.pool.eligible.len() as u64).and_then(|nth| usize::try_from(nth).ok());
        if let Some(row) = nth.and_then(|nth| self.pool.eligible.get(nth)) {
            self.take(*row as usize, 0, 0);
        }
    }

    /// Takes a member in, once: with a depth that it announced and one that is expected of it, both in blocks.
    fn take(&mut self, row: usize, depth: u32, expected: u32) {
        if std::mem::replace(&mut self.scratch.taken[row], self.scratch.decision) == self.scratch.decision {
            return;
        }
        let member = &self.pool.members[row];
        self.scratch.shortlist.push(member.candidate);
        if depth > 0 || expected > 0 {
            let device = member.device.map_or(depth, |view| self.lookup.matches.depth(member.worker, view).min(depth));
            let overlap = self.overlap(device, depth, expected);
            self.scratch.shortlist.last_mut().expect("it was put there").overlap = overlap;
        }
    }

    /// Depths in tokens, without the last token of the prompt.
    fn overlap(&self, device: u32, depth: u32, expected: u32) -> Overlap {
        let Scheme { block_tokens, .. } = self.lookup.scheme;
        let tokens = |blocks: u32| u64::from(blocks).min(self.reusable) * u64::from(block_tokens.get());
        let (device, any) = (tokens(device), tokens(depth));
        Overlap {
            device_tokens: device,
            host_tokens: any - device,
            disk_tokens: 0,
            predicted_tokens: tokens(expected).saturating_sub(any),
        }
    }
}
