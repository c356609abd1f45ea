//! Virtual time: what happens next, until nothing does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use kv_index::{Block, BlockName, ChainIndex, ChainWorker, ContentHash, Index, Removed, Stored, View, Worker};

use super::contender::Contender;
use super::engine::Engine;
use super::figures::Figures;
use super::gateway::{Gateway, Placed, Report};
use super::outcome::Outcome;
use super::scene::{Fault, Scene, VETO_AFTER};
use crate::mock_engine::CacheEvent;
use crate::mock_engine::{Pass, Request};

/// Plays `scene` with `contender` choosing. The same arguments give the same figures.
pub fn run(scene: &Scene, contender: &Contender, seed: u64) -> Figures {
    let mut world = World::new(scene, contender, seed);
    world.play();
    Figures::of(&world.outcomes, scene.engines, scene.length, scene.slo)
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Arrives(usize),
    PassEnds(usize),
    EventsCome(usize),
    Reports(usize),
    Breaks(usize),
    Mends(usize),
    Vetoed(usize),
}

struct World<'a> {
    scene: &'a Scene,
    contender: &'a Contender,
    seed: u64,
    now: Duration,
    next: BinaryHeap<Reverse<(Duration, u64, Happening)>>,
    scheduled: u64,
    engines: Vec<Engine>,
    gateways: Vec<Gateway>,
    index: ChainIndex,
    writers: Vec<ChainWorker>,
    /// Events on their way, by engine.
    events: Vec<std::collections::VecDeque<Vec<CacheEvent>>>,
    /// Prompt tokens computed as of the last report, by engine.
    reported_tokens: Vec<usize>,
    /// Prompt tokens in a second, by engine.
    rates: Vec<f64>,
    placed: Vec<Option<Placed>>,
    outcomes: Vec<Outcome>,
    left: usize,
    stored: Vec<Stored>,
    removed: Vec<Removed>,
}

impl<'a> World<'a> {
    fn new(scene: &'a Scene, contender: &'a Contender, seed: u64) -> Self {
        let index = ChainIndex::new();
        let writers: Vec<_> = (0..scene.engines).map(|_| index.add_worker().expect("an empty index has room")).collect();
        let mut world = Self {
            scene,
            contender,
            seed,
            now: Duration::ZERO,
            next: BinaryHeap::new(),
            scheduled: 0,
            engines: (0..scene.engines).map(|_| Engine::new(&scene.engine)).collect(),
            gateways: (0..scene.gateways).map(|_| Gateway::new(scene.engines, scene.engine.block_size)).collect(),
            index,
            writers,
            events: vec![std::collections::VecDeque::new(); scene.engines],
            reported_tokens: vec![0; scene.engines],
            rates: vec![0.0; scene.engines],
            placed: vec![None; scene.arrivals.len()],
            outcomes: vec![Outcome::default(); scene.arrivals.len()],
            left: scene.arrivals.len(),
            stored: Vec::new(),
            removed: Vec::new(),
        };
        (0..scene.arrivals.len()).for_each(|nth| world.at(scene.arrivals[nth].at, Happening::Arrives(nth)));
        (0..scene.engines).for_each(|engine| world.at(scene.report_every, Happening::Reports(engine)));
        (0..scene.faults.len()).for_each(|fault| world.break_at(fault));
        world
    }

    fn at(&mut self, time: Duration, happening: Happening) {
        self.scheduled += 1;
        self.next.push(Reverse((time, self.scheduled, happening)));
    }

    fn break_at(&mut self, fault: usize) {
        match self.scene.faults[fault] {
            Fault::Emptied { at, .. } => self.at(at, Happening::Breaks(fault)),
            Fault::Wedged { engine, at, lasts } => {
                self.at(at, Happening::Breaks(fault));
                if lasts > VETO_AFTER {
                    self.at(at + VETO_AFTER, Happening::Vetoed(engine));
                }
                self.at(at + lasts, Happening::Mends(engine));
            }
        }
    }

    /// Until every request is done, or nothing has happened for so long that the rest is lost.
    fn play(&mut self) {
        let end = self.scene.length + GRACE;
        while let Some(Reverse((time, _, happening))) = self.next.pop() {
            if self.left == 0 || time > end {
                return;
            }
            self.now = time;
            match happening {
                Happening::Arrives(nth) => self.arrives(nth),
                Happening::PassEnds(engine) => self.pass_ends(engine),
                Happening::EventsCome(engine) => self.events_come(engine),
                Happening::Reports(engine) => self.reports(engine),
                Happening::Breaks(fault) => self.breaks(fault),
                Happening::Mends(engine) => {
                    self.engines[engine].stall(false);
                    self.gateways.iter_mut().for_each(|gateway| gateway.veto(engine, false));
                    self.begin(engine);
                }
                Happening::Vetoed(engine) => self.gateways.iter_mut().for_each(|gateway| gateway.veto(engine, true)),
            }
        }
    }

