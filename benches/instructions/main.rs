//! One hot path of one contender, for callgrind: `instructions CONTENDER PATH`. See instructions.sh.
//!
//! Callgrind collects inside `measured` only. Printed is how many blocks, or lookups, were measured there. Everything is
//! drawn from one seed, so that counts repeat on any machine to what an index's own random seed changes.

use std::hint::black_box;
use std::process::ExitCode;

use contest::contender::{Chain, Contender, Positional, Reader, Smg};
use contest::random::SplitMix64;
use contest::scenario::{Lane, SEED};
use contest::workload::decode::{self, Tail};
use contest::workload::names::Names;
use contest::workload::prompts::{Prompts, Shape};
use contest::workload::requests;

/// Of the text's sizes: callgrind is fifty times slower than the processor.
const SCALE: f64 = 0.05;
/// Lookups of one path.
const LOOKUPS: usize = 1_000;
/// Tails that are alive in the decode paths, and turns of all of them.
const TAILS: u64 = 5_000;
const TAIL_TURNS: u64 = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [contender, path] = arguments.as_slice() else {
        // As `cargo bench` and `cargo test` run it.
        println!("instructions: counted by instructions.sh, under callgrind");
        return ExitCode::SUCCESS;
    };
    let measured = match contender.as_str() {
        "ours" => run::<Chain>(path),
        Smg::NAME => run::<Smg>(path),
        Positional::NAME => run::<Positional>(path),
        _ => None,
    };
    measured.map_or_else(usage, |count| {
        println!("{count}");
        ExitCode::SUCCESS
    })
}

fn usage() -> ExitCode {
    eprintln!("usage: instructions ours|smg|positional PATH, where PATH is one of:");
    eprintln!(
        "  store-shared store-private store-disagree remove-shared remove-private remove-disagree lookup-shared lookup-private"
    );
    eprintln!("  lookup-decode-start lookup-decode-end");
    ExitCode::FAILURE
}

fn run<C: Contender>(path: &str) -> Option<usize> {
    match path {
        "store-shared" => Some(store::<C>(Shape::SHARED, Names::Agree)),
        "store-private" => Some(store::<C>(Shape::PRIVATE, Names::Agree)),
        "store-disagree" => Some(store::<C>(Shape::SHARED, Names::Disagree)),
        "remove-shared" => Some(remove::<C>(Shape::SHARED, Names::Agree)),
        "remove-private" => Some(remove::<C>(Shape::PRIVATE, Names::Agree)),
        "remove-disagree" => Some(remove::<C>(Shape::SHARED, Names::Disagree)),
        "lookup-shared" => Some(lookup::<C>(Shape::SHARED)),
        "lookup-private" => Some(lookup::<C>(Shape::PRIVATE)),
        "lookup-decode-start" => Some(lookup_under_tails::<C>(1)),
        "lookup-decode-end" => Some(lookup_under_tails::<C>(TAIL_TURNS)),
        _ => None,
    }
}

/// What callgrind collects: `--toggle-collect` knows it by this name.
#[inline(never)]
fn measured(work: impl FnOnce()) {
    black_box(work)();
}

fn filled<C: Contender>(prompts: &Prompts) -> Lane<C> {
    let mut lane = Lane::open(prompts.shape.workers);
    prompts.pairs().iter().for_each(|pair| lane.feed(|batch| prompts.store(pair, batch)));
    lane.flush();
    lane
}

fn store<C: Contender>(shape: Shape, names: Names) -> usize {
    let prompts = Prompts::draw(shape.scaled(SCALE), names, SEED);
    let mut lane = Lane::<C>::open(prompts.shape.workers);
    let mut stores = lane.prepare_all(prompts.pairs().iter().map(|pair| |batch: &mut _| prompts.store(pair, batch)));
    measured(|| stores.iter_mut().for_each(|prepared| lane.apply(prepared)));
    lane.lap().blocks
}

fn remove<C: Contender>(shape: Shape, names: Names) -> usize {
    let prompts = Prompts::draw(shape.scaled(SCALE), names, SEED);
    let mut lane = filled::<C>(&prompts);
    lane.lap();
    let mut pairs = prompts.pairs().to_vec();
    SplitMix64::new(!SEED).shuffle(&mut pairs);
    let mut removals = lane.prepare_all(pairs.iter().map(|pair| |batch: &mut _| prompts.remove_suffix(pair, 0, batch)));
    measured(|| removals.iter_mut().for_each(|prepared| lane.apply(prepared)));
    lane.lap().blocks
}

fn lookup<C: Contender>(shape: Shape) -> usize {
    let prompts = Prompts::draw(shape.scaled(SCALE), Names::Agree, SEED);
    let lane = filled::<C>(&prompts);
    look_up::<C>(&lane, &requests::draw(&prompts, 0, LOOKUPS, SEED))
}

fn look_up<C: Contender>(lane: &Lane<C>, requests: &[Vec<u64>]) -> usize {
    let requests: Vec<_> = requests.iter().map(|request| C::Reader::request(request)).collect();
    let mut reader = lane.reader();
    // The first lookup may allocate what later ones use again.
    requests.iter().for_each(|request| _ = reader.deepest(request));
    measured(|| requests.iter().for_each(|request| _ = black_box(reader.deepest(request))));
    requests.len()
}

/// Lookups of prompts under which tails grow, after all tails have been replaced `turns` - 1 times.
fn lookup_under_tails<C: Contender>(turns: u64) -> usize {
    let prompts = Prompts::draw(decode::PROMPTS.scaled(SCALE), Names::Agree, SEED);
    let mut lane = filled::<C>(&prompts);
    let mut random = SplitMix64::new(SEED);
    let mut live = Vec::new();
    for number in 0..TAILS * turns {
        let tail = Tail::draw(&prompts, number, &mut random);
        lane.feed(|batch| tail.store(batch));
        live.push(tail);
        if number >= TAILS {
            let gone = live.swap_remove(random.below(live.len() as u64) as usize);
            lane.feed(|batch| gone.remove(batch));
        }
    }
    lane.flush();
    look_up::<C>(&lane, &(0..LOOKUPS as u32).map(|at| prompts.path(at % prompts.len(), 0)).collect::<Vec<_>>())
}
