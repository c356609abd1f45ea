//! The figures of a replay.

use std::collections::BTreeMap;

use serde::Serialize;

use super::client::Outcome;
use super::floor::Floor;

/// What a replay measured. Reuse and latency are over the answered requests behind the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Requests that were answered, or failed.
    pub requests: usize,
    /// Those that did not end with a whole answer of at least one token.
    pub failed: usize,
    /// How often each reason was given.
    pub failures: BTreeMap<String, usize>,
    /// Requests that the figures below are about.
    pub counted: usize,
    /// From the first request to the last answer.
    pub wall_s: f64,
    /// From sending to the first text.
    pub ttft_ms: Distribution,
    /// Gaps between chunks with text, of all requests together.
    pub itl_ms: Distribution,
    /// How much later than due requests were sent; large values mean that the load was not an open loop.
    pub late_ms: Distribution,
    /// Requests within the service levels.
    pub slo: ServiceLevels,
    /// Prompt tokens as the answers report them.
    pub prompt_tokens: u64,
    /// Those of them that came from a cache.
    pub cached_tokens: u64,
    /// `cached_tokens / prompt_tokens`
    pub prefix_reuse: f64,
    /// Against the best engine at each request's arrival, where mock engines tell.
    pub oracle: Option<OracleReport>,
    /// Against what the placements and round robin allow, where workers are known.
    pub floor: Option<FloorReport>,
    /// The gateway's predictions against the engines' reports, where it makes some.
    pub predictions: Option<PredictionReport>,
    /// Counted requests by worker; workers that got none are there if the gateway lists them.
    pub workers: BTreeMap<String, usize>,
    /// Most requests of a worker over the mean; 1 is even.
    pub balance: Option<f64>,
}

/// Percentiles of a sample; all 0 for an empty one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// How many requests kept the service levels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ServiceLevels {
    /// Limit of the time to the first token.
    pub ttft_ms: f64,
    /// Limit of the gap between tokens.
    pub itl_ms: f64,
    /// Requests within both, by their mean gap.
    pub within: usize,
    /// Requests within both, by their 99th percentile gap.
    pub within_strict: usize,
    /// `within` for each second of wall time.
    pub goodput_per_s: f64,
}

/// Comparison with a router that knows every cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OracleReport {
    /// Counted requests that the engines' log knows.
    pub joined: usize,
    /// Best cached tokens over prompt tokens, of those.
    pub prefix_reuse: f64,
    /// Their cached tokens over the best ones.
    pub hit_over_oracle: f64,
}

/// Comparison with simulated caches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FloorReport {
    /// Workers that were simulated.
    pub workers: usize,
    /// Tokens of a block.
    pub block_size: usize,
    /// Blocks of each cache; without bound if absent.
    pub kv_blocks: Option<usize>,
    /// Requests that were simulated.
    pub requests: usize,
    /// What the workers that were chosen could have reused.
    pub placed_reuse: f64,
    /// What the best workers could have reused, given these placements.
    pub best_reuse: f64,
    /// What workers by turns would have reused.
    pub round_robin_reuse: f64,
    /// What one worker with all the room would have reused.
    pub shared_reuse: f64,
    /// What was reused of the same requests.
    pub measured_reuse: f64,
}

/// How predictions compare with what engines reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PredictionReport {
    /// Equal to the token.
    pub exact: usize,
    /// Predicted more than was cached.
    pub over: usize,
    /// Predicted less.
    pub under: usize,
}

impl Distribution {
    /// The percentiles of `sample`. A percentile is the value at the nearest rank, `round((n - 1) p)` from 0.
    pub fn of(mut sample: Vec<f64>) -> Self {
        if sample.is_empty() {
            return Self::default();
        }
        sample.sort_by(f64::total_cmp);
        let mean = sample.iter().sum::<f64>() / float(sample.len());
        let at = |percent: usize| sample[((sample.len() - 1) * percent + 50) / 100];
        Self { mean, p50: at(50), p90: at(90), p99: at(99) }
    }
}

impl ServiceLevels {
    pub(super) fn of(ttft_ms: f64, itl_ms: f64, counted: &[&Outcome], wall_s: f64) -> Self {
        let within = |gap: fn(&Distribution) -> f64| {
            let kept = |outcome: &&&Outcome| {
                let gaps = Distribution::of(outcome.gaps_ms.clone());
                outcome.ttft_ms.is_some_and(|ms| ms <= ttft_ms) && gap(&gaps) <= itl_ms
            };
            counted.iter().filter(kept).count()
        };
        let (within, within_strict) = (within(|gaps| gaps.mean), within(|gaps| gaps.p99));
        Self { ttft_ms, itl_ms, within, within_strict, goodput_per_s: ratio(float(within), wall_s) }
    }
}

impl OracleReport {
    /// `oracle` is beside each outcome.
    pub(super) fn of(counted: &[(&Outcome, Option<u64>)]) -> Option<Self> {
        let joined: Vec<(&Outcome, u64)> = counted.iter().filter_map(|(outcome, best)| Some((*outcome, (*best)?))).collect();
        let sum = |value: fn(&(&Outcome, u64)) -> u64| joined.iter().map(value).sum::<u64>();
        let best = sum(|(_, best)| *best);
        (!joined.is_empty()).then(|| Self {
            joined: joined.len(),
            prefix_reuse: share(best, sum(|(outcome, _)| outcome.prompt_tokens.unwrap_or(0))),
            hit_over_oracle: share(sum(|(outcome, _)| outcome.cached_tokens.unwrap_or(0)), best),
        })
    }
}

