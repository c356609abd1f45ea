//! What a run comes to.

use std::fmt::Write as _;
use std::time::Duration;

use super::engine::ratio;
use super::outcome::Outcome;
use super::scene::Slo;

/// The figures of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// A table of contenders.
pub fn table(rows: &[(&str, Figures)]) -> String {
    let mut text = format!(
        "{:16}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}\n",
        "policy", "TTFT p50", "p99 ms", "goodput", "in SLO", "hit/oracle", "balance"
    );
    for (name, figures) in rows {
        let Figures { ttft_p50_ms, ttft_p99_ms, goodput, within_slo, hit_over_oracle, balance } = figures;
        let percent = within_slo * 100.0;
        _ = writeln!(
            text,
            "{name:16}{ttft_p50_ms:>10.0}{ttft_p99_ms:>10.0}{goodput:>10.2}{percent:>8.1} %{hit_over_oracle:>12.3}{balance:>10.2}"
        );
    }
    text
}
