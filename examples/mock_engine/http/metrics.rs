//! Load in Prometheus text, under the names that routers already read.

use std::fmt::Write;

use axum::extract::State;

use super::Site;
use super::error::ApiError;
use crate::mock_engine::events::Dialect;
use crate::mock_engine::load::Load;

/// Like the real engines, vLLM's names tell neither queued tokens nor rates.
pub(super) async fn metrics(State(site): State<Site>) -> Result<String, ApiError> {
    if site.load_is_garbled()? {
        return Ok(GARBLED.to_owned());
    }
    let names: &[Metric] = match site.fleet.config.dialect {
        Dialect::Vllm => VLLM,
        Dialect::Sglang => SGLANG,
    };
    Ok(render(names, &site.fleet.config.model, &site.engine().loads()))
}

/// Numbers of requests that cannot be.
const GARBLED: &str = "vllm:num_requests_running NaN\nvllm:num_requests_waiting -3\nsglang:num_running_reqs -1\n";

type Metric = (&'static str, &'static str, fn(&Load) -> f64);

fn render(metrics: &[Metric], model: &str, loads: &[Load]) -> String {
    let mut text = String::new();
    for (name, kind, value) in metrics {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE {name} {kind}");
        for (rank, load) in loads.iter().enumerate() {
            let _ = writeln!(text, "{name}{{model_name=\"{model}\",engine=\"{rank}\"}} {}", value(load));
        }
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus values are doubles")]
fn count(value: u64) -> f64 {
    value as f64
}

const VLLM: &[Metric] = &[
    ("vllm:num_requests_running", "gauge", |load| count(load.running as u64)),
    ("vllm:num_requests_waiting", "gauge", |load| count(load.waiting as u64)),
    ("vllm:kv_cache_usage_perc", "gauge", Load::kv_usage),
    ("vllm:num_preemptions_total", "counter", |load| count(load.preemptions)),
    ("vllm:prompt_tokens_total", "counter", |load| count(load.prompt_tokens)),
    ("vllm:generation_tokens_total", "counter", |load| count(load.output_tokens)),
    ("vllm:prefix_cache_queries_total", "counter", |load| count(load.prompt_tokens)),
    ("vllm:prefix_cache_hits_total", "counter", |load| count(load.cached_tokens)),
];

const SGLANG: &[Metric] = &[
    ("sglang:num_running_reqs", "gauge", |load| count(load.running as u64)),
    ("sglang:num_queue_reqs", "gauge", |load| count(load.waiting as u64)),
    ("sglang:token_usage", "gauge", Load::kv_usage),
    ("sglang:num_used_tokens", "gauge", |load| count(load.running_tokens as u64)),
    ("sglang:gen_throughput", "gauge", |load| load.tokens_per_s),
    ("sglang:cache_hit_rate", "gauge", |load| load.hit_rate),
    ("sglang:prompt_tokens_total", "counter", |load| count(load.prompt_tokens)),
    ("sglang:generation_tokens_total", "counter", |load| count(load.output_tokens)),
    ("sglang:cached_tokens_total", "counter", |load| count(load.cached_tokens)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_rank_under_each_type() {
        let load = Load { running: 3, running_tokens: 10, capacity_tokens: 40, ..Load::default() };
        let text = render(&VLLM[..3], "m", &[load, Load::default()]);
        assert!(text.starts_with("# TYPE vllm:num_requests_running gauge\n"));
        assert!(text.contains("vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 3\n"));
        assert!(text.contains("vllm:kv_cache_usage_perc{model_name=\"m\",engine=\"0\"} 0.25\n"));
        assert_eq!(text.lines().count(), 9);
    }
}
