//! A quarter of each worker's blocks goes, in random order: holes everywhere. At last everything is cleared.

use super::fill::store_all;
use super::lookups::{Depth, Requests};
use super::{Lane, Trial};
use crate::contender::Contender;
use crate::random::SplitMix64;
use crate::workload::prompts::Prompts;
use crate::workload::requests;

/// Names of one removal event.
const EVENT_NAMES: usize = 32;

/// Store; lookups; scattered removal; the same lookups again; a clear of every worker.
pub fn scatter<C: Contender>(trial: &mut Trial) {
    let prompts = trial.prompts();
    let requests = Requests::<C>::draw(trial, |seed| requests::draw(&prompts, 0, trial.settings.lookups, seed));
    let mut lane = Lane::<C>::open(prompts.shape.workers);
    store_all(&mut lane, &prompts);
    let stored = lane.lap();
    look_up(trial, "lookup before scatter", &mut lane, &requests);
    for (worker, names) in &scattered(&prompts, trial.settings.seed) {
        lane.feed(|batch| batch.remove(*worker, names.iter().copied()));
    }
    let removed = lane.lap();
    trial.report("scattered", "ns/block", removed.ns_per_block(), removed.blocks);
    let held = stored.blocks - removed.blocks;
    trial.report("bytes after scatter", "B/membership", lane.held().bytes as f64 / held as f64, held);
    look_up(trial, "lookup after scatter", &mut lane, &requests);
    trial.answer::<C>("scattered", &mut lane.reader(), &requests.timed);
    (0..prompts.shape.workers).for_each(|worker| lane.feed(|batch| batch.clear_worker(worker)));
    trial.report("clear", "ns/block", lane.lap().ns as f64 / held as f64, held);
    trial.answer::<C>("cleared", &mut lane.reader(), &requests.timed);
}

fn look_up<C: Contender>(trial: &mut Trial, op: &str, lane: &mut Lane<C>, requests: &Requests<C>) {
    if !trial.checks() {
        requests.time_cold(trial, op, &mut lane.reader(), Depth::Deepest);
    }
}

/// A quarter of each worker's names in random order, 32 an event, the workers' events mixed.
fn scattered(prompts: &Prompts, seed: u64) -> Vec<(u32, Vec<u64>)> {
    let mut random = SplitMix64::new(!seed);
    let mut events = Vec::new();
    for (worker, mut names) in (0..).zip(prompts.held()) {
        random.shuffle(&mut names);
        names.truncate(names.len() / 4);
        events.extend(names.chunks(EVENT_NAMES).map(|names| (worker, names.to_vec())));
    }
    random.shuffle(&mut events);
    events
}
