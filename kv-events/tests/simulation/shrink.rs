//! Making a run that fails as short as it can be.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::listener::Failure;
use crate::plan::Plan;
use crate::world;

/// Runs `plan`; a panic is a failure.
pub(crate) fn run(plan: &Plan) -> Result<(), Failure> {
    catch_unwind(AssertUnwindSafe(|| world::run(plan))).unwrap_or_else(|_| Err("it panicked".to_owned()))
}

/// The shortest plan that was found to fail, leaving out ever smaller parts of `plan`, which fails with `failure`.
pub(crate) fn shortest(plan: &Plan, mut failure: Failure) -> (Plan, Failure) {
    let mut shortest = plan.clone();
    let mut part = shortest.actions.len().div_ceil(2);
    while part > 0 {
        let mut from = 0;
        let mut shrunk = false;
        while from < shortest.actions.len() {
            let end = (from + part).min(shortest.actions.len());
            let shorter = [true, false].map(|keeps_time| without(&shortest, from, end, keeps_time));
            let found = shorter.into_iter().find_map(|plan| run(&plan).err().map(|why| (plan, why)));
            match found {
                Some((plan, why)) => (shortest, failure, shrunk) = (plan, why, true),
                None => from = end,
            }
        }
        part = if shrunk && part == 1 { 1 } else { part / 2 };
    }
    (shortest, failure)
}

/// `plan` without the actions from `from` to `end`. What follows happens at its old time, if that is to be kept.
fn without(plan: &Plan, from: usize, end: usize, keeps_time: bool) -> Plan {
    let mut shorter = plan.clone();
    let time: Duration = shorter.actions.drain(from..end).map(|action| action.after).sum();
    if let Some(next) = shorter.actions.get_mut(from).filter(|_| keeps_time) {
        next.after += time;
    }
    shorter
}
