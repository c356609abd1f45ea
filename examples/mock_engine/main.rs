//! A fleet of mock engines in a process of its own.
//!
//! ```text
//! cargo run --release --example mock_engine -- --engines 4 --port 8100 --events-port 5557
//! ```

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use kv_examples::mock_engine::{
    Calibration, Dialect, MockConfig, MockError, MockFleet, REFERENCE_TOKENS, ReplayLayout, Timing, TimingModel,
};

/// Mock vLLM or SGLang engines: OpenAI-compatible HTTP, KV-cache events over ZeroMQ, no GPU and no model.
///
/// Every engine schedules, caches, evicts and preempts like a real one and takes as long as its timing model says. Its
/// answers are made-up words; the tokens of a prompt are its words, unless it comes as token ids.
#[derive(Debug, Parser)]
#[command(name = "mock_engine", after_long_help = EXAMPLES)]
struct Options {
    /// Engines of the fleet.
    #[arg(long, default_value_t = 2)]
    engines: usize,
    /// Data-parallel ranks of each engine; each has a cache and an event stream of its own.
    #[arg(long, default_value_t = 1)]
    ranks: usize,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// HTTP port of the first engine, the others follow; 0: any free ports.
    #[arg(long, default_value_t = 8100)]
    port: u16,
    /// First ZeroMQ port: engine i publishes on this + 2i and replays on this + 2i + 1; 0: any free ports.
    #[arg(long, default_value_t = 5557)]
    events_port: u16,
    /// Name of the served model.
    #[arg(long, default_value = "mock")]
    model: String,
    /// Whose events and side endpoints.
    #[arg(long, value_enum, default_value_t = DialectName::Vllm)]
    dialect: DialectName,
    /// Tokens of a block.
    #[arg(long, default_value_t = 16)]
    block_size: usize,
    /// Tokens that each rank's cache holds.
    #[arg(long, default_value_t = REFERENCE_TOKENS, conflicts_with = "kv_blocks")]
    kv_tokens: usize,
    /// Blocks that each rank's cache holds, instead of --kv-tokens. A small number makes it evict.
    #[arg(long)]
    kv_blocks: Option<usize>,
    /// Tokens of prompt and output together.
    #[arg(long, default_value_t = 1 << 18)]
    context_length: usize,
    /// Tokens that one pass computes at most.
    #[arg(long, default_value_t = 8_192)]
    max_batched_tokens: usize,
    /// Requests that a rank runs at once.
    #[arg(long, default_value_t = 256)]
    max_running: usize,
    /// Admit a prompt as soon as its first chunk fits, not only when all of it does.
    #[arg(long)]
    no_reserve_full_prompt: bool,
    /// Do not decode in passes that compute prompts (SGLang's way).
    #[arg(long)]
    prefill_first: bool,
    /// Cost of a pass: `polynomial`, `linear`, or `fit:FILE` with a measured table in JSON.
    #[arg(long, default_value = "polynomial")]
    timing: String,
    /// Simulated time over real time: 10 makes every engine ten times as fast.
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// ZeroMQ topic; by default `kv@host:port@model` for vLLM and empty for SGLang.
    #[arg(long)]
    topic: Option<String>,
    /// Answer replay requests without the topic frame, as vLLM before 0.26 and SGLang before 0.5.22 do.
    #[arg(long)]
    bare_replay: bool,
    /// Batches that the replay socket can repeat.
    #[arg(long, default_value_t = 10_000)]
    buffer_steps: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DialectName {
    Vllm,
    Sglang,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), MockError> {
    let fleet = MockFleet::start(options.config()?).await?;
    print_engines(&fleet);
    if let Err(error) = tokio::signal::ctrl_c().await {
        eprintln!("cannot wait for Ctrl-C, stopping: {error}");
    }
    fleet.shutdown().await;
    Ok(())
}

impl Options {
    fn config(&self) -> Result<MockConfig, MockError> {
        Ok(MockConfig {
            engines: self.engines,
            ranks: self.ranks,
            model: self.model.clone(),
            dialect: match self.dialect {
                DialectName::Vllm => Dialect::Vllm,
                DialectName::Sglang => Dialect::Sglang,
            },
            block_size: self.block_size,
            kv_blocks: self.kv_blocks.unwrap_or(self.kv_tokens / self.block_size.max(1)),
            max_model_len: self.context_length,
            max_batched_tokens: self.max_batched_tokens,
            max_running: self.max_running,
            reserve_full_prompt: !self.no_reserve_full_prompt,
            prefill_first: self.prefill_first,
            timing: Timing { model: self.timing_model()?, speed: self.speed },
            topic: self.topic.clone(),
            replay_layout: if self.bare_replay { ReplayLayout::Bare } else { ReplayLayout::WithTopic },
            replay_batches: self.buffer_steps,
            host: self.host,
            http_port: self.port,
            events_port: self.events_port,
        })
    }

    fn timing_model(&self) -> Result<TimingModel, MockError> {
        match self.timing.split_once(':') {
            None if self.timing == "polynomial" => Ok(TimingModel::Polynomial),
            None if self.timing == "linear" => Ok(TimingModel::Linear),
            Some(("fit", path)) => Ok(TimingModel::Calibrated(Calibration::read(&PathBuf::from(path))?)),
            _ => Err(MockError::Config {
                field: "timing.model",
                expected: "`polynomial`, `linear` or `fit:FILE`".to_owned(),
                got: format!("`{}`", self.timing),
            }),
        }
    }
}

fn print_engines(fleet: &MockFleet) {
    println!("{:<8} {:<28} {:<26} replay", "engine", "http", "events");
    for engine in fleet.engines() {
        for (rank, (events, replay)) in engine.rank_endpoints().into_iter().enumerate() {
            let name = format!("{}.{rank}", engine.index());
            println!("{name:<8} {:<28} {events:<26} {replay}", engine.http_url());
        }
    }
    let url = fleet.engines()[0].http_url();
    println!("\ntry:");
    println!("  curl {url}/v1/completions -H 'content-type: application/json' \\");
    println!("    -d '{{\"model\": \"{}\", \"prompt\": \"to be or not to be\", \"max_tokens\": 8}}'", fleet.config().model);
    println!("  curl {url}/metrics");
    println!("  curl {url}/admin/fleet\n\nCtrl-C stops.");
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

const EXAMPLES: &str = "\
Examples:
  Two engines that evict soon, ten times as fast as real ones:
    mock_engine --kv-blocks 256 --speed 10

  One SGLang engine with two ranks, on free ports:
    mock_engine --dialect sglang --engines 1 --ranks 2 --port 0 --events-port 0

  Break the first engine's event stream, look at the damage, and compare with the truth:
    curl -X POST 'localhost:8100/admin/faults/0/drop?batches=20'
    curl localhost:8100/admin/faults/0
    curl localhost:8100/admin/truth -d '{\"token_ids\": [1, 2, 3]}'

  The faults: drop?batches=N, delay?ms=N, restart-publisher, pause, resume, admit-delay?ms=N, fail?status=N,
  fail?after_tokens=N; each under /admin/faults/ENGINE/ or /admin/faults/all/.";
