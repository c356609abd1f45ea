//! What the doctor says of a rank, and what it said before.

use std::collections::BTreeSet;
use std::time::Instant;

use kv_events::doctor::{Cause, Chart, Diagnosis, Doctor, Requests};
use parking_lot::Mutex;

use super::engine::Engine;
use super::rank::Rank;
use super::tally::Tally;

/// The doctor's memory of one rank.
#[derive(Debug)]
pub(crate) struct Checkup {
    /// The doctor's time is counted from here.
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    doctor: Doctor,
    /// What was found last.
    found: Vec<Cause>,
    /// All that was ever found: what a gauge must be told of when it is over.
    ever: BTreeSet<Cause>,
}

impl Default for Checkup {
    fn default() -> Self {
        Self { begun: Instant::now(), state: Mutex::default() }
    }
}

impl Engine {
    /// What is wrong with `rank`, one of the engine's. What was not wrong before is logged.
    pub(crate) fn check_up(&self, rank: &Rank) -> Vec<Diagnosis> {
        let stream = rank.stream();
        let chart = Chart {
            subscribed: stream.worker.is_some() && stream.connected,
            counts: &stream.counts,
            findings: stream.findings,
            profile: &stream.profile,
            hashes: stream.hashes.as_ref(),
            filling: None,
            request_block_tokens: self.spec().block_size,
            requests: requests(&rank.tally),
        };
        let mut state = rank.checkup.state.lock();
        let found = state.doctor.examine(rank.checkup.begun.elapsed(), &chart);
        for Diagnosis { cause, because } in found.iter().filter(|found| !state.found.contains(&found.cause)) {
            let (engine, rank, cause, advice) = (self.name(), rank.number, cause.as_str(), cause.advice());
            tracing::warn!(engine, rank, cause, because, advice, "predictions for this rank may be wrong");
        }
        state.found = found.iter().map(|found| found.cause).collect();
        state.ever.extend(found.iter().map(|found| found.cause));
        found
    }
}

impl Rank {
    /// Every cause that was ever found, and whether it was when the rank was looked at last.
    pub(crate) fn causes(&self) -> Vec<(Cause, bool)> {
        let state = self.checkup.state.lock();
        state.ever.iter().map(|cause| (*cause, state.found.contains(cause))).collect()
    }
}

fn requests(tally: &Tally) -> Requests {
    Requests {
        sent: tally.requests.value(),
        salted: tally.salted.value(),
        compared: tally.compared.value(),
        prompt_tokens: tally.prompt_tokens.value(),
        predicted_tokens: tally.predicted_tokens.value(),
        cached_tokens: tally.cached_tokens.value(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_while_it_is_there_and_remembered_after() {
        let engine = Engine::alone();
        let rank = &engine.ranks()[0];
        assert!(engine.check_up(rank).is_empty() && rank.causes().is_empty());
        (0..8).for_each(|_| rank.tally.compare(64, 0, 48));
        rank.publish(|stream| stream.counts.stored = 4);
        assert_eq!(engine.check_up(rank)[0].cause, Cause::TokensDiffer);
        assert_eq!(rank.causes(), [(Cause::TokensDiffer, true)]);
        rank.tally.compare(64, 48, 48);
        assert!(engine.check_up(rank).is_empty());
        assert_eq!(rank.causes(), [(Cause::TokensDiffer, false)]);
    }
}
