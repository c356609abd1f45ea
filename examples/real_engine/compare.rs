//! Sends requests through a gateway and holds its predictions against what the engines report.
//!
//! `compare.sh` beside this file starts two real engines and the gateway, and runs it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use indicatif::ProgressBar;
use kv_examples::client::{Evidence, Plan, PromptGenerator, PromptOptions};
use reqwest::header::HeaderMap;
use reqwest::{Client, Url};
use serde::Deserialize;
use tokio::time::{Instant, sleep};

/// Sends requests with shared prefixes through the gateway, one after the other, and prints predicted against reported cached
/// tokens for each worker, with every difference. Exits with 1 when too few are equal.
#[derive(Parser)]
#[command(name = "compare", version)]
struct Options {
    /// The gateway's HTTP address.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    gateway: Url,
    /// How many requests.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Pause after each answer, so that its events reach the gateway before the next request.
    #[arg(long, default_value_t = 50)]
    pause_ms: u64,
    /// How many percent of the answers must report what was predicted.
    #[arg(long, default_value_t = 99.0)]
    percent_min: f64,
    #[command(flatten)]
    prompts: PromptOptions,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let outcomes = match run(&options).await {
        Ok(outcomes) => outcomes,
        Err(reason) => {
            eprintln!("{}: {reason}", options.gateway);
            return ExitCode::FAILURE;
        }
    };
    print_table(&outcomes);
    let percent = print_verdict(&outcomes);
    if percent >= options.percent_min { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What became of one request.
struct Outcome {
    name: String,
    /// The worker's name, or why none answered.
    worker: String,
    status: u16,
    prompt_tokens: usize,
    /// Nothing where the gateway makes no prediction.
    predicted: Option<u64>,
    reported: u64,
}

impl Outcome {
    fn is_equal(&self) -> bool {
        self.status == 200 && self.predicted == Some(self.reported)
    }
}

async fn run(options: &Options) -> Result<Vec<Outcome>, String> {
    let client = Client::builder().no_proxy().timeout(ANSWER_MAX).build().map_err(|error| error.to_string())?;
    wait_for_engines(&client, &options.gateway).await?;
    let model = first_model(&client, &options.gateway).await.map_err(|error| error.to_string())?;
    let model = model.ok_or("expected a model in its list, got none")?;
    send_all(&client, options, &model).await.map_err(|error| error.to_string())
}

async fn send_all(client: &Client, options: &Options, model: &str) -> reqwest::Result<Vec<Outcome>> {
    let mut prompts = PromptGenerator::new(options.prompts.clone(), 1);
    let (mut outcomes, progress) = (Vec::new(), ProgressBar::new(options.requests));
    for _ in 0..options.requests {
        let plan = prompts.plan();
        let (outcome, output) = send(client, &options.gateway, model, &plan).await?;
        prompts.learn(&plan.prompt, &output);
        outcomes.push(outcome);
        progress.inc(1);
        sleep(Duration::from_millis(options.pause_ms)).await;
    }
    progress.finish_and_clear();
    Ok(outcomes)
}

async fn send(client: &Client, gateway: &Url, model: &str, plan: &Plan) -> reqwest::Result<(Outcome, Vec<u32>)> {
    let answer = client.post(at(gateway, "/v1/completions")).json(&plan.body(model, plan.extra())).send().await?;
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let evidence = Evidence::read(&answer.bytes().await?);
    let worker = text(&headers, "x-kv-worker").unwrap_or("nobody").to_owned();
    let worker = text(&headers, "x-kv-rank").map_or(worker.clone(), |rank| format!("{worker} rank {rank}"));
    let outcome = Outcome {
        name: plan.name(),
        worker,
        status,
        prompt_tokens: plan.prompt.len(),
        predicted: text(&headers, "x-kv-predicted-tokens").and_then(|tokens| tokens.parse().ok()),
        // Some releases write null for 0.
        reported: evidence.cached_tokens.unwrap_or(0),
    };
    Ok((outcome, evidence.output_token_ids.unwrap_or_default()))
}

/// Waits until the gateway has found all of its engines.
async fn wait_for_engines(client: &Client, gateway: &Url) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Health {
        ready_engines: usize,
        engines: usize,
    }
    let deadline = Instant::now() + READY_MAX;
    loop {
        let health = async { client.get(at(gateway, "/health")).send().await?.json::<Health>().await };
        let state = match health.await {
            Ok(Health { ready_engines, engines }) if ready_engines == engines => return Ok(()),
            Ok(Health { ready_engines, engines }) => format!("{ready_engines} of {engines} engines are ready"),
            Err(error) => error.to_string(),
        };
        if Instant::now() > deadline {
            return Err(format!("not ready within {} s: {state}", READY_MAX.as_secs()));
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn first_model(client: &Client, gateway: &Url) -> reqwest::Result<Option<String>> {
    #[derive(Deserialize)]
    struct Models {
        data: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let models: Models = client.get(at(gateway, "/v1/models")).send().await?.error_for_status()?.json().await?;
    Ok(models.data.into_iter().next().map(|model| model.id))
}

fn at(gateway: &Url, path: &str) -> Url {
    let mut url = gateway.clone();
    url.set_path(path);
    url
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// One line of the table.
#[derive(Default)]
struct Sum {
    requests: u64,
    equal: u64,
    hits: u64,
    prompt_tokens: u64,
    predicted: u64,
    reported: u64,
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        self.requests += 1;
        self.equal += u64::from(outcome.is_equal());
        self.hits += u64::from(outcome.reported > 0);
        self.prompt_tokens += outcome.prompt_tokens as u64;
        self.predicted += outcome.predicted.unwrap_or(0);
        self.reported += outcome.reported;
    }
}

fn print_table(outcomes: &[Outcome]) {
    let (mut workers, mut all) = (BTreeMap::<&str, Sum>::new(), Sum::default());
    for outcome in outcomes {
        workers.entry(&outcome.worker).or_default().add(outcome);
        all.add(outcome);
    }
    let columns = ["requests", "equal", "with hits", "prompt tokens", "predicted", "reported"];
    println!("{:<28}{}", "worker", columns.map(|column| format!("{column:>15}")).concat());
    for (worker, sum) in workers.into_iter().chain([("all", all)]) {
        let numbers = [sum.requests, sum.equal, sum.hits, sum.prompt_tokens, sum.predicted, sum.reported];
        println!("{worker:<28}{}", numbers.map(|number| format!("{number:>15}")).concat());
    }
}

/// Lists every difference and returns how many percent are equal.
fn print_verdict(outcomes: &[Outcome]) -> f64 {
    for outcome in outcomes.iter().filter(|outcome| !outcome.is_equal()) {
        let Outcome { name, worker, status, prompt_tokens, predicted, reported } = outcome;
        let predicted = predicted.map_or("nothing".to_owned(), |tokens| tokens.to_string());
        println!("{name} ({prompt_tokens} tokens, {worker}, status {status}): predicted {predicted}, reported {reported}");
    }
    let equal = outcomes.iter().filter(|outcome| outcome.is_equal()).count();
    #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
    let percent = 100.0 * equal as f64 / outcomes.len() as f64;
    println!("{equal} of {} answers report what was predicted: {percent:.1} %", outcomes.len());
    percent
}

/// A tiny model on a busy CPU needs a second for 80 tokens.
const ANSWER_MAX: Duration = Duration::from_mins(5);

/// How long the gateway may take to find its engines, once they are up.
const READY_MAX: Duration = Duration::from_mins(1);
