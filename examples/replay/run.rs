//! A replay from the command line to the report.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Client;
use serde::Deserialize;
use tokio::time::Instant;

use super::client::{Outcome, Target};
use super::drive::{Plan, drive};
use super::error::ReplayError;
use super::floor::{Placement, floor};
use super::limits;
use super::options::{Connections, Options};
use super::oracle::{self, Oracle, ask};
use super::prompt::PromptSource;
use super::report::{Distribution, FloorReport, OracleReport, PredictionReport, Report, ServiceLevels, balance, share};
use super::trace::read_trace;
use crate::mock_engine::tokenize;

/// Replays as `options` say. Prints nothing but a progress bar, on a terminal's standard error.
///
/// # Errors
/// [`ReplayError`] if an option, the trace, the gateway or a file cannot be used. Failed requests are in the report.
pub async fn run(options: &Options) -> Result<Report, ReplayError> {
    options.check()?;
    let plan = plan(options)?;
    let client = client(options)?;
    let gateway = options.gateway.trim_end_matches('/');
    let target = Target {
        client: client.clone(),
        completions_url: format!("{gateway}/v1/completions"),
        model: model(&client, gateway, options).await?,
        timeout: Duration::from_secs(options.timeout_s),
    };
    let listed = listed_workers(&client, gateway).await;
    let urls: Vec<String> = listed.iter().map(|worker| worker.url.clone()).collect();
    let oracles = oracle::find(&client, &options.admin, &urls).await?;

    let started = Instant::now();
    let progress = progress(plan.rows.len());
    let outcomes = drive(&plan, &target, &progress).await;
    progress.finish_and_clear();
    let wall_s = started.elapsed().as_secs_f64();

    let best = oracle::read(&client, &oracles, &outcomes).await;
    let replayed = Replayed { options, plan: &plan, outcomes: &outcomes, best: &best, wall_s };
    let report = replayed.report(&listed, oracles.first());
    if let Some(path) = &options.csv {
        write(path, &csv(&outcomes, &best))?;
    }
    if let Some(path) = &options.json {
        write(path, &(serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"))?;
    }
    Ok(report)
}

fn plan(options: &Options) -> Result<Plan, ReplayError> {
    let all = read_trace(&options.trace)?;
    let total = all.len();
    let rows: Vec<_> = all.into_iter().skip(options.skip).take(options.limit).collect();
    if rows.is_empty() {
        return Err(ReplayError::NoRows { path: options.trace.clone(), rows: total, skip: options.skip });
    }
    let prompts = PromptSource { seed: options.seed, vocabulary: options.vocabulary, words_per_block: options.words_per_block };
    Ok(Plan {
        rows,
        prompts,
        as_text: options.text,
        speedup: options.speedup,
        max_output: options.max_output,
        max_inflight: options.max_inflight,
    })
}

/// Proxies are for other networks than the one between a load and its gateway.
fn client(options: &Options) -> Result<Client, ReplayError> {
    let idle = if options.connections == Connections::Fresh { 0 } else { usize::MAX };
    Ok(Client::builder().no_proxy().pool_max_idle_per_host(idle).build()?)
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

async fn model(client: &Client, gateway: &str, options: &Options) -> Result<String, ReplayError> {
    if let Some(model) = &options.model {
        return Ok(model.clone());
    }
    let url = format!("{gateway}/v1/models");
    let models = ask::<Models>(client, &url).await;
    let first = models.and_then(|models| models.data.into_iter().next().ok_or_else(|| "an empty list".to_owned()));
    first.map(|model| model.id).map_err(|reason| ReplayError::NoModel { url, reason })
}

/// A worker as the gateway lists it.
#[derive(Deserialize)]
struct ListedWorker {
    url: String,
    #[serde(default)]
    name: Option<String>,
}

/// What is not our gateway has no such list.
async fn listed_workers(client: &Client, gateway: &str) -> Vec<ListedWorker> {
    ask(client, &format!("{gateway}/debug/workers")).await.unwrap_or_default()
}

impl ListedWorker {
    /// What `x-kv-worker` says for this worker.
    fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.url)
    }
}

struct Replayed<'a> {
    options: &'a Options,
    plan: &'a Plan,
    outcomes: &'a [Outcome],
    /// Oracle tokens beside each outcome.
    best: &'a [Option<u64>],
    wall_s: f64,
}

