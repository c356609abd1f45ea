//! Every suffix is evicted and replaced by new content, again and again.

use super::fill::store_all;
use super::lookups::Requests;
use super::{Lane, Trial};
use crate::contender::Contender;
use crate::random::SplitMix64;
use crate::workload::prompts::Prompts;
use crate::workload::requests;

/// Turns after which bytes are reported beside those of the last.
const EARLY_TURNS: u32 = 3;

/// Store; then turns: each pair's suffix is removed, tail first, and its new one stored at once, in a new random order each turn.
pub fn turnover<C: Contender>(trial: &mut Trial) {
    let prompts = trial.prompts();
    let turns = trial.settings.turns;
    let requests = Requests::<C>::draw(trial, |seed| requests::draw(&prompts, turns, trial.settings.lookups, seed));
    let mut lane = Lane::<C>::open(prompts.shape.workers);
    store_all(&mut lane, &prompts);
    let stored = lane.lap();
    let before = lane.held().bytes as f64;
    trial.report("bytes before turnover", "B/membership", before / stored.blocks as f64, stored.blocks);
    let mut random = SplitMix64::new(!trial.settings.seed);
    for turn in 1..=turns {
        turn_over(&mut lane, &prompts, turn, &mut random);
        if turn == EARLY_TURNS || turn == turns {
            let bytes = lane.held().bytes as f64;
            trial.report(format!("bytes after {turn} turns"), "B/membership", bytes / stored.blocks as f64, stored.blocks);
            trial.report(format!("growth in {turn} turns"), "x", bytes / before, stored.blocks);
        }
    }
    let turned = lane.lap();
    trial.report("turnover", "ns/block", turned.ns_per_block(), turned.blocks);
    trial.answer::<C>("turned", &mut lane.reader(), &requests.timed);
}

fn turn_over<C: Contender>(lane: &mut Lane<C>, prompts: &Prompts, turn: u32, random: &mut SplitMix64) {
    let mut pairs = prompts.pairs().to_vec();
    random.shuffle(&mut pairs);
    for pair in &pairs {
        lane.feed(|batch| {
            prompts.remove_suffix(pair, turn - 1, batch);
            prompts.store_suffix(pair, turn, batch);
        });
    }
}
