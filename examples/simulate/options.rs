//! The command line.

use std::time::Duration;

use clap::Parser;

use super::scene::{Numbers, Scene};

/// Plays a fleet in virtual time and compares who chooses its engines best.
///
/// Each scene is an open-loop load on engines with chunked prefill, decoding, and caches that evict the least recently used; the
/// figures are the same on every machine. Goodput counts the requests that had their first token within a second and the others
/// every 150 ms on average.
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
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub rate: f64,

    /// Speed of the engines over that of one accelerator that serves a model of 8 billion parameters
    #[arg(long, value_name = "FACTOR", default_value_t = 0.25)]
    pub speed: f64,

    /// Blocks of 16 tokens in each engine's cache, in place of what the scenes have
    #[arg(long, value_name = "BLOCKS")]
    pub kv_blocks: Option<usize>,

    /// How often engines report their load, in place of what the scenes have
    #[arg(long, value_name = "MS")]
    pub report_every: Option<u64>,

    /// Only scenes whose name has this in it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub scene: String,

    /// Seed of everything that is drawn
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    pub seed: u64,
}

impl Options {
    /// The scenes that were asked for.
    pub fn scenes(&self) -> Vec<Scene> {
        let engines = usize::from(self.engines);
        let numbers = Numbers {
            engines,
            seconds: self.seconds,
            // The scenes' own rates are for eight engines.
            rate: self.rate * f64::from(self.engines) / 8.0,
            kv_blocks: self.kv_blocks,
            report_every: self.report_every.map(Duration::from_millis),
            speed: self.speed,
            seed: self.seed,
        };
        Scene::all(&numbers).into_iter().filter(|scene| scene.name.contains(&self.scene)).collect()
    }
}

const EXAMPLES: &str = "\
Examples:
  simulate
      every scene and every policy
  simulate --scene 'one hot prefix' --rate 1.5
      one of them, with half as much load again
  simulate --engines 64 --seconds 10 --report-every 1000
      a larger fleet whose loads are a second old";
