//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use super::error::ReplayError;
use super::limits;

/// Replay a request trace against a gateway and measure latency and prefix reuse.
///
/// Requests are sent when the trace says so, divided by --speedup, whether or not earlier ones were answered. Prompts are
/// made up from the trace's hash ids, so that equal ids are equal text. At the end, what was reused is compared with the
/// gateway's predictions, with what the best engine could have served at each moment (where mock engines tell), and with
/// simulated caches under the same placements and under round robin.
#[derive(Debug, Clone, Parser)]
#[command(name = "replay", after_long_help = EXAMPLES)]
pub struct Options {
    /// Trace in Mooncake's format, one JSON object a line; by default the small one beside this program.
    #[arg(long, value_name = "FILE", default_value = SMALL_TRACE)]
    pub trace: PathBuf,
    /// Gateway, or any server with OpenAI's completions.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub gateway: String,
    /// Mock engine whose request log tells what the best engine could have served; may be repeated. Engines that the
    /// gateway lists at /debug/workers are asked by themselves.
    #[arg(long, value_name = "URL")]
    pub admin: Vec<String>,
    /// Model to ask for; by default the first that the gateway serves.
    #[arg(long)]
    pub model: Option<String>,
    /// Trace time over real time, above 0. Mock engines should run with about the same --speed.
    #[arg(long, default_value_t = 2.0)]
    pub speedup: f64,
    /// Rows to leave out at the start.
    #[arg(long, default_value_t = 0)]
    pub skip: usize,
    /// Rows to send.
    #[arg(long, default_value_t = 4_000)]
    pub limit: usize,
    /// Rows at the start that are sent but not counted.
    #[arg(long, default_value_t = 0)]
    pub warmup: usize,
    /// Send prompts as 512 token ids for each hash id, cut to the row's length (the default).
    #[arg(long, conflicts_with = "text")]
    pub tokens: bool,
    /// Send prompts as text, so that whoever routes must tokenize.
    #[arg(long)]
    pub text: bool,
    /// Words of text for each hash id.
    #[arg(long, default_value_t = 480)]
    pub words_per_block: usize,
    /// Different token ids, or different words `w0`, `w1`, ...; a real engine must know them all.
    #[arg(long, default_value_t = 32_000)]
    pub vocabulary: u32,
    /// Longest answer, in tokens.
    #[arg(long, default_value_t = 512)]
    pub max_output: u64,
    /// Requests in flight; a row that would be one more waits.
    #[arg(long, default_value_t = 4_096)]
    pub max_inflight: usize,
    /// Seed of all made-up content.
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Service level: time to the first token.
    #[arg(long, default_value_t = 500.0)]
    pub slo_ttft_ms: f64,
    /// Service level: gap between tokens.
    #[arg(long, default_value_t = 50.0)]
    pub slo_itl_ms: f64,
    /// Give a request up after this long.
    #[arg(long, default_value_t = 600)]
    pub timeout_s: u64,
    /// Keep connections, or open one for each request.
    #[arg(long, value_enum, default_value_t = Connections::Pooled)]
    pub connections: Connections,
    /// Do not simulate caches for comparison.
    #[arg(long)]
    pub no_policy_floor: bool,
    /// Tokens of a block in the simulated caches; by default the mock engines' own, or 16.
    #[arg(long)]
    pub block_size: Option<usize>,
    /// Tokens that each simulated cache holds; by default as many as the mock engines' caches, or without bound.
    #[arg(long)]
    pub capacity_tokens: Option<usize>,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a line for each request as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a made-up trace of conversations and exit.
    #[arg(long, value_name = "FILE")]
    pub generate: Option<PathBuf>,
    /// Rows of the made-up trace.
    #[arg(long, default_value_t = 300, requires = "generate")]
    pub rows: usize,
}

/// What to do with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Connections {
    /// Keep them for the next request.
    Pooled,
    /// Open one for each request.
    Fresh,
}

impl Options {
    /// Checks what the parser cannot.
    ///
    /// # Errors
    /// [`ReplayError::Option`] for the first option that is out of range.
    pub fn check(&self) -> Result<(), ReplayError> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let fail = |option, expected, got: String| Err(ReplayError::Option { option, expected, got });
        if !positive(self.speedup) {
            return fail("speedup", "finite and above 0", self.speedup.to_string());
        }
        for (option, value) in [("slo-ttft-ms", self.slo_ttft_ms), ("slo-itl-ms", self.slo_itl_ms)] {
            if !positive(value) {
                return fail(option, "finite and above 0", value.to_string());
            }
        }
        let counts = [
            ("max-inflight", self.max_inflight as u64),
            ("words-per-block", self.words_per_block as u64),
            ("vocabulary", u64::from(self.vocabulary)),
            ("max-output", self.max_output),
            ("timeout-s", self.timeout_s),
            ("block-size", self.block_size.map_or(1, |tokens| tokens as u64)),
            ("capacity-tokens", self.capacity_tokens.map_or(1, |tokens| tokens as u64)),
        ];
        if let Some((option, _)) = counts.into_iter().find(|&(_, value)| value == 0) {
            return fail(option, "at least 1", "0".to_owned());
        }
        if self.max_inflight > limits::INFLIGHT {
            return fail("max-inflight", "at most 65536", self.max_inflight.to_string());
        }
        Ok(())
    }
}

const SMALL_TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/small.jsonl");

const EXAMPLES: &str = "\
Examples:
  Eight mock engines behind a gateway, ten times as fast as real ones:
    mock_engine --engines 8 --speed 10 &
    gateway --engine http://127.0.0.1:8100,events=tcp://127.0.0.1:5557,replay=tcp://127.0.0.1:5558 ... &
    replay --speedup 10

  The first 2,000 rows of a real trace, with a report to keep:
    replay --trace conversation_trace.jsonl --limit 2000 --speedup 20 --json report.json

  The small trace again, as it stands in the repository:
    replay --generate small.jsonl --rows 300 --seed 7";

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str]) -> Result<(), String> {
        let options = Options::try_parse_from([&["replay"], arguments].concat()).map_err(|error| error.to_string())?;
        options.check().map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_pass() {
        assert_eq!(check(&[]), Ok(()));
        assert!(Options::try_parse_from(["replay"]).unwrap().trace.exists());
    }

    #[test]
    fn a_speedup_must_be_a_positive_number() {
        for bad in ["0", "-1", "NaN", "inf"] {
            let error = check(&[&format!("--speedup={bad}")]).unwrap_err();
            assert!(error.starts_with("--speedup must be finite and above 0"), "{error}");
        }
        assert!(check(&["--max-inflight=0"]).unwrap_err().contains("--max-inflight must be at least 1, got 0"));
        assert!(check(&["--tokens", "--text"]).is_err());
    }
}
