//! The time to compute what is not reused.

use serde::{Deserialize, Serialize};

use super::{Ask, CostFunction, number, pace, seconds, weight_or_0};
use crate::limits::{DEGRADED_WEIGHT, DISK_WEIGHT, HOST_WEIGHT, PREDICTED_WEIGHT};
use crate::{Candidate, Request};

/// Seconds of prefill that the worker's cache does not save.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Prefill {
    /// What a token in host memory saves of one on the device, 0 to 1.
    pub host_weight: f64,
    /// What a token on disk saves, 0 to 1.
    pub disk_weight: f64,
    /// How much of a prediction is believed, 0 to 1.
    pub predicted_weight: f64,
    /// How much of a degraded worker's overlap is believed, 0 to 1.
    pub degraded_weight: f64,
}

impl Default for Prefill {
    fn default() -> Self {
        Self {
            host_weight: HOST_WEIGHT,
            disk_weight: DISK_WEIGHT,
            predicted_weight: PREDICTED_WEIGHT,
            degraded_weight: DEGRADED_WEIGHT,
        }
    }
}

impl Prefill {
    /// What the worker's overlap is worth, in tokens that need not be computed: never more than the prompt has.
    #[inline]
    pub fn credit_tokens(&self, request: &Request, candidate: &Candidate) -> f64 {
        let overlap = &candidate.overlap;
        let mut left = request.prompt_tokens;
        // A worker cannot reuse more than there is, whatever the caller believes.
        let mut part = |tokens: u64, weight: f64| {
            let taken = tokens.min(left);
            left -= taken;
            number(taken) * weight_or_0(weight).min(1.0)
        };
        let announced = part(overlap.device_tokens, 1.0)
            + part(overlap.host_tokens, self.host_weight)
            + part(overlap.disk_tokens, self.disk_weight);
        let predicted = part(overlap.predicted_tokens, self.predicted_weight);
        // What was sent there a moment ago is not in doubt with what was announced before.
        let trust = if candidate.degraded { weight_or_0(self.degraded_weight).min(1.0) } else { 1.0 };
        announced * trust + predicted
    }
}

impl CostFunction for Prefill {
    fn name(&self) -> &'static str {
        "prefill"
    }

    #[inline]
    fn cost_s(&self, ask: &Ask, candidate: &Candidate) -> f64 {
        let uncached = number(ask.request.prompt_tokens) - self.credit_tokens(&ask.request, candidate);
        seconds(uncached, pace(ask, candidate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fleet, Overlap};

    fn credit(prompt_tokens: u64, overlap: Overlap, degraded: bool) -> f64 {
        let prefill = Prefill { host_weight: 0.8, disk_weight: 0.4, predicted_weight: 0.5, degraded_weight: 0.5 };
        let request = Request { prompt_tokens, home: None };
        prefill.credit_tokens(&request, &Candidate { overlap, degraded, ..Candidate::default() })
    }

    #[track_caller]
    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-9, "expected {expected}, got {got}");
    }

    /// A prompt of so many tokens, for workers of 100 tokens a second.
    fn ask(prompt_tokens: u64) -> Ask {
        Ask {
            request: Request { prompt_tokens, home: None },
            fleet: Fleet { tokens_per_s: 100.0, ..Fleet::default() },
            ..Ask::default()
        }
    }

    #[test]
    fn each_tier_saves_its_share() {
        let overlap = Overlap { device_tokens: 100, host_tokens: 50, disk_tokens: 10, predicted_tokens: 20 };
        close(credit(1_000, overlap, false), 100.0 + 40.0 + 4.0 + 10.0);
        close(credit(1_000, overlap, true), (100.0 + 40.0 + 4.0) / 2.0 + 10.0);
    }

    // D32
    #[test]
    fn credit_never_exceeds_the_prompt() {
        let overlap = Overlap { device_tokens: 100, host_tokens: u64::MAX, disk_tokens: 7, predicted_tokens: u64::MAX };
        close(credit(110, overlap, false), 100.0 + 8.0);
        close(credit(50, overlap, false), 50.0);
        close(credit(0, overlap, true), 0.0);
        assert_eq!(overlap.tokens(), u64::MAX);
    }

    #[test]
    fn only_what_is_not_reused_costs() {
        let (prefill, ask) = (Prefill::default(), ask(100));
        let of = |tokens| prefill.cost_s(&ask, &Candidate { overlap: Overlap::device(tokens), ..Candidate::default() });
        [(0, 1.0), (75, 0.25), (100, 0.0), (900, 0.0)].into_iter().for_each(|(tokens, expected)| close(of(tokens), expected));
    }
}
