//! How well decisions went, added up for `/metrics`.

use std::collections::BTreeMap;

use kv_routing::select::Fallback;
use kv_routing::{Branch, Choice, Request, Tally};
use parking_lot::Mutex;

/// What was decided so far.
#[derive(Debug, Default)]
pub(crate) struct Scores(Mutex<Scored>);

/// The library's counters, and the branches in the gateway's words, which tell warm-up from sessions.
#[derive(Clone, Debug)]
pub(crate) struct Scored {
    pub(crate) tally: Tally,
    pub(crate) branches: BTreeMap<&'static str, u64>,
}

impl Scores {
    pub(super) fn count(&self, request: Request, choice: &Choice, branch: &'static str) {
        let mut scored = self.0.lock();
        scored.tally.count(request, choice);
        *scored.branches.entry(branch).or_default() += 1;
    }

    pub(crate) fn get(&self) -> Scored {
        self.0.lock().clone()
    }
}

impl Default for Scored {
    fn default() -> Self {
        Self { tally: Tally::default(), branches: BRANCHES.into_iter().map(|branch| (branch, 0)).collect() }
    }
}

/// The library's branches in words.
pub(super) const fn word(branch: Branch) -> &'static str {
    match branch {
        Branch::Hit => "hit",
        Branch::Miss => "miss",
        Branch::Spill => "spill",
        Branch::MemoryShort => "memory_short",
        Branch::Home => SESSION,
        Branch::Load => "load",
        Branch::Fallback(Fallback::Overloaded) => "overloaded",
        Branch::Fallback(Fallback::Vetoed) => "vetoed",
    }
}

pub(super) const SESSION: &str = "session";
pub(super) const SLICE: &str = "warmup_slice";
pub(super) const DIVERT: &str = "warmup_divert";

const BRANCHES: [&str; 10] = ["hit", "miss", "spill", "memory_short", SESSION, "load", "overloaded", "vetoed", SLICE, DIVERT];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_branch_is_told_from_the_start() {
        let branches = [Branch::Hit, Branch::Miss, Branch::Spill, Branch::MemoryShort, Branch::Home, Branch::Load];
        let fallbacks = [Fallback::Overloaded, Fallback::Vetoed].map(Branch::Fallback);
        assert!(branches.into_iter().chain(fallbacks).all(|branch| Scores::default().get().branches.contains_key(word(branch))));
        assert_eq!(Scores::default().get().branches.len(), 10);
    }
}
