//! Whole fleets under random schedules of their threads: larger scenes than loom can exhaust.
//!
//! `bash .ci/loom.sh` runs them. Every writer is told what the reference answers to each of its calls, readers look up beside, and
//! at the end the index is what the reference is. Operations and schedules come from fixed seeds, which a failure prints.
//! Structures are as small as under loom, so that few operations meet every change of them.

// Not of the scene: it outlives them.
use std::sync::Arc;

use ::shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use ::shuttle::{Config, Runner};

use super::{ChainIndex, ChainOptions};
use crate::sync::thread;
use crate::testing::{Fleet, Mix, Op, Plan, Seats, fleet_ops, random_ops, with_replacements};
use crate::{Index, Matches, Runs, View, WorkerId};

const WRITERS: usize = 3;
const READERS: usize = 2;
/// Lookups of each reader.
const LOOKUPS: usize = 30;
/// Seats: two for each writer.
const WORKERS: usize = 2 * WRITERS;
/// Different streams of operations of each scene.
const STREAMS: u64 = 12;
/// Schedules of each stream: any thread next, and one thread before the others until priorities change.
const RANDOM_SCHEDULES: usize = 60;
const PRIORITY_SCHEDULES: usize = 60;
/// Changes of priority in one schedule.
const DEPTH: usize = 5;

/// Runs the writers of every stream, and readers beside, under many schedules.
fn in_many_schedules(stream: impl Fn(u64) -> Vec<Op>) {
    for seed in 0..STREAMS {
        println!("operations of seed {seed}");
        let plan = Arc::new(Plan::new(WRITERS, stream(seed)));
        check(RandomScheduler::new_from_seed(seed, RANDOM_SCHEDULES), &plan);
        check(PctScheduler::new_from_seed(seed, DEPTH, PRIORITY_SCHEDULES), &plan);
    }
}

fn check(scheduler: impl Scheduler + 'static, plan: &Arc<Plan>) {
    let mut config = Config::new();
    // The reference's comparison takes more than a thread of a model usually has.
    config.stack_size = 1 << 20;
    let plan = Arc::clone(plan);
    Runner::new(scheduler, config).run(move || scene(&plan));
}

fn scene(plan: &Plan) {
    let index = ChainIndex::with_options(&ChainOptions { seed: Some([3, 5]), ..ChainOptions::default() });
    thread::scope(|scope| {
        let index = &index;
        let readers: Vec<_> = (0..READERS).map(|nth| scope.spawn(move || look_up(index, plan, nth))).collect();
        let writers: Vec<_> = (0..WRITERS).map(|nth| scope.spawn(move || write(index, plan, nth))).collect();
        let left: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        plan.assert_same(index, &left);
    });
    let left = index.stats();
    assert_eq!((left.workers, left.segments), (0, 0), "whoever has gone leaves nothing");
}

fn write<'a>(index: &'a ChainIndex, plan: &Plan, writer: usize) -> Seats<'a, ChainIndex> {
    let mut seats = Seats::new();
    plan.writers[writer].iter().for_each(|job| job.run(index, &mut seats));
    seats
}

/// Looks up a while: a thread that never ends would keep those of lower priority from running. What must hold of any answer: whoever is in it is there once, no deeper than what was asked.
fn look_up(index: &ChainIndex, plan: &Plan, reader: usize) {
    let (mut matches, mut runs) = (Matches::new(), Runs::new());
    for request in plan.requests.iter().cycle().skip(reader * 5).take(LOOKUPS) {
        index.find(request, &mut matches);
        let mut found: Vec<_> = matches.iter().map(|row| (row.worker, row.view)).collect();
        found.sort_unstable();
        assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "twice in one answer: {found:?}");
        assert!(matches.iter().all(|row| (1..=request.len()).contains(&(row.depth as usize))));
        index.coverage(WorkerId(0), View::MAIN, request, &mut runs);
        assert!(runs.as_slice().last().is_none_or(|run| run.end as usize <= request.len()));
    }
}

/// Workers that agree hold the same prompts under the same names.
#[test]
fn workers_that_agree_store_remove_and_leave_beside_lookups() {
    let fleet = Fleet { workers: WORKERS, prompts: 3, blocks: 10, ..Fleet::AGREEING };
    in_many_schedules(|seed| with_replacements(fleet_ops(seed, 100, &fleet), WORKERS, 15));
}

/// Some name every block in their own way, some have views, and the others go private at the first name in conflict.
#[test]
fn workers_that_disagree_store_remove_and_leave_beside_lookups() {
    let fleet = Fleet { workers: WORKERS, views: 2, prompts: 3, blocks: 9, odd_names: 300, ..Fleet::MIXED };
    in_many_schedules(|seed| with_replacements(fleet_ops(seed, 100, &fleet), WORKERS, 15));
}

/// Names and contents from a handful: twins, moves, repeats, self-parents, holes.
#[test]
fn workers_whose_names_collide_store_remove_and_leave_beside_lookups() {
    let mix = Mix { workers: WORKERS, views: 2, names: 10, contents: 2, blocks: 7 };
    in_many_schedules(|seed| {
        let adds = (0..WORKERS).map(|seat| Op::Add { views: 1 + u8::from(seat == 0) });
        adds.chain(random_ops(seed, 100, &mix)).collect()
    });
}
