//! The policies: what decides among those who may be chosen.

use serde::{Deserialize, Serialize};

use crate::cost::{Ask, Costs};
use crate::router::{Branch, Choice, NoCandidate, Router};
use crate::select::{Draw, Fallback, Scratch, Standing, apart, cheapest, eligible, soften};
use crate::{Candidate, limits};

/// What decides among the workers that may be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The least loaded of those that hold most of the prompt, unless all of them are out of line: then the least loaded.
    CacheAware,
    /// The least sum of computing what is not reused, and of a price for opening a pass, waiting, scarce memory and company.
    #[default]
    Blend,
    /// The least loaded.
    LeastLoad,
    /// The less loaded of two that are drawn.
    PowerOfTwo,
    /// One after the other: the seed is the request's number.
    RoundRobin,
    /// Any.
    Random,
}

impl Policy {
    /// Whether it asks what workers hold.
    pub const fn looks_at_overlap(self) -> bool {
        matches!(self, Self::CacheAware | Self::Blend)
    }

    /// Whether it asks what workers cost.
    pub const fn looks_at_costs(self) -> bool {
        !matches!(self, Self::RoundRobin | Self::Random)
    }
}

impl Router {
    /// The decision itself, of any shortlist: the same arguments give the same answer.
    pub(crate) fn choose_among(
        &self,
        ask: &Ask,
        candidates: &[Candidate],
        own_s: &dyn Fn(usize) -> f64,
        seed: u64,
        scratch: &mut Scratch,
    ) -> Result<Choice, NoCandidate> {
        let standing = eligible(self, candidates, &mut scratch.eligible)?;
        scratch.costs.clear();
        scratch.costs.resize(candidates.len(), Costs::default());
        for &place in &scratch.eligible {
            scratch.costs[place] = self.costs(ask, &candidates[place], own_s(place));
        }
        let table = Table { router: self, ask, candidates, seed };
        let (branch, place) = match standing {
            Standing::Eligible => table.choose(scratch),
            Standing::Only(fallback @ Fallback::Overloaded) => (Branch::Fallback(fallback), table.choose(scratch).1),
            Standing::Only(fallback @ Fallback::Vetoed) => {
                (Branch::Fallback(fallback), table.fewest_in_flight(&scratch.eligible))
            }
        };
        Ok(table.choice(branch, place.ok_or(NoCandidate::EmptyPool)?, scratch))
    }
}

/// One decision's inputs.
struct Table<'a> {
    router: &'a Router,
    ask: &'a Ask,
    candidates: &'a [Candidate],
    seed: u64,
}

