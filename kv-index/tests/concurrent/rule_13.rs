//! Every lookup beside the writers is checked against what was so while it ran.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kv_index::testing::{Fleet, Job, Op, Plan, Seats, fleet_ops, with_replacements};
use kv_index::{ContentHash, Index, Match, Matches, Runs, View, WorkerId};

use crate::history::{Answer, Clock, History, Interval, Seen};
use crate::{READERS, WRITERS, chain, seeds};

/// Stamps that pass during a lookup only if its thread has to wait for its turn.
const INTERRUPTED: u64 = 64;

/// Lookups that a reader keeps for the check, at most: all of them, or every second, fourth and so on.
const KEPT: usize = 1_500;

#[test]
fn lookups_beside_a_fleet_whose_prompts_come_and_go() {
    beside(&Fleet { workers: 32, prompts: 8, blocks: 90, spread: 4, ..Fleet::AGREEING });
}

#[test]
fn lookups_beside_names_in_conflict_and_several_views() {
    beside(&Fleet { workers: 32, prompts: 8, blocks: 70, spread: 4, ..Fleet::MIXED });
}

#[test]
fn lookups_beside_workers_that_name_blocks_in_their_own_way() {
    beside(&Fleet { workers: 32, prompts: 6, blocks: 70, spread: 3, ..Fleet::LONERS });
}

#[test]
fn lookups_beside_a_crowd_whose_words_move_between_lists_and_tables() {
    beside(&Fleet { workers: 200, prompts: 2, blocks: 20, spread: 2, ..Fleet::CROWD });
}

fn beside(fleet: &Fleet) {
    for seed in seeds() {
        let ops = fleet_ops(seed, 5_000 + fleet.workers, fleet);
        run(&chain(), &Plan::new(WRITERS, with_replacements(ops, fleet.workers, 15)));
    }
}

/// When a writer's job was done, and the id that it got if it took a worker in.
type Record = (Interval, Option<WorkerId>);

fn run<I: Index>(index: &I, plan: &Plan) {
    let (clock, done) = (Clock::default(), AtomicBool::new(false));
    let (records, seen) = thread::scope(|scope| {
        let (clock, done) = (&clock, &done);
        let readers: Vec<_> = (0..READERS).map(|nth| scope.spawn(move || look_up(index, plan, clock, done, nth))).collect();
        let writers: Vec<_> = (0..plan.writers.len()).map(|nth| scope.spawn(move || write(index, plan, clock, nth))).collect();
        let (records, _workers): (Vec<_>, Vec<_>) = writers.into_iter().map(|writer| writer.join().unwrap()).unzip();
        done.store(true, Ordering::Relaxed);
        (records, readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect::<Vec<_>>())
    });
    let history = history(plan, &records);
    let wrong: Vec<String> =
        seen.iter().filter_map(|(request, seen)| history.check(&plan.requests[*request], seen).err()).collect();
    assert!(wrong.is_empty(), "{} of {} lookups:\n{}", wrong.len(), seen.len(), wrong[..wrong.len().min(10)].join("\n"));
    assert!(seen.len() >= READERS * KEPT / 20, "only {} lookups", seen.len());
}

/// Does a writer's jobs. The workers that are left must live until the readers are done.
fn write<'a, I: Index>(index: &'a I, plan: &Plan, clock: &Clock, writer: usize) -> (Vec<Record>, Seats<'a, I>) {
    let mut seats = Seats::new();
    let run = |job: &Job| {
        let (when, ()) = clock.time(|| job.run(index, &mut seats));
        (when, seats[&job.seat].1.filter(|_| matches!(job.op, Op::Add { .. })))
    };
    let records = plan.writers[writer].iter().map(run).collect();
    (records, seats)
}

fn history(plan: &Plan, records: &[Vec<Record>]) -> History {
    let mut history = History::default();
    for (jobs, records) in plan.writers.iter().zip(records) {
        let mut lives = std::collections::HashMap::new();
        for (job, &(when, added)) in jobs.iter().zip(records) {
            match (&job.op, added) {
                (Op::Add { views }, Some(id)) => _ = lives.insert(job.seat, history.add(id, *views, when)),
                (op, _) => history.apply(lives[&job.seat], op, when),
            }
        }
    }
    history
}

/// Looks up until the writers are done, and keeps the number of the request with what was seen.
fn look_up(index: &impl Index, plan: &Plan, clock: &Clock, done: &AtomicBool, reader: usize) -> Vec<(usize, Seen)> {
    let mut kept = Vec::with_capacity(KEPT);
    let mut every = 1;
    let (mut matches, mut runs) = (Matches::new(), Runs::new());
    for nth in 0.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let request = (nth * 7 + reader * 31) % plan.requests.len();
        let (when, answer) = ask(index, &plan.requests[request], clock, nth, &mut matches, &mut runs);
        // Of those that were interrupted, as many as there are: writers did much in the middle of them.
        if nth.is_multiple_of(every) || when.to - when.from > INTERRUPTED {
            kept.push((request, Seen { when, answer }));
        }
        // Half as many of twice as long a time.
        if kept.len() == KEPT {
            let mut is_odd = false;
            kept.retain(|_| {
                is_odd = !is_odd;
                is_odd
            });
            every *= 2;
        }
    }
    kept
}

/// Mostly `find`; now and then a single worker's depth or coverage.
fn ask(
    index: &impl Index,
    request: &[ContentHash],
    clock: &Clock,
    nth: usize,
    matches: &mut Matches,
    runs: &mut Runs,
) -> (Interval, Answer) {
    let (worker, view) = (WorkerId(u32::try_from(nth / 5 % 40).expect("small")), View(u8::from(nth.is_multiple_of(3))));
    match nth % 5 {
        0 => {
            let (when, depth) = clock.time(|| index.depth(worker, view, request));
            (when, Answer::Depth(Match { depth, worker, view }))
        }
        1 => {
            let (when, ()) = clock.time(|| index.coverage(worker, view, request, runs));
            (when, Answer::Covered(worker, view, runs.clone()))
        }
        2.. => {
            let (when, ()) = clock.time(|| index.find(request, matches));
            (when, Answer::Found(matches.iter().collect()))
        }
    }
}
