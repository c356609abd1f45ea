//! How much the index holds of each worker, and who has too little.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Options;
use crate::limits::{DIVERSION_REST, SIZES_EVERY, WORKERS_MAX};

/// The workers of one fleet.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    members: BTreeMap<u32, Member>,
    level: u64,
    any_is_thin: bool,
    /// Who is to be warmed, by the last sizes.
    candidates: Vec<u32>,
    due: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    admitted: Duration,
    size: u64,
    /// What it had when it was first measured after its admission.
    base: Option<u64>,
    thin: bool,
    diverted: Option<Duration>,
}

impl Fleet {
    pub(super) fn admit(&mut self, now: Duration, worker: u32) -> bool {
        if self.members.len() >= WORKERS_MAX && !self.members.contains_key(&worker) {
            return false;
        }
        let new = Member { admitted: now, size: 0, base: None, thin: false, diverted: None };
        let known = self.members.get(&worker).copied().unwrap_or(new);
        self.members.insert(worker, Member { admitted: now, base: None, ..known });
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
        true
    }

    pub(super) fn remove(&mut self, worker: u32) {
        self.members.remove(&worker);
        self.candidates.retain(|candidate| *candidate != worker);
        if self.members.is_empty() {
            self.due = None;
        }
    }

    pub(super) fn measure(&mut self, now: Duration, blocks: impl IntoIterator<Item = (u32, u64)>, options: &Options) {
        let mut sizes: BTreeMap<u32, u64> = self.members.keys().map(|&worker| (worker, 0)).collect();
        for (worker, size) in blocks {
            _ = sizes.entry(worker).and_modify(|known| *known = size);
        }
        self.level = upper_median(sizes.values().copied().collect());
        for (worker, member) in &mut self.members {
            member.measure(now, sizes.get(worker).copied().unwrap_or(0), self.level, options);
        }
        self.choose_candidates(now, options);
        self.due = (!self.members.is_empty()).then(|| now.saturating_add(SIZES_EVERY));
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.due
    }

    pub(super) fn level(&self) -> u64 {
        self.level
    }

    pub(super) fn candidates(&self) -> &[u32] {
        &self.candidates
    }

    pub(super) fn any_is_thin(&self) -> bool {
        self.any_is_thin
    }

    pub(super) fn is_thin(&self, worker: u32) -> bool {
        self.members.get(&worker).is_some_and(|member| member.thin)
    }

    pub(super) fn is_warming(&self, now: Duration, worker: u32, options: &Options) -> bool {
        self.members.get(&worker).is_some_and(|member| member.thin || member.is_young(now, options))
    }

    /// Whether the worker may get another diversion though it has requests under way.
    pub(super) fn is_rested(&self, now: Duration, worker: u32) -> bool {
        let last = self.members.get(&worker).and_then(|member| member.diverted);
        // A diversion that lies ahead is from before the clock went back.
        last.is_none_or(|last| last > now || now.saturating_sub(last) >= DIVERSION_REST)
    }

    pub(super) fn diverted(&mut self, now: Duration, worker: u32) {
        if let Some(member) = self.members.get_mut(&worker) {
            member.diverted = Some(now);
        }
    }

    fn choose_candidates(&mut self, now: Duration, options: &Options) {
        let those = |wanted: &dyn Fn(&Member) -> bool| -> Vec<u32> {
            self.members.iter().filter(|(_, member)| wanted(member)).map(|(&worker, _)| worker).collect()
        };
        let thin = those(&|member| member.thin);
        self.any_is_thin = !thin.is_empty();
        self.candidates = if thin.is_empty() { those(&|member| member.is_young(now, options)) } else { thin };
        if !self.any_is_thin && self.candidates.len() == self.members.len() {
            self.candidates.clear();
        }
    }
}

impl Member {
    fn measure(&mut self, now: Duration, size: u64, level: u64, options: &Options) {
        self.admitted = self.admitted.min(now);
        // What shrinks below its base has lost the blocks of an earlier life.
        self.base = Some(self.base.map_or(size, |base| if size < base { 0 } else { base }));
        self.size = size;
        self.thin =
            options.thin_ratio > 0.0 && level >= options.blocks && (size == 0 || is_below(size, level, options.thin_ratio));
    }

    fn is_young(&self, now: Duration, options: &Options) -> bool {
        let gained = self.base.map_or(0, |base| self.size.saturating_sub(base));
        now.saturating_sub(self.admitted) < options.young_for && gained < options.blocks
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn is_below(size: u64, level: u64, ratio: f64) -> bool {
    (size as f64) < level as f64 * ratio
}

/// The middle one, of an even number the upper of the two; 0 of none.
fn upper_median(mut sizes: Vec<u64>) -> u64 {
    let middle = sizes.len() / 2;
    if sizes.is_empty() { 0 } else { *sizes.select_nth_unstable(middle).1 }
}
