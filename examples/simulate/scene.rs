//! What happens: who asks for what, on which engines, and what breaks.

use std::time::Duration;

use super::contender::Part;
use super::engine::EngineOptions;
use super::outcome::Outcome;
use super::workload::{Arrival, Workload};
use crate::mock_engine::{Prompt, Timing, TimingModel};

/// One scene.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Its name.
    pub name: &'static str,
    /// What it is to show.
    pub shows: &'static str,
    /// How many engines there are.
    pub engines: usize,
    /// What they are like.
    pub engine: EngineOptions,
    /// How many gateways share the requests, each with books of its own.
    pub gateways: usize,
    /// How often engines report their load.
    pub report_every: Duration,
    /// How late events of the caches come.
    pub event_delay: Duration,
    /// What breaks.
    pub faults: Vec<Fault>,
    /// Who asks for what.
    pub arrivals: Vec<Arrival>,
    /// From the first arrival to the last.
    pub length: Duration,
    /// What users were promised.
    pub slo: Slo,
    /// What every engine has served, and has in its cache, before the first request.
    pub served: Vec<Prompt>,
    /// Of so many engines, no event tells that: their publishers were started again since.
    pub silent: usize,
    /// The part of the gateway's books that it is about: it is played without it as well.
    pub about: Option<Part>,
}

/// Something that breaks.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// The engine loses its cache, and says so.
    Emptied {
        /// Which.
        engine: usize,
        /// When.
        at: Duration,
    },
    /// The engine computes nothing for a while; its HTTP side answers.
    Wedged {
        /// Which.
        engine: usize,
        /// From when.
        at: Duration,
        /// How long.
        lasts: Duration,
    },
}

/// What users were promised.
#[derive(Debug, Clone, Copy)]
pub struct Slo {
    /// The longest time to the first token.
    pub ttft: Duration,
    /// The longest mean time from one token to the next.
    pub itl: Duration,
}

impl Slo {
    /// Whether a request got what was promised.
    pub fn is_kept_by(&self, outcome: &Outcome) -> bool {
        let gaps = u32::try_from(outcome.output_tokens.saturating_sub(1)).unwrap_or(u32::MAX);
        let steady = outcome.rest.is_some_and(|rest| rest <= self.itl * gaps);
        outcome.ttft.is_some_and(|ttft| ttft <= self.ttft) && steady
    }
}

/// What the scenes can be given.
#[derive(Debug, Clone)]
pub(super) struct Numbers {
    pub(super) engines: usize,
    pub(super) seconds: u64,
    /// Requests a second over what each scene has by itself.
    pub(super) rate: f64,
    pub(super) kv_blocks: Option<usize>,
    pub(super) report_every: Option<Duration>,
    /// Engines' speed over that of one accelerator serving a model of 8 billion parameters.
    pub(super) speed: f64,
    pub(super) seed: u64,
    pub(super) slo: Slo,
    /// A scene of the user's own.
    pub(super) own: Option<Own>,
}

/// What the user's own scene is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own {
    /// Requests a second.
    pub(super) per_s: f64,
    /// Prompt heads that requests share, and their tokens.
    pub(super) heads: usize,
    pub(super) head_tokens: usize,
    /// Tokens behind the head, and of the answer, at most; at least half of that.
    pub(super) tail_tokens: usize,
    pub(super) output_tokens: usize,
}

impl Scene {
    pub(super) fn new(name: &'static str, shows: &'static str, numbers: &Numbers) -> (Self, Workload) {
        let engine = EngineOptions {
            block_size: BLOCK_TOKENS,
            kv_blocks: numbers.kv_blocks.unwrap_or(8_192),
            max_batched_tokens: 2_048,
            timing: Timing { model: TimingModel::Polynomial, speed: numbers.speed },
        };
        let scene = Self {
            name,
            shows,
            engines: numbers.engines,
            engine,
            gateways: 1,
            report_every: numbers.report_every.unwrap_or(FRESH),
            event_delay: Duration::from_millis(5),
            faults: Vec::new(),
            arrivals: Vec::new(),
            length: Duration::from_secs(numbers.seconds),
            slo: numbers.slo,
            served: Vec::new(),
            silent: 0,
            about: None,
        };
        // Each scene has another seed, so that none is another's echo.
        let seed = name.bytes().fold(numbers.seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        (scene, Workload::new(BLOCK_TOKENS, seed))
    }

    pub(super) fn with(mut self, work: Workload) -> Self {
        self.arrivals = work.finish();
        self
    }
}

const BLOCK_TOKENS: usize = 16;
const FRESH: Duration = Duration::from_millis(100);