    fn arrives(&mut self, nth: usize) {
        let (arrival, block_size) = (&self.scene.arrivals[nth], self.scene.engine.block_size);
        let names = arrival.prompt.servable();
        let oracle = self.engines.iter().map(|engine| engine.matched(names)).max().unwrap_or(0);
        let count = self.gateways.len();
        let seed = self.seed.wrapping_add(nth as u64);
        let placed = self.gateways[nth % count].place(self.now, arrival, &self.index, self.contender, seed);
        self.placed[nth] = Some(placed);
        self.outcomes[nth] = Outcome {
            engine: placed.engine,
            prompt_tokens: arrival.prompt.tokens().len(),
            oracle_tokens: oracle * block_size,
            output_tokens: arrival.output_tokens,
            ..Outcome::default()
        };
        let request = Request { id: nth as u64, prompt: arrival.prompt.clone(), max_tokens: arrival.output_tokens };
        self.engines[placed.engine].submit(request);
        self.begin(placed.engine);
    }

    fn begin(&mut self, engine: usize) {
        if let Some(takes) = self.engines[engine].begin() {
            self.at(self.now + takes, Happening::PassEnds(engine));
        }
    }

    fn pass_ends(&mut self, engine: usize) {
        let Pass { events, admitted, emitted, .. } = self.engines[engine].end();
        if !events.is_empty() {
            self.events[engine].push_back(events);
            self.at(self.now + self.scene.event_delay, Happening::EventsCome(engine));
        }
        admitted.iter().for_each(|one| self.outcomes[number(one.id)].cached_tokens = one.cached_tokens);
        emitted.iter().for_each(|one| self.emitted(number(one.id), one.last));
        self.begin(engine);
    }

    fn emitted(&mut self, nth: usize, last: bool) {
        let Some(placed) = self.placed[nth] else { return };
        let count = self.gateways.len();
        let (gateway, outcome) = (&mut self.gateways[nth % count], &mut self.outcomes[nth]);
        let since = self.now.saturating_sub(self.scene.arrivals[nth].at);
        if outcome.ttft.is_none() {
            outcome.ttft = Some(since);
            gateway.first_token(placed);
        }
        if last {
            outcome.rest = outcome.ttft.map(|ttft| since.saturating_sub(ttft));
            gateway.done(placed);
            self.left -= 1;
        }
    }

    fn events_come(&mut self, engine: usize) {
        let writer = &mut self.writers[engine];
        for event in self.events[engine].pop_front().unwrap_or_default() {
            match event {
                CacheEvent::Stored { parent, names, .. } => {
                    let blocks: Vec<Block> = names.iter().map(|&name| Block::named(BlockName(name), ContentHash(name))).collect();
                    // A parent that a pass evicted in between is not held: the engine will announce it again if it comes back.
                    _ = writer.store(View::MAIN, parent.map(BlockName), &blocks, &mut self.stored);
                }
                CacheEvent::Removed(names) => {
                    let names: Vec<BlockName> = names.into_iter().map(BlockName).collect();
                    writer.remove(View::MAIN, &names, &mut self.removed);
                }
                CacheEvent::Cleared => writer.clear(),
            }
        }
    }

    fn reports(&mut self, nth: usize) {
        let (engine, every) = (&self.engines[nth], self.scene.report_every);
        let computed = engine.prefilled_tokens - std::mem::replace(&mut self.reported_tokens[nth], engine.prefilled_tokens);
        // The rate of the last second or so, as a poll of token counters would see it.
        let (rate, weight) = (super::engine::ratio(computed, 1) / every.as_secs_f64(), every.as_secs_f64().min(1.0));
        self.rates[nth] += weight * (rate - self.rates[nth]);
        let report = Report {
            running: engine.running(),
            waiting: engine.waiting(),
            usage: engine.usage(&self.scene.engine),
            tokens_per_s: self.rates[nth],
        };
        self.gateways.iter_mut().for_each(|gateway| gateway.report(nth, report));
        self.at(self.now + every, Happening::Reports(nth));
    }

    fn breaks(&mut self, fault: usize) {
        match self.scene.faults[fault] {
            Fault::Emptied { engine, .. } => {
                self.engines[engine].reset();
                self.begin(engine);
            }
            Fault::Wedged { engine, .. } => self.engines[engine].stall(true),
        }
    }
}

fn number(id: u64) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}

/// How long after the last arrival answers are waited for.
const GRACE: Duration = Duration::from_mins(1);
