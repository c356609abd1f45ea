//! How well decisions went, added up.

use serde::{Deserialize, Serialize};

use crate::cost::number;
use crate::select::Fallback;
use crate::{Branch, Choice, Request};

/// Counters over decisions. Shares are of sums: a mean of shares would let short prompts count like long ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Decisions.
    pub decisions: u64,
    /// Those that went to somebody with as much of the prompt as anyone within reach.
    pub best_reached: u64,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Of those, what the chosen ones will reuse.
    pub overlap_tokens: u64,
    /// What the best ones within reach would have reused.
    pub best_overlap_tokens: u64,
    /// Seconds that choices cost more than the cheapest ones.
    pub regret_s: f64,
    /// Decisions by what decided.
    pub branches: Branches,
}

/// Decisions by [`Branch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branches {
    /// [`Branch::Hit`].
    pub hit: u64,
    /// [`Branch::Miss`].
    pub miss: u64,
    /// [`Branch::Spill`].
    pub spill: u64,
    /// [`Branch::MemoryShort`].
    pub memory_short: u64,
    /// [`Branch::Home`].
    pub home: u64,
    /// [`Branch::Load`].
    pub load: u64,
    /// [`Fallback::Overloaded`].
    pub overloaded: u64,
    /// [`Fallback::Vetoed`].
    pub vetoed: u64,
}

impl Tally {
    /// Adds a decision.
    pub fn count(&mut self, request: Request, choice: &Choice) {
        self.decisions += 1;
        self.best_reached += u64::from(choice.overlap_tokens >= choice.best_overlap_tokens);
        self.prompt_tokens = self.prompt_tokens.saturating_add(request.prompt_tokens);
        self.overlap_tokens = self.overlap_tokens.saturating_add(choice.overlap_tokens);
        self.best_overlap_tokens = self.best_overlap_tokens.saturating_add(choice.best_overlap_tokens);
        self.regret_s += choice.regret_s;
        *self.branches.of(choice.branch) += 1;
    }

    /// What part of the prompts was expected to be reused, 0 to 1.
    pub fn hit_rate(&self) -> f64 {
        share(self.overlap_tokens, self.prompt_tokens)
    }

    /// What part of the best reachable reuse was chosen, 0 to 1.
    pub fn reach(&self) -> f64 {
        share(self.overlap_tokens, self.best_overlap_tokens)
    }
}

impl Branches {
    fn of(&mut self, branch: Branch) -> &mut u64 {
        match branch {
            Branch::Hit => &mut self.hit,
            Branch::Miss => &mut self.miss,
            Branch::Spill => &mut self.spill,
            Branch::MemoryShort => &mut self.memory_short,
            Branch::Home => &mut self.home,
            Branch::Load => &mut self.load,
            Branch::Fallback(Fallback::Overloaded) => &mut self.overloaded,
            Branch::Fallback(Fallback::Vetoed) => &mut self.vetoed,
        }
    }
}

/// All of nothing is 1.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { number(part) / number(whole) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Candidate, Load, Overlap, Policy, Router};

    // D42 of the complaints.
    #[test]
    fn shares_are_of_sums() {
        let mut tally = Tally::default();
        let mut count = |prompt_tokens, overlaps: [u64; 2], in_flight| {
            let load = Load { in_flight, ..Load::default() };
            let [holder, other] = overlaps.map(|tokens| Candidate { overlap: Overlap::device(tokens), ..Candidate::default() });
            let request = Request { prompt_tokens, home: None };
            let router = Router::new(Policy::CacheAware);
            let choice = router.decide(request, &[Candidate { load, ..holder }, other], 1).unwrap().choice;
            tally.count(request, &choice);
        };
        count(100, [100, 0], 0);
        count(9_900, [0, 0], 0);
        count(1_000, [500, 0], 1_000);
        assert_eq!((tally.decisions, tally.best_reached), (3, 2));
        assert!((tally.hit_rate() - 100.0 / 11_000.0).abs() < 1e-12 && (tally.reach() - 100.0 / 600.0).abs() < 1e-12);
        assert_eq!((tally.branches.hit, tally.branches.miss, tally.branches.spill), (1, 1, 1));
        assert!(tally.regret_s.abs() < 1e-12, "the load decided all of them");
    }
}
