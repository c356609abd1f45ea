//! Everything is stored, looked up, and removed again.

use super::lookups::{Depth, Requests};
use super::{Lane, Trial};
use crate::contender::Contender;
use crate::random::SplitMix64;
use crate::workload::prompts::Prompts;
use crate::workload::requests;

/// Store in store order; bytes; lookups; removal of every suffix in another order, tail first, then the heads; bytes left.
pub fn fill<C: Contender>(trial: &mut Trial) {
    let prompts = trial.prompts();
    let requests = Requests::<C>::draw(trial, |seed| requests::draw(&prompts, 0, trial.settings.lookups, seed));
    let mut lane = Lane::<C>::open(prompts.shape.workers);
    store_all(&mut lane, &prompts);
    let stored = lane.lap();
    assert_eq!(stored.blocks, prompts.memberships(), "stored blocks equal memberships");
    trial.report("store", "ns/block", stored.ns_per_block(), stored.blocks);
    let full = lane.held();
    trial.report("bytes", "B/membership", full.bytes as f64 / stored.blocks as f64, stored.blocks);
    trial.report("resident", "B/membership", full.resident_bytes as f64 / stored.blocks as f64, stored.blocks);
    look_up::<C>(trial, &mut lane, &requests);
    remove_all(trial.settings.seed, &mut lane, &prompts);
    let removed = lane.lap();
    trial.report("remove", "ns/block", removed.ns_per_block(), removed.blocks);
    let left = lane.held();
    trial.report("left", "B", left.bytes as f64, stored.blocks);
    trial.report("left of full", "%", 100.0 * left.bytes as f64 / full.bytes as f64, stored.blocks);
    trial.answer::<C>("emptied", &mut lane.reader(), &requests.timed);
}

/// Stores every pair, in store order.
pub fn store_all<C: Contender>(lane: &mut Lane<C>, prompts: &Prompts) {
    prompts.pairs().iter().for_each(|pair| lane.feed(|batch| prompts.store(pair, batch)));
}

fn look_up<C: Contender>(trial: &mut Trial, lane: &mut Lane<C>, requests: &Requests<C>) {
    let reader = &mut lane.reader();
    if trial.checks() {
        return trial.answer::<C>("full", reader, &requests.timed);
    }
    requests.time_cold(trial, "lookup cold, find", reader, Depth::Find);
    requests.time_cold(trial, "lookup cold, deepest", reader, Depth::Deepest);
    requests.time_cold(trial, "lookup cold, rows", reader, Depth::Rows);
    requests.time_hot(trial, "lookup hot, deepest", reader, Depth::Deepest);
}

fn remove_all<C: Contender>(seed: u64, lane: &mut Lane<C>, prompts: &Prompts) {
    let mut pairs = prompts.pairs().to_vec();
    SplitMix64::new(!seed).shuffle(&mut pairs);
    pairs.iter().for_each(|pair| lane.feed(|batch| prompts.remove_suffix(pair, 0, batch)));
    pairs.iter().filter(|pair| pair.brings_head).for_each(|pair| lane.feed(|batch| prompts.remove_head(pair, batch)));
}
