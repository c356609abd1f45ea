//! Why a decision fell as it did, in a form that can be stored, read and decided again.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{Candidate, NoCandidate, Request, Router};

/// Everything that went into one decision, and who was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The policy and its costs.
    pub router: Router,
    /// The request.
    pub request: Request,
    /// The seed of ties, draws and turns.
    pub seed: u64,
    /// The chosen worker.
    pub chosen: u32,
    /// Every candidate, with its costs.
    pub scored: Vec<Scored>,
}

/// One candidate and what it would have cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// The candidate as it was.
    pub candidate: Candidate,
    /// Each cost by its name, in seconds. Empty under policies that do not look at costs.
    pub costs_s: Vec<(Cow<'static, str>, f64)>,
}

impl Record {
    /// Decides again: the same worker, unless the crate's rules have changed since the record was written.
    ///
    /// # Errors
    /// [`NoCandidate`] when none of the recorded candidates is ready.
    pub fn replay(&self) -> Result<u32, NoCandidate> {
        let candidates: Vec<Candidate> = self.scored.iter().map(|scored| scored.candidate).collect();
        self.router.decide(self.request, &candidates, self.seed).map(|decision| decision.worker)
    }

    /// The tokens that the best ready candidate would have reused: what affinity alone could have had.
    pub fn best_overlap_tokens(&self) -> u64 {
        let ready = self.scored.iter().filter(|scored| scored.candidate.ready);
        ready.map(|scored| scored.candidate.overlap_tokens).max().unwrap_or(0)
    }
}

impl Scored {
    /// The sum of the costs, in seconds.
    pub fn total_s(&self) -> f64 {
        self.costs_s.iter().map(|cost| cost.1).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cost::{Prefill, Queue};
    use crate::{Load, Policy};

    fn any_candidate() -> impl Strategy<Value = Candidate> {
        (0u64..2_000, 0u32..50, 0u64..50_000, any::<bool>(), proptest::bool::weighted(0.8)).prop_map(
            |(overlap_tokens, in_flight, queued_tokens, degraded, ready)| Candidate {
                worker: 0,
                overlap_tokens,
                degraded,
                ready,
                load: Load { in_flight, queued_tokens },
            },
        )
    }

    proptest! {
        #[test]
        fn a_record_survives_its_text_and_decides_the_same(
            mut candidates in proptest::collection::vec(any_candidate(), 1..20),
            policy in prop_oneof![Just(Policy::CacheAware), Just(Policy::LeastLoad), Just(Policy::Random), Just(Policy::RoundRobin)],
            prompt_tokens in 0u64..4_000,
            seed: u64,
        ) {
            (0..).zip(&mut candidates).for_each(|(worker, candidate)| candidate.worker = worker);
            if let Ok(decision) = Router::new(policy).decide(Request { prompt_tokens }, &candidates, seed) {
                let text = serde_json::to_string(&decision.record).unwrap();
                let read: Record = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(read.replay(), Ok(decision.worker));
                prop_assert!(candidates[decision.index].ready);
                let best = candidates.iter().filter(|candidate| candidate.ready).map(|candidate| candidate.overlap_tokens).max();
                prop_assert_eq!(Some(read.best_overlap_tokens()), best);
            } else {
                prop_assert!(candidates.iter().all(|candidate| !candidate.ready));
            }
        }
    }

    #[test]
    fn a_record_can_be_read_back_whatever_the_rates_were() {
        let odd = [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5, 7.0];
        let holder = Candidate {
            overlap_tokens: 50,
            degraded: true,
            load: Load { in_flight: 3, queued_tokens: 9 },
            ..Candidate::default()
        };
        for (rate, weight) in odd.into_iter().flat_map(|rate| odd.map(|weight| (rate, weight))) {
            let router = Router {
                policy: Policy::CacheAware,
                prefill: Prefill { tokens_per_s: rate, degraded_weight: weight },
                queue: Queue { tokens_per_s: rate, in_flight_s: weight, weight },
            };
            let record = router.decide(Request { prompt_tokens: 100 }, &[holder, Candidate::default()], 1).unwrap().record;
            let costs: Vec<f64> = record.scored.iter().flat_map(|scored| &scored.costs_s).map(|cost| cost.1).collect();
            assert!(costs.iter().all(|cost| cost.is_finite() && *cost >= 0.0), "{rate} {weight}: {costs:?}");
            let text = serde_json::to_string(&record.scored).unwrap();
            assert_eq!(serde_json::from_str::<Vec<Scored>>(&text).unwrap(), record.scored);
        }
    }
}
