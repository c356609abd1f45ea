//! Who is warmed, and with what.

#[path = "../written/mod.rs"]
mod written;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use kv_routing::warmup::{Branch, Choice, Options, Question, Warmup};
use proptest::prelude::*;

const MISS: Question = Question { best_blocks: 0, request_blocks: 100 };
const SHALLOW: Question = Question { best_blocks: 40, request_blocks: 100 };
const DEEP: Question = Question { best_blocks: 90, request_blocks: 100 };

use crate::written::assert_written;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Workers 0, 1, ... admitted at 0 with these sizes at `at`.
fn fleet(at: u64, sizes: &[u64]) -> Warmup {
    let mut warmup = Warmup::new(Options::default());
    (0..).zip(sizes).for_each(|(worker, _)| assert!(warmup.handle_admitted(s(0), worker)));
    warmup.handle_sizes(s(at), (0..).zip(sizes.iter().copied()));
    warmup
}

fn choices(warmup: &mut Warmup, at: u64, question: Question, count: u64) -> Vec<Choice> {
    (0..count).filter_map(|seed| warmup.choose(s(at), question, |_| Some(0), seed)).collect()
}

/// One worker beside three others, by what those have, what it had when it came, what it has now, and its age.
fn table() -> String {
    let mut out = String::from("the others', at admission, now: state after 1 s, 59 s, 60 s\n");
    for level in [1_000, 10_000] {
        for base in [0, 400, 3_000] {
            for size in [0, 400, 1_024, 1_423, 1_424, 4_999, 5_000] {
                let states = [1, 59, 60].map(|age| state(level, base, size, age));
                writeln!(out, "{level:5} {base:5} {size:5}  {}", states.join(", ")).expect("to memory");
            }
        }
    }
    out
}

fn state(level: u64, base: u64, size: u64, age: u64) -> &'static str {
    let mut warmup = fleet(1_000, &[level; 3]);
    let others = [0, 1, 2].map(|worker| (worker, level));
    warmup.handle_admitted(s(1_000), 9);
    warmup.handle_sizes(s(1_000), others.into_iter().chain([(9, base)]));
    warmup.handle_sizes(s(1_000 + age), others.into_iter().chain([(9, size)]));
    match (warmup.is_thin(9), warmup.is_warming(s(1_000 + age), 9)) {
        (true, true) => "thin",
        (false, true) => "young",
        (false, false) => "settled",
        (true, false) => "thin, but not warmed",
    }
}

#[test]
fn every_state_is_as_it_is_written_down() {
    assert_written("warmup/table.txt", &table());
}

// Defect 25.
#[test]
fn a_thin_worker_is_warmed_whatever_it_gained_and_however_old_it_is() {
    let mut warmup = fleet(1, &[50_000, 50_000, 50_000, 0]);
    warmup.handle_sizes(s(3_600), [(0, 50_000), (1, 50_000), (2, 50_000), (3, 20_000)]);
    assert!(warmup.is_thin(3), "20,000 blocks more, and still less than half of the level");
    assert_eq!(choices(&mut warmup, 3_600, MISS, 8).len(), 2);
    warmup.handle_sizes(s(3_601), [(0, 50_000), (1, 50_000), (2, 50_000), (3, 25_000)]);
    assert!(!warmup.is_thin(3) && choices(&mut warmup, 3_601, MISS, 8).is_empty());
}

#[test]
fn half_of_a_fleet_can_lose_its_caches_and_is_thin() {
    let warmup = fleet(600, &[50_000, 0]);
    assert!(warmup.is_thin(1) && !warmup.is_thin(0));
    let warmup = fleet(600, &[0, 40_000, 0, 50_000]);
    assert_eq!((warmup.level(), [0, 1, 2, 3].map(|worker| warmup.is_thin(worker))), (40_000, [true, false, true, false]));
}

// Defect 26.
#[test]
fn an_emptied_worker_is_routed_to_though_every_prompt_has_a_holder() {
    for question in [SHALLOW, DEEP] {
        let mut warmup = fleet(600, &[50_000, 50_000, 50_000, 0]);
        let chosen = choices(&mut warmup, 600, question, 80);
        assert_eq!(chosen.len(), 10);
        assert!(chosen.iter().all(|choice| *choice == Choice { worker: 3, branch: Branch::Divert }));
    }
}

#[test]
fn a_quarter_of_the_misses_goes_to_a_young_worker_and_no_hit_does() {
    let mut warmup = fleet(600, &[500, 500, 500]);
    warmup.handle_admitted(s(600), 3);
    warmup.handle_sizes(s(600), [(0, 500), (1, 500), (2, 500)]);
    assert!(!warmup.is_thin(3), "the level is below 1,024");
    let chosen = choices(&mut warmup, 600, MISS, 40);
    assert_eq!((chosen.len(), chosen[0]), (10, Choice { worker: 3, branch: Branch::Slice }));
    assert_eq!(choices(&mut warmup, 600, SHALLOW, 40), []);
    assert_eq!(choices(&mut warmup, 660, MISS, 40), [], "it is young no more, though the sizes were not told again");
}

#[test]
fn where_everybody_is_young_nobody_is_warmed() {
    let mut warmup = fleet(1, &[0, 0, 0]);
    assert!(warmup.is_warming(s(1), 0));
    assert_eq!((choices(&mut warmup, 1, MISS, 40), choices(&mut warmup, 1, DEEP, 40)), (vec![], vec![]));
}

