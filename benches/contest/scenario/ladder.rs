//! What a lookup costs by the number of holders and by the length of the prompt.

use super::lookups::{Depth, Requests};
use super::{Lane, Trial};
use crate::contender::Contender;
use crate::workload::ladder::{PROMPTS, Rung, WORKERS, holders, lengths};

/// Lookups of one rung.
const LOOKUPS: usize = 2_000;

/// One index with all rungs in it; lookups of each.
pub fn ladder<C: Contender>(trial: &mut Trial) {
    let mut lane = Lane::<C>::open(WORKERS);
    let prompts = ((f64::from(PROMPTS) * trial.settings.scale) as u32).clamp(1, PROMPTS);
    for rung in holders().into_iter().chain(lengths()) {
        store(&mut lane, rung, prompts);
    }
    lane.flush();
    for rung in holders() {
        look_up(trial, &format!("{} holders", rung.holders), &mut lane, rung, prompts);
    }
    for rung in lengths() {
        look_up(trial, &format!("{} blocks", rung.len), &mut lane, rung, prompts);
    }
}

fn store<C: Contender>(lane: &mut Lane<C>, rung: Rung, prompts: u32) {
    for worker in 0..rung.holders {
        (0..prompts).for_each(|prompt| lane.feed(|batch| rung.store(prompt, worker, batch)));
    }
}

fn look_up<C: Contender>(trial: &mut Trial, name: &str, lane: &mut Lane<C>, rung: Rung, prompts: u32) {
    let lookups = if trial.checks() { prompts as usize } else { LOOKUPS.min(trial.settings.lookups) };
    let requests = Requests::<C>::draw(trial, |_| (0..lookups).map(|i| rung.path(i as u32 % prompts)).collect());
    let reader = &mut lane.reader();
    if trial.checks() {
        return trial.answer::<C>(&name.replace(' ', "-"), reader, &requests.timed);
    }
    requests.time_hot(trial, &format!("{name}: find"), reader, Depth::Find);
    requests.time_hot(trial, &format!("{name}: deepest"), reader, Depth::Deepest);
    requests.time_hot(trial, &format!("{name}: rows"), reader, Depth::Rows);
}
