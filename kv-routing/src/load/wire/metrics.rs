//! `/metrics` of vLLM and of SGLang, which tell each rank's load under names of their own.
//!
//! | value | vLLM | SGLang |
//! |---|---|---|
//! | running | `vllm:num_requests_running` | `sglang:num_running_reqs` |
//! | waiting | `vllm:num_requests_waiting` | `sglang:num_queue_reqs` |
//! | KV usage | `vllm:kv_cache_usage_perc`, before 0.10 `vllm:gpu_cache_usage_perc`; a share in spite of its name | `sglang:token_usage` |
//! | rate | | `sglang:gen_throughput` |
//! | tokens | `vllm:prompt_tokens_total` less `vllm:prefix_cache_hits_total`, and `vllm:generation_tokens_total` | the same of one rank |
//! | rank | the label `engine` | the label `dp_rank` |
//!
//! No label is rank 0. SGLang can let every tensor-parallel rank tell the same: the lowest counts. With priorities it tells each
//! one's share beside the sum: those with a `priority` that is not empty are left out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::prometheus::{Line, lines};
use super::{Loads, WireError, within_bounds};
use crate::limits::RANKS_MAX;
use crate::load::Sample;

/// The loads that a `/metrics` body tells. `sent_at` is when it was asked for.
///
/// # Errors
/// A [`WireError`] when the body is too long, or when no rank tells how many requests it runs.
pub fn loads(body: &[u8], sent_at: Duration) -> Result<Loads, WireError> {
    within_bounds(body)?;
    let mut ranks: BTreeMap<u16, Gathered> = BTreeMap::new();
    let mut unreadable = 0;
    for line in lines(body) {
        let Some(metric) = Metric::named(line.name) else { continue };
        if line.label("priority").is_some_and(|priority| !priority.is_empty()) {
            continue;
        }
        match rank(&line).zip(line.value()) {
            Some((rank, value)) => ranks.entry(rank).or_default().add(metric, shard(&line), value),
            None => unreadable += 1,
        }
    }
    let alone = ranks.len() == 1;
    let sample = |(rank, gathered): (u16, Gathered)| gathered.sample(sent_at, alone).map(|sample| (rank, sample));
    let ranks: Vec<(u16, Sample)> = ranks.into_iter().filter_map(sample).collect();
    if ranks.is_empty() {
        return Err(WireError::NoLoad("vllm:num_requests_running or sglang:num_running_reqs"));
    }
    Ok(Loads { ranks, unreadable })
}

/// What a metric is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    Running,
    Waiting,
    KvUsage,
    Rate,
    PromptTokens,
    CachedTokens,
    OutputTokens,
}

const METRICS: usize = 7;

impl Metric {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "vllm:num_requests_running" | "sglang:num_running_reqs" => Self::Running,
            "vllm:num_requests_waiting" | "sglang:num_queue_reqs" => Self::Waiting,
            "vllm:kv_cache_usage_perc" | "vllm:gpu_cache_usage_perc" | "sglang:token_usage" => Self::KvUsage,
            "sglang:gen_throughput" => Self::Rate,
            "vllm:prompt_tokens_total" | "sglang:prompt_tokens_total" => Self::PromptTokens,
            "vllm:prefix_cache_hits_total" | "vllm:gpu_prefix_cache_hits_total" | "sglang:cached_tokens_total" => {
                Self::CachedTokens
            }
            "vllm:generation_tokens_total" | "sglang:generation_tokens_total" => Self::OutputTokens,
            _ => return None,
        })
    }
}

/// What one rank has told, each value with the shard that told it.
#[derive(Debug, Default)]
struct Gathered([Option<((u32, u32), f64)>; METRICS]);

impl Gathered {
    /// Lines of one shard are parts of a sum; of two shards, the lower is heard.
    fn add(&mut self, metric: Metric, shard: (u32, u32), value: f64) {
        let cell = &mut self.0[metric as usize];
        *cell = match *cell {
            Some((heard, sum)) if heard == shard && metric == Metric::KvUsage => Some((heard, sum.max(value))),
            Some((heard, sum)) if heard == shard => Some((heard, sum + value)),
            Some(lower) if lower.0 < shard => Some(lower),
            _ => Some((shard, value)),
        };
    }

    fn told(&self, metric: Metric) -> Option<f64> {
        self.0[metric as usize].map(|(_, value)| value)
    }

    /// The sample, if it tells of requests. Token counters without a rank are the whole engine's: they count for an engine of one rank.
    fn sample(&self, sent_at: Duration, alone: bool) -> Option<Sample> {
        let tokens = self.told(Metric::PromptTokens).zip(self.told(Metric::OutputTokens));
        let cached = self.told(Metric::CachedTokens).unwrap_or(0.0);
        let total = tokens.map(|(prompt, output)| (prompt - cached).max(0.0) + output);
        Some(Sample {
            running: self.told(Metric::Running)?,
            waiting: self.told(Metric::Waiting).unwrap_or(0.0),
            kv_usage: self.told(Metric::KvUsage),
            tokens_per_s: self.told(Metric::Rate),
            tokens_total: total.filter(|_| alone || self.told(Metric::Rate).is_none()),
            ..Sample::polled(sent_at)
        })
    }
}

/// The data-parallel rank of a line, if it is one that a worker can have.
fn rank(line: &Line<'_>) -> Option<u16> {
    let label = line.label("engine").or_else(|| line.label("dp_rank")).filter(|label| !label.is_empty());
    let rank: u16 = label.map_or(Ok(0), str::parse).ok()?;
    (usize::from(rank) < RANKS_MAX).then_some(rank)
}

/// Which of a rank's parts tells it: pipeline stage, tensor-parallel rank.
fn shard(line: &Line<'_>) -> (u32, u32) {
    let part = |key| line.label(key).and_then(|label| label.parse().ok()).unwrap_or(0);
    (part("pp_rank"), part("tp_rank"))
}
