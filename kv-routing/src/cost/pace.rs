//! How fast a worker computes prompts.

use super::Ask;
use crate::Candidate;
use crate::limits::RATE_SPREAD;

/// Prompt tokens that `candidate` computes in a second: what its settings say, or what was measured, at most [`RATE_SPREAD`] times
/// off the fleet's mean. A rate is what a worker was asked for as much as what it can do, and one that has little to do must not
/// be given less for it.
#[inline]
pub fn pace(ask: &Ask, candidate: &Candidate) -> f64 {
    if let Some(rate) = candidate.overrides.tokens_per_s.filter(|rate| rate.is_finite() && *rate > 0.0) {
        return f64::from(rate);
    }
    let mean = ask.fleet.tokens_per_s;
    candidate.load.live_rate().map_or(mean, |rate| rate.max(mean / RATE_SPREAD).min(mean * RATE_SPREAD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fleet, Load, Overrides};

    const MEAN: f64 = 2_000.0;

    fn of(running: u32, rate: f32, own: Option<f32>) -> f64 {
        let ask = Ask { fleet: Fleet { tokens_per_s: MEAN, ..Fleet::default() }, ..Ask::default() };
        let load = Load { running, rate_tokens_per_s: Some(rate), ..Load::default() };
        pace(
            &ask,
            &Candidate { load, overrides: Overrides { tokens_per_s: own, ..Overrides::default() }, ..Candidate::default() },
        )
    }

    #[track_caller]
    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-3, "expected {expected}, got {got}");
    }

    // A worker that looks slow because little was asked of it would be asked for less and less: sglang#14305's spiral.
    #[test]
    fn a_rate_is_at_most_so_far_from_the_fleets() {
        [(3_000.0, 3_000.0), (1.0, MEAN / RATE_SPREAD), (1e9, MEAN * RATE_SPREAD), (f32::NAN, MEAN), (-1.0, MEAN)]
            .into_iter()
            .for_each(|(rate, expected)| close(of(1, rate, None), expected));
    }

    // Defect 29.
    #[test]
    fn the_last_rate_of_an_idle_worker_is_old() {
        close(of(0, 3_000.0, None), MEAN);
    }

    #[test]
    fn a_rate_in_the_settings_wins() {
        close(of(1, 3_000.0, Some(7.0)), 7.0);
        close(of(1, 3_000.0, Some(f32::NAN)), 3_000.0);
    }
}
