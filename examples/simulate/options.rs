//! The command line.

use std::time::Duration;

use clap::Parser;

use super::scene::{Numbers, Own, Scene, Slo};
use super::seeds::Seeds;

/// Plays a fleet in virtual time and compares who chooses its engines best.
///
/// Each scene is an open-loop load on engines with chunked prefill, decoding, and caches that evict the least recently used; the
/// figures are the same on every machine. A gateway drives the library as a real one does: index, predictions, ledgers, liveness,
/// overload, warm-up and audit. Goodput counts the requests that kept both promises, --ttft-ms and --itl-ms. With several seeds, each
/// figure is the median over them, and the spread of goodput half of the distance from its 10th to its 90th percentile.
#[derive(Clone, Debug, Parser)]
#[command(name = "simulate", version, after_help = EXAMPLES)]
pub struct Options {
    /// Engines in the fleet
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub engines: u16,

    /// Length of each scene
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,

    /// Requests a second for each engine, over what the scene has by itself
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    pub rate: f64,

    /// Speed of the engines over that of one accelerator that serves a model of 8 billion parameters
    #[arg(long, value_name = "FACTOR", default_value_t = 0.25, value_parser = positive)]
    pub speed: f64,

    /// Blocks of 16 tokens in each engine's cache, in place of what the scenes have
    #[arg(long, value_name = "BLOCKS", value_parser = count)]
    pub kv_blocks: Option<usize>,

    /// How often engines report their load, in place of what the scenes have
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub report_every: Option<u64>,

    /// The longest time to the first token that keeps the promise
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    pub ttft_ms: u64,

    /// The longest mean time from one token to the next that keeps it
    #[arg(long, value_name = "MS", default_value_t = 200)]
    pub itl_ms: u64,

    /// Only scenes whose name has this in it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub scene: String,

    /// Seed of everything that is drawn, or a range of seeds
    #[arg(long, value_name = "FIRST[-LAST]", default_value = "7")]
    pub seeds: Seeds,

    /// Plays a scene of your own beside the others, "your own", with so many requests a second in all
    #[arg(long, value_name = "COUNT", value_parser = positive, help_heading = "Your own scene")]
    pub own_per_s: Option<f64>,

    /// Prompt heads that its requests share: system prompts, documents
    #[arg(long, value_name = "COUNT", default_value = "20", value_parser = count, help_heading = "Your own scene")]
    pub own_heads: usize,

    /// Tokens of each head
    #[arg(long, value_name = "TOKENS", default_value = "2000", value_parser = count, help_heading = "Your own scene")]
    pub own_head_tokens: usize,

    /// Tokens behind the head at most; at least half as many
    #[arg(long, value_name = "TOKENS", default_value = "500", value_parser = count, help_heading = "Your own scene")]
    pub own_tail_tokens: usize,

    /// Tokens of an answer at most; at least half as many
    #[arg(long, value_name = "TOKENS", default_value = "100", value_parser = count, help_heading = "Your own scene")]
    pub own_output_tokens: usize,
}

impl Options {
    /// The scenes that were asked for, as `seed` has them.
    pub fn scenes(&self, seed: u64) -> Vec<Scene> {
        Scene::named(&self.scene, &self.numbers(seed))
    }

    /// The scene of this name.
    pub(super) fn scene(&self, name: &str, seed: u64) -> Option<Scene> {
        Scene::named(name, &self.numbers(seed)).into_iter().find(|scene| scene.name == name)
    }

    fn numbers(&self, seed: u64) -> Numbers {
        let own = |per_s| Own {
            per_s,
            heads: self.own_heads,
            head_tokens: self.own_head_tokens,
            tail_tokens: self.own_tail_tokens,
            output_tokens: self.own_output_tokens,
        };
        Numbers {
            engines: usize::from(self.engines),
            seconds: self.seconds,
            // The scenes' own rates are for eight engines.
            rate: self.rate * f64::from(self.engines) / 8.0,
            kv_blocks: self.kv_blocks,
            report_every: self.report_every.map(Duration::from_millis),
            speed: self.speed,
            seed,
            slo: Slo { ttft: Duration::from_millis(self.ttft_ms), itl: Duration::from_millis(self.itl_ms) },
            own: self.own_per_s.map(own),
        }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("expected a number, got {text:?}"))?;
    if (1e-3..=1e6).contains(&number) { Ok(number) } else { Err(format!("expected 0.001 to 1000000, got {text}")) }
}

fn count(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|_| format!("expected a whole number, got {text:?}"))?;
    if (1..=10_000_000).contains(&number) { Ok(number) } else { Err(format!("expected 1 to 10000000, got {text}")) }
}

const EXAMPLES: &str = "\
Examples:
  simulate
      every scene and every policy
  simulate --seeds 1001-1040 --scene 'one hot prefix'
      two of them, each drawn forty times
  simulate --engines 64 --seconds 10 --report-every 1000
      a larger fleet whose loads are a second old
  simulate --scene 'your own' --own-per-s 12 --own-head-tokens 8000 --own-output-tokens 300
      your own load";
