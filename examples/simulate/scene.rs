//! What happens: who asks for what, on which engines, and what breaks.

use std::time::Duration;

use super::engine::EngineOptions;
use super::outcome::Outcome;
use super::workload::{Arrival, Workload};
use crate::mock_engine::{Timing, TimingModel};

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
    /// The engine computes nothing for a while. It is vetoed after three seconds, and again chosen once it makes progress.
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
}

impl Scene {
    fn new(name: &'static str, shows: &'static str, numbers: &Numbers) -> (Self, Workload) {
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
            slo: Slo { ttft: Duration::from_secs(2), itl: Duration::from_millis(200) },
        };
        // Each scene has another seed, so that none is another's echo.
        let seed = name.bytes().fold(numbers.seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        (scene, Workload::new(BLOCK_TOKENS, seed))
    }

    fn with(mut self, work: Workload) -> Self {
        self.arrivals = work.finish();
        self
    }

    /// All scenes.
    pub(super) fn all(numbers: &Numbers) -> Vec<Self> {
        vec![
            Self::hot(numbers, "one hot prefix", "one prompt head that everybody has must not melt one engine", 1),
            Self::hot(numbers, "four hot prefixes", "a few heads spread, and stay where they are", 4),
            Self::pressure(numbers),
            Self::emptied(numbers),
            Self::wedged(numbers),
            Self::siblings(numbers),
            Self::long_and_short(numbers),
        ]
    }

    /// Everybody asks something about one of a few long documents.
    fn hot(numbers: &Numbers, name: &'static str, shows: &'static str, heads: usize) -> Self {
        let (scene, mut work) = Self::new(name, shows, numbers);
        let heads: Vec<_> = (0..heads).map(|_| work.segment(6_000)).collect();
        for at in work.times(48.0 * numbers.rate, scene.length) {
            let head = heads[work.within(0, heads.len() - 1)];
            let tokens = work.within(100, 600);
            let own = work.segment(tokens);
            let output = work.within(20, 60);
            work.arrive(at, &[head, own], output);
        }
        scene.with(work)
    }

    /// Long answers fill small caches; loads are five seconds old, and two gateways see half of the requests each.
    fn pressure(numbers: &Numbers) -> Self {
        let (mut scene, mut work) =
            Self::new("KV pressure, stale loads", "memory runs out where reports are too old to tell", numbers);
        scene.engine.kv_blocks = numbers.kv_blocks.unwrap_or(1_500);
        scene.report_every = numbers.report_every.unwrap_or(Duration::from_secs(5));
        scene.gateways = 2;
        let heads: Vec<_> = (0..40).map(|_| work.segment(512)).collect();
        for at in work.times(15.5 * numbers.rate, scene.length) {
            let head = heads[work.within(0, heads.len() - 1)];
            let tokens = work.within(200, 2_000);
            let own = work.segment(tokens);
            let output = work.within(60, 240);
            work.arrive(at, &[head, own], output);
        }
        scene.with(work)
    }

    fn emptied(numbers: &Numbers) -> Self {
        let (mut scene, mut work) = Self::new(
            "emptied worker",
            "an engine whose cache is gone gets work again, though others hold every prompt",
            numbers,
        );
        scene.faults = vec![Fault::Emptied { engine: 0, at: scene.length / 3 }];
        sessions(&mut work, numbers, scene.length, 40.0);
        scene.with(work)
    }

    fn wedged(numbers: &Numbers) -> Self {
        let (mut scene, mut work) =
            Self::new("wedged worker", "an engine stands still for eight seconds and comes back", numbers);
        let engine = 1.min(numbers.engines - 1);
        scene.faults = vec![Fault::Wedged { engine, at: scene.length / 3, lasts: Duration::from_secs(8) }];
        sessions(&mut work, numbers, scene.length, 40.0);
        scene.with(work)
    }

    /// An agent asks sixteen things at once about something new.
    fn siblings(numbers: &Numbers) -> Self {
        let (scene, mut work) =
            Self::new("burst of siblings", "requests of one new prefix arrive before the first event of it", numbers);
        for at in work.times(1.6 * numbers.rate, scene.length) {
            let head = work.segment(4_000);
            for sibling in 0..16 {
                let tokens = work.within(50, 300);
                let own = work.segment(tokens);
                let output = work.within(10, 40);
                work.arrive(at + Duration::from_millis(2) * sibling, &[head, own], output);
            }
        }
        scene.with(work)
    }

    /// One prompt in ten is twenty times as long as the others, and new.
    fn long_and_short(numbers: &Numbers) -> Self {
        let (scene, mut work) = Self::new("long beside short", "short prompts must not stand behind long ones", numbers);
        let heads: Vec<_> = (0..24).map(|_| work.segment(400)).collect();
        for at in work.times(22.0 * numbers.rate, scene.length) {
            let head = heads[work.within(0, heads.len() - 1)];
            let tokens = if work.happens(0.1) { work.within(10_000, 18_000) } else { work.within(100, 500) };
            let own = work.segment(tokens);
            let output = work.within(10, 60);
            work.arrive(at, &[head, own], output);
        }
        scene.with(work)
    }
}

/// Conversations that grow by a question and an answer with each turn; a system prompt in front is shared by a quarter of them.
fn sessions(work: &mut Workload, numbers: &Numbers, length: Duration, turns_per_s: f64) {
    let systems: Vec<_> = (0..4).map(|_| work.segment(1_200)).collect();
    let mut open: Vec<Vec<(u64, usize)>> = Vec::new();
    for at in work.times(turns_per_s * numbers.rate, length) {
        if open.len() < 120 || work.happens(0.05) {
            open.push(vec![systems[work.within(0, systems.len() - 1)]]);
        }
        let nth = work.within(0, open.len() - 1);
        let tokens = work.within(60, 500);
        let question = work.segment(tokens);
        open[nth].push(question);
        let output = work.within(20, 80);
        work.arrive(at, &open[nth], output);
        let answer = work.segment(output);
        open[nth].push(answer);
        if open[nth].len() > 24 {
            open.swap_remove(nth);
        }
    }
}

/// When an engine without progress is vetoed: three seconds, as liveness does by default.
pub(super) const VETO_AFTER: Duration = Duration::from_secs(3);

const BLOCK_TOKENS: usize = 16;
const FRESH: Duration = Duration::from_millis(100);
