//! The scenes.

use std::time::Duration;

use super::contender::Part;
use super::scene::{Fault, Numbers, Scene};
use super::workload::Workload;

/// Fills a scene that has nothing of its own yet.
type Build = fn(&mut Scene, &mut Workload, &Numbers);

/// Name, what it shows, and how it is filled.
const SCENES: [(&str, &str, Build); 9] = [
    ("one hot prefix", "one prompt head that everybody has must not melt one engine", |scene, work, numbers| {
        documents(scene, work, 1, 48.0 * numbers.rate);
    }),
    ("one hot prefix, 15 % more", "the same where engines are all but full", |scene, work, numbers| {
        documents(scene, work, 1, 1.15 * 48.0 * numbers.rate);
    }),
    ("four hot prefixes", "a few heads spread, and stay where they are", |scene, work, numbers| {
        documents(scene, work, 4, 48.0 * numbers.rate);
    }),
    ("KV pressure, stale loads", "memory runs out where reports are too old to tell", pressure),
    ("emptied worker", "an engine whose cache is gone gets work again, though others hold every prompt", emptied),
    ("wedged worker", "an engine stands still for eight seconds and comes back", wedged),
    (
        "burst before the first event",
        "requests of one new prefix arrive before any event of it: only what was sent a moment ago says where it will be",
        burst,
    ),
    (
        "publishers restarted, caches kept",
        "the index says nothing of half of the caches; only answers tell that they are full",
        confirmation,
    ),
    ("long beside short", "short prompts must not stand behind long ones", long_and_short),
];

impl Scene {
    /// The scenes that have `text` in their names.
    pub(super) fn named(text: &str, numbers: &Numbers) -> Vec<Self> {
        let own: (_, _, Build) = ("your own", "what the options say", own);
        let all = SCENES.into_iter().chain(numbers.own.map(|_| own));
        let asked = all.filter(|(name, ..)| name.contains(text));
        asked.map(|(name, shows, build)| Self::build(name, shows, numbers, build)).collect()
    }

    fn build(name: &'static str, shows: &'static str, numbers: &Numbers, build: Build) -> Self {
        let (mut scene, mut work) = Self::new(name, shows, numbers);
        build(&mut scene, &mut work, numbers);
        scene.with(work)
    }
}

/// Everybody asks something about one of a few long documents.
fn documents(scene: &mut Scene, work: &mut Workload, heads: usize, per_s: f64) {
    let heads: Vec<_> = (0..heads).map(|_| work.segment(6_000)).collect();
    for at in work.times(per_s, scene.length) {
        let head = heads[work.within(0, heads.len() - 1)];
        let tokens = work.within(100, 600);
        let own = work.segment(tokens);
        let output = work.within(20, 60);
        work.arrive(at, &[head, own], output);
    }
}

/// Long answers fill small caches; loads are five seconds old, and two gateways see half of the requests each.
fn pressure(scene: &mut Scene, work: &mut Workload, numbers: &Numbers) {
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
}

fn emptied(scene: &mut Scene, work: &mut Workload, numbers: &Numbers) {
    scene.faults = vec![Fault::Emptied { engine: 0, at: scene.length / 3 }];
    sessions(work, scene.length, 40.0 * numbers.rate);
}

fn wedged(scene: &mut Scene, work: &mut Workload, numbers: &Numbers) {
    let engine = 1.min(numbers.engines - 1);
    scene.faults = vec![Fault::Wedged { engine, at: scene.length / 3, lasts: Duration::from_secs(8) }];
    sessions(work, scene.length, 40.0 * numbers.rate);
}

/// An agent asks sixteen things at once about something new, through a relay that lags.
fn burst(scene: &mut Scene, work: &mut Workload, numbers: &Numbers) {
    scene.about = Some(Part::Predictions);
    scene.event_delay = Duration::from_millis(100);
    for at in work.times(1.6 * numbers.rate, scene.length) {
        let head = work.segment(4_000);
        for sibling in 0..16 {
            let tokens = work.within(50, 300);
            let own = work.segment(tokens);
            let output = work.within(10, 40);
            work.arrive(at + Duration::from_millis(2) * sibling, &[head, own], output);
        }
    }
}

/// System prompts that every engine has, and publishers of half of the fleet that were started again: nothing announces what is kept.
fn confirmation(scene: &mut Scene, work: &mut Workload, numbers: &Numbers) {
    scene.about = Some(Part::Audit);
    scene.silent = numbers.engines / 2;
    let heads: Vec<_> = (0..40).map(|_| work.segment(2_400)).collect();
    scene.served = heads.iter().map(|&head| work.prompt(&[head])).collect();
    for at in work.times(65.0 * numbers.rate, scene.length) {
        let head = heads[work.within(0, heads.len() - 1)];
        let tokens = work.within(100, 600);
        let own = work.segment(tokens);
        let output = work.within(20, 60);
        work.arrive(at, &[head, own], output);
    }
}

/// One prompt in ten is twenty times as long as the others, and new.
fn long_and_short(scene: &mut Scene, work: &mut Workload, numbers: &Numbers) {
    let heads: Vec<_> = (0..24).map(|_| work.segment(400)).collect();
    for at in work.times(22.0 * numbers.rate, scene.length) {
        let head = heads[work.within(0, heads.len() - 1)];
        let tokens = if work.happens(0.1) { work.within(10_000, 18_000) } else { work.within(100, 500) };
        let own = work.segment(tokens);
        let output = work.within(10, 60);
        work.arrive(at, &[head, own], output);
    }
}

/// What the user asked for.
fn own(scene: &mut Scene, work: &mut Workload, numbers: &Numbers) {
    let Some(own) = numbers.own else { return };
    let heads: Vec<_> = (0..own.heads).map(|_| work.segment(own.head_tokens)).collect();
    for at in work.times(own.per_s, scene.length) {
        let head = heads[work.within(0, own.heads - 1)];
        let tokens = work.within(own.tail_tokens.div_ceil(2), own.tail_tokens);
        let tail = work.segment(tokens);
        let output = work.within(own.output_tokens.div_ceil(2), own.output_tokens);
        work.arrive(at, &[head, tail], output);
    }
}

/// Conversations that grow by a question and an answer with each turn; a system prompt in front is shared by a quarter of them.
fn sessions(work: &mut Workload, length: Duration, turns_per_s: f64) {
    let systems: Vec<_> = (0..4).map(|_| work.segment(1_200)).collect();
    let mut open: Vec<Vec<(u64, usize)>> = Vec::new();
    for at in work.times(turns_per_s, length) {
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
