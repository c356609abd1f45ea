//! The decision.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cost::{CostFunction, Prefill, Queue};
use crate::record::{Record, Scored};
use crate::select::{Draw, cheapest};
use crate::{Candidate, Request};

/// How workers are chosen. Without state: one value serves any number of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Router {
    /// What decides.
    pub policy: Policy,
    /// What computing costs.
    pub prefill: Prefill,
    /// What waiting costs.
    pub queue: Queue,
}

/// What decides among the workers that are ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The least expected time to the first token: waiting, and computing what is not reused.
    #[default]
    CacheAware,
    /// The least waiting.
    LeastLoad,
    /// Any.
    Random,
    /// One after the other: the seed is the request's number.
    RoundRobin,
}

/// Who was chosen, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The chosen candidate's [`worker`](Candidate::worker).
    pub worker: u32,
    /// Its place among the candidates.
    pub index: usize,
    /// Everything that the decision was made from.
    pub record: Record,
}

/// Nobody can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("none of {candidates} candidates is ready")]
pub struct NoCandidate {
    /// How many there were.
    pub candidates: usize,
}

impl Router {
    /// A router of one policy with default costs.
    pub fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Chooses one of the candidates that are ready. The same arguments give the same answer.
    ///
    /// # Errors
    /// [`NoCandidate`] when none is ready.
    pub fn decide(&self, request: Request, candidates: &[Candidate], seed: u64) -> Result<Decision, NoCandidate> {
        let scored: Vec<Scored> = candidates.iter().map(|candidate| self.score(request, candidate)).collect();
        let ready: Vec<usize> = (0..scored.len()).filter(|&index| scored[index].candidate.ready).collect();
        let none = NoCandidate { candidates: candidates.len() };
        let nth = self.pick(&scored, &ready, seed).ok_or(none)?;
        let index = ready[nth];
        let worker = scored[index].candidate.worker;
        Ok(Decision { worker, index, record: Record { router: *self, request, seed, chosen: worker, scored } })
    }

    fn pick(&self, scored: &[Scored], ready: &[usize], seed: u64) -> Option<usize> {
        let count = ready.len() as u64;
        match self.policy {
            Policy::Random => Draw::new(seed).below(count).and_then(|nth| usize::try_from(nth).ok()),
            Policy::RoundRobin => seed.checked_rem(count).and_then(|nth| usize::try_from(nth).ok()),
            Policy::CacheAware | Policy::LeastLoad => cheapest(ready.iter().map(|&index| scored[index].total_s()), seed),
        }
    }

    fn score(&self, request: Request, candidate: &Candidate) -> Scored {
        let costs: &[&dyn CostFunction] = match self.policy {
            Policy::CacheAware => &[&self.queue, &self.prefill],
            Policy::LeastLoad => &[&self.queue],
            Policy::Random | Policy::RoundRobin => &[],
        };
        let costs_s = costs.iter().map(|cost| (cost.name().into(), cost.cost_s(request, candidate))).collect();
        Scored { candidate: *candidate, costs_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Load;

    const REQUEST: Request = Request { prompt_tokens: 1_000 };

    fn candidate(worker: u32, overlap_tokens: u64, in_flight: u32) -> Candidate {
        Candidate { worker, overlap_tokens, load: Load { in_flight, queued_tokens: 0 }, ..Candidate::default() }
    }

    fn chosen(policy: Policy, candidates: &[Candidate], seed: u64) -> u32 {
        Router::new(policy).decide(REQUEST, candidates, seed).unwrap().worker
    }

    #[test]
    fn the_holder_wins_until_its_queue_costs_more_than_its_prefix_saves() {
        let idle = candidate(1, 0, 0);
        assert_eq!(chosen(Policy::CacheAware, &[idle, candidate(2, 900, 170)], 0), 2);
        assert_eq!(chosen(Policy::CacheAware, &[idle, candidate(2, 900, 190)], 0), 1);
        assert_eq!(chosen(Policy::LeastLoad, &[idle, candidate(2, 900, 1)], 0), 1);
    }

    #[test]
    fn workers_that_are_not_ready_are_never_chosen() {
        let down = Candidate { ready: false, ..candidate(1, 1_000, 0) };
        for policy in [Policy::CacheAware, Policy::LeastLoad, Policy::Random, Policy::RoundRobin] {
            assert!((0..32).all(|seed| chosen(policy, &[down, candidate(2, 0, 9)], seed) == 2), "{policy:?}");
            assert_eq!(Router::new(policy).decide(REQUEST, &[down], 0).unwrap_err(), NoCandidate { candidates: 1 });
        }
    }

    #[test]
    fn a_thousand_misses_over_128_idle_workers_reach_all() {
        let idle: Vec<Candidate> = (0..128).map(|worker| candidate(worker, 0, 0)).collect();
        let mut hits = [0u32; 128];
        (0..1_000).for_each(|seed| hits[chosen(Policy::CacheAware, &idle, seed) as usize] += 1);
        assert!(hits.iter().all(|&hits| (1..=23).contains(&hits)), "{hits:?}");
    }

    #[test]
    fn random_reaches_everybody_whatever_they_cost() {
        let uneven: Vec<Candidate> = (0..8).map(|worker| candidate(worker, u64::from(worker) * 100, worker * 9)).collect();
        let mut hits = [0u32; 8];
        (0..800).for_each(|seed| hits[chosen(Policy::Random, &uneven, seed) as usize] += 1);
        assert!(hits.iter().all(|&hits| (60..=140).contains(&hits)), "{hits:?}");
    }

    #[test]
    fn a_degraded_holder_stands_between_a_sound_one_and_none() {
        let degraded = Candidate { degraded: true, ..candidate(2, 900, 0) };
        assert_eq!(chosen(Policy::CacheAware, &[candidate(1, 0, 0), degraded], 0), 2);
        assert_eq!(chosen(Policy::CacheAware, &[candidate(1, 500, 0), degraded], 0), 1, "half of 900 is believed");
        assert_eq!(chosen(Policy::CacheAware, &[candidate(1, 400, 0), degraded], 0), 2);
    }

    #[test]
    fn round_robin_takes_turns_among_the_ready() {
        let all = [candidate(5, 0, 0), Candidate { ready: false, ..candidate(6, 0, 0) }, candidate(7, 0, 0)];
        let turns: Vec<_> = (0..4).map(|turn| chosen(Policy::RoundRobin, &all, turn)).collect();
        assert_eq!(turns, [5, 7, 5, 7]);
    }
}
