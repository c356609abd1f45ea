//! What scarce KV memory will cost: evictions, preemptions, requests that cannot be admitted.

use serde::{Deserialize, Serialize};

use super::{Ask, CostFunction, weight_or_0};
use crate::Candidate;
use crate::limits::{COMPANY_SPREAD, KV_USAGE_BELIEVED_MAX, PRESSURE_S};

/// `weight_s * k / (1 - k)` for a usage of `k`, times the worker's share of requests in flight: nothing on an empty worker, much on a
/// full one, and more with each request that was sent there since it reported. Nothing where the usage is not known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// What a worker costs whose memory is half in use.
    pub weight_s: f64,
}

impl Default for Pressure {
    fn default() -> Self {
        Self { weight_s: PRESSURE_S }
    }
}

impl CostFunction for Pressure {
    fn name(&self) -> &'static str {
        "pressure"
    }

    #[inline]
    fn cost_s(&self, ask: &Ask, candidate: &Candidate) -> f64 {
        let usage = candidate.load.usage().unwrap_or(0.0).min(KV_USAGE_BELIEVED_MAX);
        weight_or_0(self.weight_s) * usage / (1.0 - usage) * company(ask, candidate)
    }
}

/// The worker's requests in flight over the fleet's mean, within [`COMPANY_SPREAD`].
fn company(ask: &Ask, candidate: &Candidate) -> f64 {
    let share = (f64::from(candidate.load.in_flight) + 1.0) / (weight_or_0(ask.fleet.in_flight_mean) + 1.0);
    share.clamp(1.0 / COMPANY_SPREAD, COMPANY_SPREAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fleet, Load};

    fn cost(kv_usage: Option<f32>, in_flight: u32, in_flight_mean: f64) -> f64 {
        let ask = Ask { fleet: Fleet { in_flight_mean, ..Fleet::default() }, ..Ask::default() };
        let load = Load { in_flight, kv_usage, ..Load::default() };
        Pressure { weight_s: 0.2 }.cost_s(&ask, &Candidate { load, ..Candidate::default() })
    }

    #[track_caller]
    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-6, "expected {expected}, got {got}");
    }

    #[test]
    fn pressure_rises_without_a_cliff_and_stays_a_number() {
        let of = |usage| cost(usage, 0, 0.0);
        let odd = [(None, 0.0), (Some(f32::NAN), 0.0), (Some(-3.0), 0.0)];
        let even = [(Some(0.0), 0.0), (Some(0.5), 0.2), (Some(0.9), 1.8)];
        odd.into_iter().chain(even).for_each(|(usage, expected)| close(of(usage), expected));
        close(of(Some(5.0)), of(Some(1.0)));
        close(of(Some(1.0)), 0.2 * 19.0);
    }

    // What an old report cannot tell: who was sent more since.
    #[test]
    fn company_makes_memory_dearer_within_bounds() {
        close(cost(Some(0.5), 19, 9.0), 0.4);
        close(cost(Some(0.5), 4, 9.0), 0.1);
        close(cost(Some(0.5), u32::MAX, 0.0), 0.2 * COMPANY_SPREAD);
        close(cost(Some(0.5), 0, f64::NAN), 0.2);
    }
}
