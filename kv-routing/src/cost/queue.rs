//! The time before a worker gets to a new request, and what it costs to share a batch.

use serde::{Deserialize, Serialize};

use super::{CostFunction, seconds, weight_or_0};
use crate::limits::{IN_FLIGHT_S, PREFILL_TOKENS_PER_S, QUEUE_WEIGHT};
use crate::{Candidate, Request};

/// Seconds of prefill in front of the request, and a little for each request that runs beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// How fast workers prefill.
    pub tokens_per_s: f64,
    /// What each request in flight adds.
    pub in_flight_s: f64,
    /// What a second of waiting counts against a second of prefill that is saved, above 0.
    pub weight: f64,
}

impl Default for Queue {
    fn default() -> Self {
        Self { tokens_per_s: PREFILL_TOKENS_PER_S, in_flight_s: IN_FLIGHT_S, weight: QUEUE_WEIGHT }
    }
}

impl CostFunction for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    #[expect(clippy::cast_precision_loss, reason = "queues are far shorter than 2^52 tokens")]
    fn cost_s(&self, _: Request, candidate: &Candidate) -> f64 {
        let load = candidate.load;
        let queued_s = seconds(load.queued_tokens as f64, self.tokens_per_s);
        weight_or_0(self.weight) * (queued_s + f64::from(load.in_flight) * weight_or_0(self.in_flight_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Load;

    #[test]
    fn queued_tokens_and_neighbours_add_up() {
        let queue = Queue { tokens_per_s: 1_000.0, in_flight_s: 0.01, weight: 1.0 };
        let candidate = Candidate { load: Load { in_flight: 3, queued_tokens: 500 }, ..Candidate::default() };
        assert!((queue.cost_s(Request::default(), &candidate) - 0.53).abs() < 1e-12);
        let half = Queue { weight: 0.5, ..queue };
        assert!((half.cost_s(Request::default(), &candidate) - 0.265).abs() < 1e-12);
    }
}