impl Replayed<'_> {
    fn report(&self, listed: &[ListedWorker], oracle: Option<&Oracle>) -> Report {
        let counted = self.counted();
        let sum = |value: fn(&Outcome) -> Option<u64>| counted.iter().filter_map(|outcome| value(outcome)).sum::<u64>();
        let (prompt_tokens, cached_tokens) = (sum(|o| o.prompt_tokens), sum(|o| o.cached_tokens));
        let with_best = self.outcomes.iter().zip(self.best.iter().copied()).filter(|(outcome, _)| self.counts(outcome));
        let workers = worker_counts(&counted, listed);
        Report {
            requests: self.outcomes.len(),
            failed: self.outcomes.iter().filter(|outcome| !outcome.ok()).count(),
            failures: failures(self.outcomes),
            counted: counted.len(),
            wall_s: self.wall_s,
            ttft_ms: Distribution::of(counted.iter().filter_map(|outcome| outcome.ttft_ms).collect()),
            itl_ms: Distribution::of(counted.iter().flat_map(|outcome| outcome.gaps_ms.iter().copied()).collect()),
            late_ms: Distribution::of(self.outcomes.iter().map(|outcome| outcome.late_ms).collect()),
            slo: ServiceLevels::of(self.options.slo_ttft_ms, self.options.slo_itl_ms, &counted, self.wall_s),
            prompt_tokens,
            cached_tokens,
            prefix_reuse: share(cached_tokens, prompt_tokens),
            oracle: OracleReport::of(&with_best.collect::<Vec<_>>()),
            floor: self.floor(listed.len(), oracle),
            predictions: PredictionReport::of(&counted),
            balance: balance(&workers),
            workers,
        }
    }

    fn counts(&self, outcome: &Outcome) -> bool {
        outcome.ok() && outcome.row >= self.options.warmup
    }

    fn counted(&self) -> Vec<&Outcome> {
        self.outcomes.iter().filter(|outcome| self.counts(outcome)).collect()
    }

    /// Nothing to compare with if no answer says where it came from.
    fn floor(&self, listed: usize, oracle: Option<&Oracle>) -> Option<FloorReport> {
        if self.options.no_policy_floor {
            return None;
        }
        let mut indices = HashMap::new();
        for worker in self.outcomes.iter().filter_map(|outcome| outcome.worker.as_deref()) {
            let next = indices.len();
            indices.entry(worker).or_insert(next);
        }
        let workers = indices.len().max(listed);
        if indices.is_empty() || workers > limits::WORKERS {
            return None;
        }
        let placed: Vec<(&Outcome, usize)> =
            self.outcomes.iter().filter_map(|outcome| Some((outcome, indices[outcome.worker.as_deref()?]))).collect();
        let cache = self.cache(oracle);
        let simulated = floor(placed.iter().map(|(outcome, worker)| self.placement(outcome, *worker)), workers, cache.0, cache.1);
        let counted = placed.iter().filter(|(outcome, _)| self.counts(outcome));
        let cached_tokens = counted.clone().filter_map(|(outcome, _)| outcome.cached_tokens).sum();
        Some(FloorReport::of(simulated, counted.count(), workers, cache, cached_tokens))
    }

    /// Block size and blocks of the simulated caches.
    fn cache(&self, oracle: Option<&Oracle>) -> (usize, Option<usize>) {
        let block_size = self.options.block_size.or(oracle.map(|oracle| oracle.block_size)).unwrap_or(DEFAULT_BLOCK_SIZE);
        let asked = self.options.capacity_tokens.map(|tokens| tokens / block_size);
        (block_size, asked.or(oracle.map(|oracle| oracle.kv_blocks)))
    }

    fn placement(&self, outcome: &Outcome, worker: usize) -> Placement {
        let row = &self.plan.rows[outcome.row];
        let prompts = &self.plan.prompts;
        let tokens = if self.plan.as_text { tokenize(&prompts.text(row)) } else { prompts.tokens(row) };
        Placement { tokens, worker, counted: self.counts(outcome) }
    }
}

/// Requests by worker. Listed workers without requests count too, if the list speaks of the same workers at all.
fn worker_counts(counted: &[&Outcome], listed: &[ListedWorker]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for worker in counted.iter().filter_map(|outcome| outcome.worker.as_ref()) {
        *counts.entry(worker.clone()).or_insert(0) += 1;
    }
    if listed.iter().any(|worker| counts.contains_key(worker.label())) {
        for worker in listed {
            counts.entry(worker.label().to_owned()).or_insert(0);
        }
    }
    counts
}

fn failures(outcomes: &[Outcome]) -> BTreeMap<String, usize> {
    let mut failures = BTreeMap::new();
    for failure in outcomes.iter().filter_map(|outcome| outcome.failure.as_ref()) {
        *failures.entry(failure.clone()).or_insert(0) += 1;
    }
    failures
}

fn progress(rows: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:40} {pos}/{len} requests answered, {eta} left");
    ProgressBar::new(rows as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn csv(outcomes: &[Outcome], best: &[Option<u64>]) -> String {
    let mut text =
        String::from("row,worker,predicted_tokens,prompt_tokens,cached_tokens,oracle_tokens,late_ms,ttft_ms,deltas,failure\n");
    for (outcome, best) in outcomes.iter().zip(best) {
        let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        let quoted =
            |text: &Option<String>| text.as_ref().map(|text| format!("\"{}\"", text.replace('"', "\"\""))).unwrap_or_default();
        let fields = [
            outcome.row.to_string(),
            quoted(&outcome.worker),
            number(outcome.predicted_tokens),
            number(outcome.prompt_tokens),
            number(outcome.cached_tokens),
            number(*best),
            format!("{:.3}", outcome.late_ms),
            outcome.ttft_ms.map(|ms| format!("{ms:.3}")).unwrap_or_default(),
            outcome.deltas.to_string(),
            quoted(&outcome.failure),
        ];
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}

fn write(path: &Path, text: &str) -> Result<(), ReplayError> {
    std::fs::write(path, text).map_err(|source| ReplayError::File { path: path.to_owned(), source })
}

/// vLLM's default on GPUs.
const DEFAULT_BLOCK_SIZE: usize = 16;
