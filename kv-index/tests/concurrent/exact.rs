//! Sixteen writers, four readers, workers that come and go: every answer and everything that is left equals the reference.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kv_index::testing::{Fleet, Mix, Op, Plan, Seats, fleet_ops, random_ops, with_replacements};
use kv_index::{ContentHash, Index, Matches, Runs, Sharded, View, WorkerId};

use crate::{READERS, WRITERS, chain, seeds};

#[test]
fn a_fleet_that_agrees_on_names() {
    fleet(&Fleet { workers: 48, ..Fleet::AGREEING });
}

#[test]
fn a_fleet_with_names_in_conflict_and_several_views() {
    fleet(&Fleet { workers: 48, ..Fleet::MIXED });
}

#[test]
fn a_fleet_where_everybody_names_blocks_in_its_own_way() {
    fleet(&Fleet { workers: 32, ..Fleet::LONERS });
}

#[test]
fn a_crowd_that_holds_the_same_prompts() {
    fleet(&Fleet::CROWD);
}

#[test]
fn everything_that_collides() {
    let mix = Mix { workers: 48, ..Mix::DENSE };
    seeds().for_each(|seed| replay(&chain(), &Plan::new(WRITERS, random_ops(seed, 4_000, &mix))));
}

#[test]
fn two_shards() {
    let ops = |seed| with_replacements(fleet_ops(seed, 2_000, &Fleet { workers: 48, ..Fleet::MIXED }), 48, 20);
    seeds().for_each(|seed| replay(&Sharded::new(vec![chain(), chain()]).unwrap(), &Plan::new(WRITERS, ops(seed))));
}

fn fleet(fleet: &Fleet) {
    for seed in seeds() {
        let ops: Vec<Op> = fleet_ops(seed, 3_000 + fleet.workers, fleet);
        replay(&chain(), &Plan::new(WRITERS, with_replacements(ops, fleet.workers, 20)));
    }
}

/// Lets all writers loose at once, and readers beside them.
fn replay<I: Index>(index: &I, plan: &Plan) {
    let done = AtomicBool::new(false);
    let left = thread::scope(|scope| {
        let reader = |nth: usize| look_up(index, &plan.requests[nth % plan.requests.len()..], &done);
        let readers: Vec<_> = (0..READERS).map(|nth| scope.spawn(move || reader(nth * 31))).collect();
        let write = |nth: usize| {
            let mut seats = Seats::new();
            plan.writers[nth].iter().for_each(|job| job.run(index, &mut seats));
            seats
        };
        let writers: Vec<_> = (0..plan.writers.len()).map(|nth| scope.spawn(move || write(nth))).collect();
        let left: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        left
    });
    plan.assert_same(index, &left);
}

/// Looks up until the writers are done. What must hold of any answer: whoever is in it is there once, no deeper than what was asked.
fn look_up(index: &impl Index, requests: &[Vec<ContentHash>], done: &AtomicBool) {
    let (mut matches, mut runs) = (Matches::new(), Runs::new());
    for (nth, request) in requests.iter().enumerate().cycle() {
        if done.load(Ordering::Relaxed) {
            return;
        }
        index.find(request, &mut matches);
        let mut found: Vec<_> = matches.iter().map(|row| (row.worker, row.view)).collect();
        found.sort_unstable();
        assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "twice in one answer: {found:?}");
        assert!(matches.iter().all(|row| (1..=request.len()).contains(&(row.depth as usize))));
        let worker = WorkerId(u32::try_from(nth % 50).expect("small"));
        index.coverage(worker, View::MAIN, request, &mut runs);
        assert!(runs.as_slice().last().is_none_or(|run| run.end as usize <= request.len()));
    }
}
