//! Virtual time: what happens next, until nothing does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use kv_index::{Block, BlockName, ChainIndex, ChainWorker, ContentHash, Index, Removed, Stored, View, Worker};

use kv_routing::limits::SWEEP_EVERY;

use super::contender::Contender;
use super::engine::Engine;
use super::figures::{Figures, Spread};
use super::gateway::{Gateway, Placed, Report};
use super::options::Options;
use super::outcome::Outcome;
use super::scene::{Fault, Scene};
use crate::mock_engine::CacheEvent;
use crate::mock_engine::{Pass, Request};

/// Plays `scene` with `contender` choosing. The same arguments give the same figures.
pub fn run(scene: &Scene, contender: &Contender, seed: u64) -> Figures {
    let mut world = World::new(scene, contender, seed);
    world.play();
    Figures::of(&world.outcomes, scene.engines, scene.length, scene.slo)
}

/// Plays a scene that `options` can make, with every seed and every contender of it.
pub fn compare(options: &Options, scene: &str) -> Vec<(String, Spread)> {
    let mut runs: Vec<(String, Vec<Figures>)> = Vec::new();
    for (seed, scene) in options.seeds.all().filter_map(|seed| Some((seed, options.scene(scene, seed)?))) {
        for (place, contender) in Contender::for_scene(&scene).iter().enumerate() {
            if runs.len() <= place {
                runs.push((contender.name().to_owned(), Vec::new()));
            }
            runs[place].1.push(run(&scene, contender, seed));
        }
    }
    runs.into_iter().map(|(name, figures)| (name, Spread::of(&figures))).collect()
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Arrives(usize),
    PassEnds(usize),
    EventsCome(usize),
    Reports(usize),
    Sweeps,
    Breaks(usize),
    Mends(usize),
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
            gateways: (0..scene.gateways).map(|_| Gateway::new(scene.engines, scene.engine.block_size, contender)).collect(),
            index,
            writers,
            events: vec![std::collections::VecDeque::new(); scene.engines],
            placed: scene.arrivals.iter().map(|_| None).collect(),
            outcomes: vec![Outcome::default(); scene.arrivals.len()],
            left: scene.arrivals.len(),
            stored: Vec::new(),
            removed: Vec::new(),
        };
        (0..scene.arrivals.len()).for_each(|nth| world.at(scene.arrivals[nth].at, Happening::Arrives(nth)));
        (0..scene.engines).for_each(|engine| world.at(scene.report_every, Happening::Reports(engine)));
        (0..scene.faults.len()).for_each(|fault| world.break_at(fault));
        world.at(SWEEP_EVERY, Happening::Sweeps);
        (0..scene.engines).for_each(|engine| world.has_served(engine));
        world
    }

    /// The engine has served before, and its events have come, if they come at all.
    fn has_served(&mut self, engine: usize) {
        let events = self.engines[engine].serve(&self.scene.served);
        if engine >= self.scene.silent {
            self.events[engine].push_back(events);
            self.events_come(engine);
        }
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
                Happening::Sweeps => {
                    self.gateways.iter_mut().for_each(|gateway| gateway.sweep(time, &self.index));
                    self.at(time + SWEEP_EVERY, Happening::Sweeps);
                }
                Happening::Breaks(fault) => self.breaks(fault),
                Happening::Mends(engine) => {
                    self.engines[engine].stall(false);
                    self.begin(engine);
                }
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
        let engine = placed.engine;
        self.placed[nth] = Some(placed);
        self.outcomes[nth] = Outcome {
            engine,
            prompt_tokens: arrival.prompt.tokens().len(),
            oracle_tokens: oracle * block_size,
            output_tokens: arrival.output_tokens,
            ..Outcome::default()
        };
        let request = Request { id: nth as u64, prompt: arrival.prompt.clone(), max_tokens: arrival.output_tokens };
        self.engines[engine].submit(request);
        self.begin(engine);
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
        let Some(mut placed) = self.placed[nth].take() else { return };
        let outcome = &mut self.outcomes[nth];
        let since = self.now.saturating_sub(self.scene.arrivals[nth].at);
        let ttft = *outcome.ttft.get_or_insert(since);
        Gateway::token(self.now, &mut placed);
        if !last {
            self.placed[nth] = Some(placed);
            return;
        }
        outcome.rest = Some(since.saturating_sub(ttft));
        let (count, cached_tokens) = (self.gateways.len(), outcome.cached_tokens);
        self.gateways[nth % count].done(self.now, placed, cached_tokens);
        self.left -= 1;
    }

    fn events_come(&mut self, engine: usize) {
        let now = self.now;
        self.gateways.iter_mut().for_each(|gateway| gateway.heard(now, engine));
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
        let (engine, now) = (&self.engines[nth], self.now);
        let report = Report { running: engine.running(), waiting: engine.waiting(), usage: engine.usage() };
        self.gateways.iter_mut().for_each(|gateway| gateway.report(now, nth, report));
        self.at(now + self.scene.report_every, Happening::Reports(nth));
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
