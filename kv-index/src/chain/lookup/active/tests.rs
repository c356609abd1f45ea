//! Counting one segment's holders while its table changes between any two loads of it.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::*;
use crate::matches::Matches;
use crate::raw::compare::{Narrow, Reach};
use crate::raw::record::PLACES;
use crate::{ContentHash, View, WorkerId};

const WORKERS: usize = 64;
/// Places before the segment, which everybody covers.
const DEPTH: u32 = 30;
const MATCHED: usize = 14;

/// A width beside a writer: each time it has loaded a row, somebody's word changes.
#[derive(Clone, Copy)]
struct Beside<'a> {
    table: &'a [Row; 1],
    scene: &'a RefCell<Scene>,
}

/// What every worker holds of the segment, moment by moment.
struct Scene {
    masks: Vec<Vec<u64>>,
    /// Who holds what next.
    changes: VecDeque<(usize, u64)>,
}

impl Width for Beside<'_> {
    fn common_prefix(self, contents: &[AtomicU64], wanted: &[ContentHash]) -> usize {
        Narrow.common_prefix(contents, wanted)
    }

    fn reach(self, cutoffs: &Row, least: usize) -> Reach {
        let reach = Narrow.reach(cutoffs, least);
        self.writer();
        reach
    }

    fn exactly(self, cutoffs: &Row, cutoff: usize) -> u64 {
        let exactly = Narrow.exactly(cutoffs, cutoff);
        self.writer();
        exactly
    }
}

impl Beside<'_> {
    fn writer(self) {
        let mut scene = self.scene.borrow_mut();
        let Some((worker, mask)) = scene.changes.pop_front() else { return };
        scene.masks[worker].push(mask);
        set(self.table, worker, mask);
    }
}

fn set(table: &[Row; 1], worker: usize, mask: u64) {
    let (word, shift) = (&table[0][worker / 8], worker % 8 * 8);
    let cutoff = u64::from(mask.trailing_ones());
    word.store(word.load(Ordering::Relaxed) & !(0xff << shift) | cutoff << shift, Ordering::Relaxed);
}

/// Whether a row at `covered` places is right: at some moment so many were held from the start without a gap.
fn may_be(masks: &[u64], covered: usize) -> bool {
    masks.iter().any(|mask| (mask.trailing_ones() as usize).min(MATCHED) == covered)
}

/// Counts once and checks what everybody got. Whether what was read fitted together.
fn count(seed: u64, is_first: bool) -> bool {
    let mut state = seed;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut mask = || match random(4) {
        0 => 0,
        1 => (1 << random(PLACES as u64)) - 1,
        // Somebody let go of a place in the middle.
        _ => ((1 << (8 + random(9))) - 1) & !(1 << random(20)),
    };
    let masks: Vec<Vec<u64>> = (0..WORKERS).map(|_| vec![mask()]).collect();
    let changes = (0..60).map(|nth| (nth * 29 % WORKERS, mask())).collect();
    let table = [std::array::from_fn(|_| AtomicU64::new(0))];
    masks.iter().enumerate().for_each(|(worker, masks)| set(&table, worker, masks[0]));
    let scene = RefCell::new(Scene { masks, changes });
    let (mut active, mut matches, mut depth) = (Active::default(), Matches::new(), 0);
    active.begin(WORKERS);
    if !is_first {
        let everybody: Row = std::array::from_fn(|_| AtomicU64::new(0x4040_4040_4040_4040));
        assert!(active.count(Narrow, Cutoffs::Table(&[everybody]), 0, DEPTH as usize, &mut matches.found));
        depth = DEPTH;
    }
    let beside = Beside { table: &table, scene: &scene };
    if !active.count(beside, Cutoffs::Table(&table), depth, MATCHED, &mut matches.found) {
        return false;
    }
    active.finish(depth + MATCHED as u32, &mut matches.found);
    for (worker, masks) in scene.borrow().masks.iter().enumerate() {
        let found = matches.depth(WorkerId(worker as u32), View::MAIN);
        let covered = found.checked_sub(depth).expect("everybody covers what was before");
        assert!(may_be(masks, covered as usize), "seed {seed}: worker {worker} at {covered} of {masks:x?}");
    }
    true
}

/// A class of one cutoff was once compared by two loads, "at least so many" and "no more": who held 13 places in the one and 10 in
/// the other passed for 12.
#[test]
fn a_table_that_changes_between_two_loads_gives_everybody_something_that_was_so() {
    for is_first in [true, false] {
        let fitted = (0..4_000).filter(|&seed| count(seed, is_first)).count();
        assert!(fitted > 400, "only {fitted} walks were not torn");
    }
}

/// Behind the row of 64 workers' main views stands that of their next view, but in a table that of the next 64 workers, who came
/// since.
#[test]
fn a_byte_of_the_65th_worker_says_nothing_of_a_further_view_of_the_first() {
    let everybody = || -> Row { std::array::from_fn(|_| AtomicU64::new(0x4040_4040_4040_4040)) };
    let (mut active, mut matches) = (Active::default(), Matches::new());
    active.begin(WORKERS);
    let view = u64::from(Slot::new(3, 1).0 << 8 | PLACES as u32);
    assert!(active.count(Narrow, Cutoffs::Words(&[AtomicU64::new(view)]), 0, PLACES, &mut matches.found));
    assert!(!active.all_in(Narrow, &[everybody(), everybody()], MATCHED), "the table says nothing of that view");
}
