//! The built-in load.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::engine::{Engine, EngineKind};
use super::journal::{Inference, Journal, Line, NO_ANSWER, RequestLine};
use crate::client::{Evidence, Plan, PromptGenerator, PromptOptions};

/// The built-in load.
#[derive(Args, Clone, Debug)]
pub struct LoadOptions {
    /// Send this many requests.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub load: u64,
    /// Requests at the same time. With more than one, only some order of their starts explains the answers.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub concurrency: u16,
    /// Pause after each answer and each clear, so that its events come before the next request.
    #[arg(long, default_value_t = 50)]
    pub pause_ms: u64,
    /// Empty the cache before every so many requests.
    #[arg(long, value_name = "N")]
    pub clear_every: Option<u64>,
    /// What is asked.
    #[command(flatten)]
    pub prompts: PromptOptions,
}

/// Sends the load to `engine` and records every request.
pub(super) async fn send(options: &LoadOptions, ranks: u32, engine: Arc<Engine>, journal: &Journal) {
    let prompts = Mutex::new(PromptGenerator::new(options.prompts.clone(), ranks));
    let shared =
        Arc::new(Shared { options: options.clone(), prompts, engine, journal: journal.clone(), progress: bar(options.load) });
    let mut clients = JoinSet::new();
    for _ in 0..options.concurrency {
        let shared = shared.clone();
        clients.spawn(async move { client(&shared).await });
    }
    clients.join_all().await;
    shared.progress.finish_and_clear();
}

struct Shared {
    options: LoadOptions,
    prompts: Mutex<PromptGenerator>,
    engine: Arc<Engine>,
    journal: Journal,
    progress: ProgressBar,
}

async fn client(shared: &Shared) {
    let pause = Duration::from_millis(shared.options.pause_ms);
    loop {
        let plan = shared.prompts.lock().plan();
        if plan.number >= shared.options.load {
            return;
        }
        if shared.options.clear_every.is_some_and(|every| plan.number > 0 && plan.number.is_multiple_of(every)) {
            clear(shared).await;
            sleep(pause).await;
        }
        let line = complete(shared, &plan).await;
        if let Some(output) = line.inference.as_ref().and_then(|inference| inference.output_token_ids.as_ref()) {
            shared.prompts.lock().learn(&plan.prompt, output);
        }
        shared.progress.inc(1);
        shared.journal.add(Line::Request(Box::new(line))).await;
        sleep(pause).await;
    }
}

async fn clear(shared: &Shared) {
    let (path, t_start) = (shared.engine.kind.clear_path(), shared.journal.now());
    let answer = shared.engine.client.post(shared.engine.url(path)).send().await;
    let status = answer.map_or(NO_ANSWER, |answer| answer.status().as_u16());
    let (name, path, t) = ("clear".to_owned(), Some(path.to_owned()), shared.journal.now());
    shared.journal.add(Line::Request(Box::new(RequestLine { name, path, t_start, t, status, inference: None }))).await;
}

async fn complete(shared: &Shared, plan: &Plan) -> RequestLine {
    let (engine, journal) = (&shared.engine, &shared.journal);
    let mut extra = plan.extra();
    if let (Some(rank), EngineKind::Sglang) = (plan.rank, engine.kind) {
        extra.insert("routed_dp_rank".to_owned(), rank.into());
    }
    let body = plan.body(&engine.model, extra.clone());
    let mut request = engine.client.post(engine.url(COMPLETIONS)).timeout(ANSWER_MAX).json(&body);
    if let Some(rank) = plan.rank {
        request = request.header("X-data-parallel-rank", rank);
    }
    let t_start = journal.now();
    let (status, evidence) = answer(request).await;
    let mut inference = Inference {
        model: plan.adapter.clone().or_else(|| Some(engine.model.clone())),
        rank: plan.rank,
        prompt_token_ids: Some(plan.prompt.clone()),
        max_tokens: Some(plan.max_tokens.into()),
        extra,
        ..Default::default()
    };
    inference.add(evidence);
    RequestLine { name: plan.name(), path: None, t_start, t: journal.now(), status, inference: Some(inference) }
}

/// Status and evidence; of an answer that does not come, none.
async fn answer(request: reqwest::RequestBuilder) -> (u16, Evidence) {
    let Ok(answer) = request.send().await else { return (NO_ANSWER, Evidence::default()) };
    let status = answer.status().as_u16();
    match answer.bytes().await {
        Ok(body) => (status, Evidence::read(&body)),
        Err(_) => (NO_ANSWER, Evidence::default()),
    }
}

fn bar(len: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} requests, {elapsed}").expect("the template is right");
    ProgressBar::new(len).with_style(style)
}

const COMPLETIONS: &str = "/v1/completions";

/// A tiny model on a busy CPU needs a second for 80 tokens; a large one may need minutes.
const ANSWER_MAX: Duration = Duration::from_mins(10);