impl Table<'_> {
    fn choose(&self, scratch: &mut Scratch) -> (Branch, Option<usize>) {
        if let Some(home) = self.home(&scratch.eligible) {
            return (Branch::Home, Some(home));
        }
        let Scratch { eligible, members, costs, .. } = scratch;
        match self.router.policy {
            Policy::CacheAware => self.cache_aware(eligible, members, costs),
            Policy::Blend => self.blend(eligible, costs),
            Policy::LeastLoad => (Branch::Load, self.least(eligible, costs)),
            Policy::PowerOfTwo => (Branch::Load, self.less_of_two(eligible, costs)),
            Policy::RoundRobin => (Branch::Load, turn(eligible, self.seed)),
            Policy::Random => (Branch::Load, Draw::new(self.seed).place(eligible.len()).map(|nth| eligible[nth])),
        }
    }

    /// The session's worker, if it may be chosen and its queue is no outlier.
    fn home(&self, eligible: &[usize]) -> Option<usize> {
        let home = self.ask.request.home?;
        let place = eligible.iter().copied().find(|&place| self.candidates[place].worker == home)?;
        (!self.is_out_of_line(place)).then_some(place)
    }

    fn cache_aware(&self, eligible: &[usize], members: &mut Vec<usize>, costs: &[Costs]) -> (Branch, Option<usize>) {
        let gates = &self.router.gates;
        if gates.read_memory() && gates.memory_is_short(eligible.iter().map(|&place| self.candidates[place])) {
            return (Branch::MemoryShort, self.least(eligible, costs));
        }
        let best = self.group(eligible, members);
        let branch = if best.is_none() { Branch::Miss } else { Branch::Spill };
        members.retain(|&place| !self.is_out_of_line(place));
        if !members.is_empty() {
            return (Branch::Hit, self.least(members, costs));
        }
        members.extend(eligible.iter().copied().filter(|&place| !self.is_out_of_line(place)));
        (branch, self.least(if members.is_empty() { eligible } else { members }, costs))
    }

    /// Those whose credit is the highest, or the one that the temperature draws. Nothing when nobody has any.
    fn group(&self, eligible: &[usize], members: &mut Vec<usize>) -> Option<f64> {
        members.clear();
        let credit = |place: usize| self.router.prefill.credit_tokens(&self.ask.request, &self.candidates[place]);
        members.extend(eligible.iter().copied().filter(|&place| credit(place) > 0.0));
        let wanted = if self.router.temperature > 0.0 {
            let costs = members.iter().map(|&place| -credit(place));
            credit(members[soften(costs, self.router.temperature, apart(self.seed, 1))?])
        } else {
            members.iter().map(|&place| credit(place)).reduce(f64::max)?
        };
        members.retain(|&place| (credit(place) - wanted).abs() <= SAME_TOKENS);
        Some(wanted)
    }

    fn blend(&self, eligible: &[usize], costs: &[Costs]) -> (Branch, Option<usize>) {
        let totals = eligible.iter().map(|&place| costs[place].total_s());
        let place = soften(totals, self.router.temperature, self.seed).map(|nth| eligible[nth]);
        let reuses = |place: usize| self.candidates[place].overlap.tokens() > 0;
        let branch = match place {
            Some(place) if reuses(place) => Branch::Hit,
            _ if eligible.iter().any(|&place| reuses(place)) => Branch::Spill,
            _ => Branch::Miss,
        };
        (branch, place)
    }

    /// The least loaded of `places`.
    fn least(&self, places: &[usize], costs: &[Costs]) -> Option<usize> {
        cheapest(places.iter().map(|&place| costs[place].load_s()), self.seed).map(|nth| places[nth])
    }

    /// The less loaded of two different ones.
    fn less_of_two(&self, places: &[usize], costs: &[Costs]) -> Option<usize> {
        let mut draw = Draw::new(apart(self.seed, 2));
        let first = draw.place(places.len())?;
        let Some(second) = draw.place(places.len() - 1) else { return Some(places[first]) };
        let second = second + usize::from(second >= first);
        self.least(&[places[first], places[second]], costs)
    }

    fn fewest_in_flight(&self, places: &[usize]) -> Option<usize> {
        let loads = places.iter().map(|&place| f64::from(self.candidates[place].load.in_flight));
        cheapest(loads, self.seed).map(|nth| places[nth])
    }

    fn is_out_of_line(&self, place: usize) -> bool {
        self.router.gates.is_out_of_line(&self.ask.fleet, &self.candidates[place])
    }

    fn choice(&self, branch: Branch, place: usize, scratch: &Scratch) -> Choice {
        let Scratch { eligible, costs, .. } = scratch;
        let reachable = |place: &usize| self.candidates[*place].overlap.tokens().min(self.ask.request.prompt_tokens);
        let cheapest_s = eligible.iter().map(|&place| costs[place].total_s()).fold(f64::INFINITY, f64::min);
        Choice {
            index: place,
            worker: self.candidates[place].worker,
            overlap_tokens: reachable(&place),
            best_overlap_tokens: eligible.iter().map(reachable).max().unwrap_or(0),
            costs: costs[place],
            regret_s: if cheapest_s.is_finite() { (costs[place].total_s() - cheapest_s).max(0.0) } else { 0.0 },
            branch,
        }
    }
}

/// Whose turn it is.
fn turn(eligible: &[usize], seed: u64) -> Option<usize> {
    let nth = seed.checked_rem(eligible.len() as u64)?;
    usize::try_from(nth).ok().map(|nth| eligible[nth])
}

/// Credits closer together than this are the same: they are sums of a few weighted counts of tokens.
const SAME_TOKENS: f64 = limits::TIE_S;
