//! The time to compute what is not reused.

use serde::{Deserialize, Serialize};

use super::CostFunction;
use crate::limits::{DEGRADED_WEIGHT, PREFILL_TOKENS_PER_S};
use crate::{Candidate, Request};

/// Seconds of prefill that the worker's cache does not save.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Prefill {
    /// How fast workers prefill.
    pub tokens_per_s: f64,
    /// How much of a degraded worker's overlap is believed, 0 to 1.
    pub degraded_weight: f64,
}

impl Default for Prefill {
    fn default() -> Self {
        Self { tokens_per_s: PREFILL_TOKENS_PER_S, degraded_weight: DEGRADED_WEIGHT }
    }
}

impl CostFunction for Prefill {
    fn name(&self) -> &'static str {
        "prefill"
    }

    #[expect(clippy::cast_precision_loss, reason = "prompts are far shorter than 2^52 tokens")]
    fn cost_s(&self, request: Request, candidate: &Candidate) -> f64 {
        let weight = if candidate.degraded { self.degraded_weight } else { 1.0 };
        // A worker cannot reuse more than there is, whatever the caller believes.
        let reused = candidate.overlap_tokens.min(request.prompt_tokens) as f64 * weight;
        (request.prompt_tokens as f64 - reused) / self.tokens_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(prompt_tokens: u64, overlap_tokens: u64, degraded: bool) -> f64 {
        Prefill { tokens_per_s: 100.0, degraded_weight: 0.5 }
            .cost_s(Request { prompt_tokens }, &Candidate { overlap_tokens, degraded, ..Candidate::default() })
    }

    #[test]
    fn only_what_is_not_reused_costs() {
        let costs = [cost(100, 0, false), cost(100, 75, false), cost(100, 100, true), cost(100, 900, false), cost(0, 5, false)];
        for (cost, expected) in costs.into_iter().zip([1.0, 0.25, 0.5, 0.0, 0.0]) {
            assert!((cost - expected).abs() < 1e-12, "{cost} {expected}");
        }
    }
}