impl FloorReport {
    pub(super) fn of(floor: Floor, requests: usize, workers: usize, cache: (usize, Option<usize>), cached_tokens: u64) -> Self {
        let of_prompt = |tokens| share(tokens, floor.prompt_tokens);
        Self {
            workers,
            block_size: cache.0,
            kv_blocks: cache.1,
            requests,
            placed_reuse: of_prompt(floor.placed_tokens),
            best_reuse: of_prompt(floor.best_tokens),
            round_robin_reuse: of_prompt(floor.round_robin_tokens),
            shared_reuse: of_prompt(floor.shared_tokens),
            measured_reuse: of_prompt(cached_tokens),
        }
    }
}

impl PredictionReport {
    pub(super) fn of(counted: &[&Outcome]) -> Option<Self> {
        let mut report = Self::default();
        for outcome in counted {
            let (Some(predicted), Some(cached)) = (outcome.predicted_tokens, outcome.cached_tokens) else { continue };
            match predicted.cmp(&cached) {
                std::cmp::Ordering::Equal => report.exact += 1,
                std::cmp::Ordering::Greater => report.over += 1,
                std::cmp::Ordering::Less => report.under += 1,
            }
        }
        (report != Self::default()).then_some(report)
    }

    /// Requests with a prediction and a report.
    pub fn compared(&self) -> usize {
        self.exact + self.over + self.under
    }
}

/// Most requests of a worker over the mean of all.
pub(super) fn balance(workers: &BTreeMap<String, usize>) -> Option<f64> {
    let most = workers.values().max()?;
    let mean = float(workers.values().sum()) / float(workers.len());
    (mean > 0.0).then(|| float(*most) / mean)
}

/// 0 where there is nothing to divide by.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^53")]
pub(super) fn share(part: u64, whole: u64) -> f64 {
    ratio(part as f64, whole as f64)
}

pub(super) fn float(count: usize) -> f64 {
    share(count as u64, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_at_the_nearest_rank() {
        let sample: Vec<f64> = (0_u8..=100).rev().map(f64::from).collect();
        let got = Distribution::of(sample);
        assert_eq!(got, Distribution { mean: 50.0, p50: 50.0, p90: 90.0, p99: 99.0 });
        let two = Distribution::of(vec![1.0, 2.0]);
        assert_eq!(two, Distribution { mean: 1.5, p50: 2.0, p90: 2.0, p99: 2.0 }, "rank 0.5 rounds up");
        assert_eq!(Distribution::of(Vec::new()), Distribution::default());
    }

    #[test]
    fn unseen_workers_count_in_the_balance() {
        let workers = |counts: &[usize]| counts.iter().enumerate().map(|(n, count)| (n.to_string(), *count)).collect();
        assert_eq!(balance(&workers(&[2, 2])), Some(1.0));
        assert_eq!(balance(&workers(&[4, 0])), Some(2.0));
        assert_eq!(balance(&workers(&[])), None);
        assert_eq!(balance(&workers(&[0])), None);
    }

    fn outcome(predicted: Option<u64>, cached: u64, gaps_ms: &[f64]) -> Outcome {
        Outcome {
            predicted_tokens: predicted,
            prompt_tokens: Some(100),
            cached_tokens: Some(cached),
            ttft_ms: Some(10.0),
            gaps_ms: gaps_ms.to_vec(),
            ..Outcome::default()
        }
    }

    #[test]
    fn service_levels_take_the_mean_gap_and_strictly_the_worst() {
        let steady = outcome(None, 0, &[5.0, 5.0]);
        let bumpy = outcome(None, 0, &[1.0, 1.0, 1.0, 30.0]);
        let levels = ServiceLevels::of(20.0, 10.0, &[&steady, &bumpy], 2.0);
        assert_eq!((levels.within, levels.within_strict), (2, 1));
        assert!((levels.goodput_per_s - 1.0).abs() < 1e-9);
        assert_eq!(ServiceLevels::of(5.0, 10.0, &[&steady], 2.0).within, 0);
    }

    #[test]
    fn predictions_and_oracle_compare_token_by_token() {
        let outcomes = [outcome(Some(32), 32, &[]), outcome(Some(48), 32, &[]), outcome(Some(0), 16, &[]), outcome(None, 0, &[])];
        let counted: Vec<&Outcome> = outcomes.iter().collect();
        assert_eq!(PredictionReport::of(&counted), Some(PredictionReport { exact: 1, over: 1, under: 1 }));
        assert_eq!(PredictionReport::of(&counted[3..]), None);

        let joined = [(&outcomes[0], Some(64)), (&outcomes[1], Some(64)), (&outcomes[2], None)];
        let report = OracleReport::of(&joined).unwrap();
        assert_eq!(report.joined, 2);
        assert!((report.prefix_reuse - 0.64).abs() < 1e-9 && (report.hit_over_oracle - 0.5).abs() < 1e-9);
    }
}