#[test]
fn blocks_of_an_earlier_life_do_not_end_a_warm_up() {
    let mut warmup = fleet(600, &[500, 500, 500]);
    warmup.handle_admitted(s(600), 3);
    let sizes = |size| [(0, 500), (1, 500), (2, 500), (3, size)];
    warmup.handle_sizes(s(601), sizes(3_000));
    warmup.handle_sizes(s(602), sizes(0));
    warmup.handle_sizes(s(603), sizes(900));
    assert!(warmup.is_warming(s(603), 3), "900 blocks gained");
    warmup.handle_sizes(s(604), sizes(1_024));
    assert!(!warmup.is_warming(s(604), 3), "1,024 blocks gained, though it has less than at first");
}

#[test]
fn the_least_loaded_is_chosen_and_equals_are_drawn() {
    let mut warmup = fleet(600, &[50_000, 50_000, 50_000, 50_000, 0, 0, 0]);
    let load = |worker| if worker == 4 { Some(3) } else { Some(1) };
    let mut chosen: BTreeMap<u32, u32> = BTreeMap::new();
    for seed in 0..400 {
        warmup.choose(s(600), MISS, load, seed).into_iter().for_each(|choice| *chosen.entry(choice.worker).or_default() += 1);
    }
    assert_eq!(chosen.keys().copied().collect::<Vec<_>>(), [5, 6]);
    assert!(chosen.values().all(|count| (30..=70).contains(count)), "{chosen:?}");
    assert_eq!((0..40).filter_map(|seed| warmup.choose(s(600), MISS, |_| None, seed)).count(), 0, "nobody may be chosen");
}

#[test]
fn a_worker_with_requests_under_way_takes_one_diversion_in_two_seconds() {
    let mut warmup = fleet(600, &[50_000, 50_000, 50_000, 0]);
    let mut diverted = |at_ms, in_flight| {
        let now = Duration::from_millis(at_ms);
        (0..64).filter(|&seed| warmup.choose(now, SHALLOW, |_| Some(in_flight), seed).is_some()).count()
    };
    assert_eq!(diverted(600_000, 0), 8, "an idle one takes every turn");
    assert_eq!(diverted(601_999, 1), 0);
    assert_eq!(diverted(602_000, 1), 1, "the turn was kept");
}

#[test]
fn shares_of_0_turn_things_off() {
    let with = |options: Options| {
        let mut warmup = Warmup::new(options);
        (0..4).for_each(|worker| _ = warmup.handle_admitted(s(0), worker));
        warmup.handle_sizes(s(600), [(0, 50_000), (1, 50_000), (2, 50_000)]);
        (choices(&mut warmup, 600, MISS, 80).len(), choices(&mut warmup, 600, DEEP, 80).len())
    };
    assert_eq!(with(Options::default()), (20, 10));
    assert_eq!(with(Options { share: 0.0, ..Options::default() }), (0, 0));
    assert_eq!(with(Options { divert_every: None, ..Options::default() }), (20, 0));
    assert_eq!(with(Options { thin_ratio: 0.0, ..Options::default() }), (0, 0));
}

#[test]
fn sizes_are_wanted_once_a_second_and_of_a_new_worker_at_once() {
    let mut warmup = Warmup::new(Options::default());
    assert_eq!(warmup.next_timeout(), None);
    warmup.handle_admitted(s(5), 1);
    assert_eq!(warmup.next_timeout(), Some(s(5)));
    warmup.handle_sizes(s(5), [(1, 9), (77, 9)]);
    assert_eq!((warmup.next_timeout(), warmup.level()), (Some(s(6)), 9));
    warmup.handle_admitted(s(5), 2);
    assert_eq!(warmup.next_timeout(), Some(s(5)));
    warmup.handle_removed(1);
    warmup.handle_removed(2);
    assert_eq!(warmup.next_timeout(), None);
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Admit(u32),
    Remove(u32),
    Sizes(Vec<(u32, u64)>),
    Ask { question: Question, loads: u64, seed: u64 },
}

fn any_step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![0u64..3_000, Just(u64::MAX)];
    let blocks = prop_oneof![0u64..120, Just(u64::MAX)];
    prop_oneof![
        1 => (0u64..40).prop_map(Step::Pass),
        1 => (0u32..6).prop_map(Step::Admit),
        1 => (0u32..6).prop_map(Step::Remove),
        3 => prop::collection::vec((0u32..7, size), 0..8).prop_map(Step::Sizes),
        8 => (blocks.clone(), blocks, any::<u64>(), any::<u64>()).prop_map(|(best_blocks, request_blocks, loads, seed)| Step::Ask {
            question: Question { best_blocks, request_blocks },
            loads,
            seed,
        }),
    ]
}

proptest! {
    #[test]
    fn only_workers_that_are_warmed_and_may_be_chosen_are(steps in prop::collection::vec(any_step(), 1..200)) {
        let (mut warmup, mut now) = (Warmup::new(Options::default()), s(0));
        for step in steps {
            match step {
                Step::Pass(seconds) => now += s(seconds),
                Step::Admit(worker) => _ = warmup.handle_admitted(now, worker),
                Step::Remove(worker) => warmup.handle_removed(worker),
                Step::Sizes(sizes) => warmup.handle_sizes(now, sizes),
                Step::Ask { question, loads, seed } => {
                    let load = |worker: u32| (loads >> (worker * 8) & 1 == 0).then_some((loads >> (worker * 8 + 1) & 7) as u32);
                    let Some(choice) = warmup.choose(now, question, load, seed) else { continue };
                    prop_assert!(load(choice.worker).is_some(), "it may be chosen");
                    prop_assert!(warmup.is_warming(now, choice.worker));
                    prop_assert!(choice.branch == Branch::Slice || warmup.is_thin(choice.worker));
                    let lighter = (0..7).filter(|&other| warmup.is_thin(other) && load(other) < load(choice.worker) && load(other).is_some());
                    prop_assert!(choice.branch == Branch::Divert || !warmup.is_thin(choice.worker) || lighter.count() == 0);
                }
            }
        }
    }
}
