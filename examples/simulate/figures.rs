//! What a run comes to.

use std::fmt::Write as _;
use std::time::Duration;

use super::engine::ratio;
use super::outcome::Outcome;
use super::scene::Slo;

/// The figures of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// The median time to the first token, in ms.
    pub ttft_p50_ms: f64,
    /// The 99th percentile of it. A request whose first token never came counts as the longest.
    pub ttft_p99_ms: f64,
    /// Requests a second that kept both of the scene's promises.
    pub goodput: f64,
    /// The share of requests that did.
    pub within_slo: f64,
    /// Tokens served from caches over those that the best engine had on arrival. It may pass 1: a sibling ahead in the same queue
    /// has the prefix ready.
    pub hit_over_oracle: f64,
    /// The most requests of an engine over the mean of all.
    pub balance: f64,
}

impl Figures {
    pub(super) fn of(outcomes: &[Outcome], engines: usize, length: Duration, slo: Slo) -> Self {
        let mut ttfts: Vec<f64> = outcomes.iter().map(|outcome| outcome.ttft.map_or(f64::INFINITY, ms)).collect();
        ttfts.sort_by(f64::total_cmp);
        let good = outcomes.iter().filter(|outcome| slo.is_kept_by(outcome)).count();
        let sum = |tokens: fn(&Outcome) -> usize| outcomes.iter().map(tokens).sum::<usize>();
        let mut requests = vec![0usize; engines];
        outcomes.iter().for_each(|outcome| requests[outcome.engine] += 1);
        let most = requests.iter().copied().max().unwrap_or(0);
        Self {
            ttft_p50_ms: percentile(&ttfts, 50),
            ttft_p99_ms: percentile(&ttfts, 99),
            goodput: ratio(good, 1) / length.as_secs_f64(),
            within_slo: ratio(good, outcomes.len()),
            hit_over_oracle: ratio(sum(|outcome| outcome.cached_tokens), sum(|outcome| outcome.oracle_tokens).max(1)),
            balance: ratio(most * engines, outcomes.len()),
        }
    }
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    if sorted.is_empty() { 0.0 } else { sorted[(sorted.len() - 1) * percent / 100] }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// The figures of several runs: the median of each, and how far goodput spreads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median of each figure.
    pub median: Figures,
    /// Half of the distance from the 10th to the 90th percentile of goodput.
    pub goodput: f64,
}

impl Spread {
    /// Of at least one run.
    pub fn of(runs: &[Figures]) -> Self {
        let sorted = |figure: fn(&Figures) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(figure).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let median = |figure| percentile(&sorted(figure), 50);
        let goodput = sorted(|run| run.goodput);
        Self {
            median: Figures {
                ttft_p50_ms: median(|run| run.ttft_p50_ms),
                ttft_p99_ms: median(|run| run.ttft_p99_ms),
                goodput: median(|run| run.goodput),
                within_slo: median(|run| run.within_slo),
                hit_over_oracle: median(|run| run.hit_over_oracle),
                balance: median(|run| run.balance),
            },
            goodput: (percentile(&goodput, 90) - percentile(&goodput, 10)) / 2.0,
        }
    }
}

/// A table of contenders.
pub fn table(rows: &[(String, Spread)]) -> String {
    let mut text = format!(
        "{:28}{:>10}{:>10}{:>10}{:>8}{:>10}{:>12}{:>10}\n",
        "policy", "TTFT p50", "p99 ms", "goodput", "spread", "in SLO", "hit/oracle", "balance"
    );
    for (name, Spread { median, goodput: spread }) in rows {
        let Figures { ttft_p50_ms, ttft_p99_ms, goodput, within_slo, hit_over_oracle, balance } = median;
        let percent = within_slo * 100.0;
        _ = writeln!(
            text,
            "{name:28}{ttft_p50_ms:>10.0}{ttft_p99_ms:>10.0}{goodput:>10.2}{spread:>8.2}{percent:>8.1} %{hit_over_oracle:>12.3}{balance:>10.2}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_median_and_most_of_the_rest() {
        let run = |goodput| Figures { goodput, ttft_p99_ms: 2.0 * goodput, ..Figures::default() };
        let spread = Spread::of(&[9.0, 1.0, 2.0, 5.0, 3.0, 4.0, 6.0, 7.0, 8.0, 10.0, 11.0].map(run));
        assert_eq!((spread.median.goodput, spread.median.ttft_p99_ms, spread.goodput), (6.0, 12.0, 4.0));
        assert_eq!(Spread::of(&[run(3.0)]), Spread { median: run(3.0), goodput: 0.0 });
    }
}
