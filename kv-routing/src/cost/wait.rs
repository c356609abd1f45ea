//! The time until a worker gets to a new request.

use serde::{Deserialize, Serialize};

use super::{Ask, CostFunction, number, pace, seconds, weight_or_0};
use crate::limits::WAITING_TOKENS;
use crate::{Candidate, Load};

/// Seconds of prefill in front of the request.
///
/// A worker that has never reported has at least the wait of the shortest reported queue in addition to what we sent it: others
/// may send to it too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    /// Uncached tokens of a waiting request, where an engine counts its queue in requests only.
    pub waiting_tokens: f64,
}

impl Default for Wait {
    fn default() -> Self {
        Self { waiting_tokens: WAITING_TOKENS }
    }
}

impl Wait {
    /// Seconds of what is known to be queued.
    #[inline]
    pub(crate) fn queue_s(&self, ask: &Ask, candidate: &Candidate) -> f64 {
        seconds(self.queued_tokens(&candidate.load), pace(ask, candidate))
    }

    #[inline]
    fn queued_tokens(&self, load: &Load) -> f64 {
        let counts_requests_only = load.reported && load.queued_tokens == 0;
        let waiting = if counts_requests_only { f64::from(load.waiting) } else { 0.0 };
        number(load.queued_tokens) + waiting * weight_or_0(self.waiting_tokens)
    }
}

impl CostFunction for Wait {
    fn name(&self) -> &'static str {
        "wait"
    }

    #[inline]
    fn cost_s(&self, ask: &Ask, candidate: &Candidate) -> f64 {
        let others = if candidate.load.reported { None } else { ask.fleet.least_wait_s };
        self.queue_s(ask, candidate) + others.map_or(0.0, weight_or_0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fleet;

    fn cost(least_wait_s: Option<f64>, load: Load) -> f64 {
        let fleet = Fleet { tokens_per_s: 1_000.0, least_wait_s, ..Fleet::default() };
        let candidate = Candidate { load, ..Candidate::default() };
        Wait { waiting_tokens: 1_024.0 }.cost_s(&Ask { fleet, ..Ask::default() }, &candidate)
    }

    #[track_caller]
    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-9, "expected {expected}, got {got}");
    }

    #[test]
    fn a_queue_of_requests_counts_as_tokens() {
        let told = Load { reported: true, queued_tokens: 500, waiting: 9, ..Load::default() };
        close(cost(None, told), 0.5);
        close(cost(None, Load { queued_tokens: 0, waiting: 2, ..told }), 2.048);
    }

    #[test]
    fn who_never_reported_waits_at_least_as_long_as_the_shortest_queue() {
        close(cost(Some(0.75), Load { queued_tokens: 250, ..Load::default() }), 1.0);
        close(cost(Some(0.75), Load { queued_tokens: 250, reported: true, ..Load::default() }), 0.25);
    }
}
