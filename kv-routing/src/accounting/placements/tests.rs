//! The table, by hand and against a model of it.

use std::collections::BTreeMap;

use kv_index::ContentHash;
use proptest::prelude::*;

use super::*;
use crate::accounting::PrefixKeys;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A prompt of `blocks` blocks, of which all prompts of one `family` share as many as they have.
fn keys(family: u64, blocks: u64) -> Vec<Key> {
    let prompt: Vec<_> = (0..blocks).map(|block| ContentHash(family << 32 | block)).collect();
    PrefixKeys::of(&prompt).keys().to_vec()
}

impl Placements {
    /// Of a prompt that is not remembered: for what concerns keys alone.
    fn place(&mut self, now: Duration, worker: u32, keys: &[Key]) -> u64 {
        self.place_prompt(now, worker, keys, &[].into())
    }
}

// A burst of siblings that share 250 blocks is found at 128 by its keys: then it looks no dearer elsewhere, and scatters.
#[test]
fn a_sibling_finds_all_that_it_shares_up_to_what_is_remembered() {
    let sibling = |shared: u64, own: u64| {
        let blocks: Vec<_> = (0..shared).chain(own..own + 20).map(ContentHash).collect();
        PrefixKeys::of(&blocks)
    };
    let mut placements = Placements::default();
    for (worker, prompt) in [(3, sibling(250, 10_000)), (4, sibling(100, 20_000)), (5, sibling(4_000, 30_000))] {
        placements.place_prompt(s(0), worker, prompt.keys(), &prompt.remembered().into());
    }
    let found = |prompt: &PrefixKeys| {
        let mut found = Vec::new();
        placements.find_shared(s(1), prompt, &mut found);
        found.into_iter().map(|predicted| (predicted.worker, predicted.blocks)).collect::<Vec<_>>()
    };
    assert_eq!(found(&sibling(250, 40_000)), [(3, 250), (5, 250), (4, 100)]);
    assert_eq!(found(&sibling(4_000, 40_000)), [(5, 2_048), (3, 250), (4, 100)]);
    assert_eq!(found(&sibling(250, 10_000)), [(3, 270), (5, 250), (4, 100)], "the same prompt again");
}

fn found(placements: &Placements, now: Duration, keys: &[Key]) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    placements.find(now, keys, &mut found);
    found.into_iter().map(|predicted| (predicted.worker, predicted.blocks)).collect()
}

// D30, and the pin of section 12.
#[test]
fn a_prompt_of_ten_blocks_is_found_at_ten_by_itself_and_at_eight_by_a_longer_sibling() {
    let mut placements = Placements::default();
    placements.place(s(0), 3, &keys(1, 10));
    assert_eq!(found(&placements, s(1), &keys(1, 10)), [(3, 10)]);
    assert_eq!(found(&placements, s(1), &keys(1, 12)), [(3, 8)]);
    assert_eq!(found(&placements, s(1), &keys(1, 5)), [(3, 4)]);
    assert_eq!(found(&placements, s(1), &keys(2, 10)), []);
}

#[test]
fn a_placement_of_which_nothing_is_heard_holds_as_long_as_the_table_says() {
    for (mut placements, ends) in [(Placements::lasting(s(5)), 5), (Placements::default(), PREDICTION_TTL.as_secs())] {
        placements.place(s(1), 3, &keys(1, 4));
        assert_eq!(found(&placements, s(ends), &keys(1, 4)), [(3, 4)]);
        assert_eq!(found(&placements, s(1 + ends), &keys(1, 4)), []);
    }
}

// Defect 9, and the pin of section 12.
#[test]
fn more_live_keys_than_there_is_room_for_push_the_oldest_out_and_return() {
    let mut placements = Placements::default();
    let count = PREDICTION_KEYS_MAX as u64 + 100;
    for family in 0..count {
        placements.place(s(0), 1, &keys(family, 1));
    }
    assert_eq!((placements.len(), placements.queue.len()), (PREDICTION_KEYS_MAX, PREDICTION_KEYS_MAX));
    let is_kept = |family| !found(&placements, s(1), &keys(family, 1)).is_empty();
    assert!(is_kept(count - 1) && is_kept(100) && !is_kept(99) && !is_kept(0));
}

#[test]
fn what_was_placed_again_is_as_young_as_that() {
    let mut placements = Placements::default();
    let first = placements.place(s(0), 1, &keys(0, 1));
    placements.withdraw(first, 1, &keys(0, 1));
    (1..PREDICTION_KEYS_MAX as u64).for_each(|family| _ = placements.place(s(0), 1, &keys(family, 1)));
    placements.place(s(0), 1, &keys(0, 1));
    placements.place(s(0), 1, &keys(u64::from(u32::MAX), 1));
    assert_eq!(found(&placements, s(1), &keys(0, 1)), [(1, 1)], "its first place in the queue is not its own any more");
    assert_eq!(found(&placements, s(1), &keys(1, 1)), []);
}

// Defect 9: an expired head with newer live placements goes to the end with its newest expiry.
#[test]
fn a_head_that_was_placed_again_goes_to_the_end_once() {
    let mut placements = Placements::default();
    for _ in 0..3 {
        placements.place(s(0), 1, &keys(1, 1));
        placements.place(s(0), 1, &keys(2, 1));
    }
    placements.place(s(30), 2, &keys(1, 1));
    placements.place(PREDICTION_TTL, 9, &keys(3, 1));
    assert_eq!((placements.len(), placements.queue.len()), (2, 2));
    assert_eq!(found(&placements, PREDICTION_TTL, &keys(1, 1)), [(2, 1)], "worker 1's has expired");
    placements.place(PREDICTION_TTL + s(30), 9, &keys(4, 1));
    assert_eq!(placements.len(), 2);
}

#[test]
fn placed_and_withdrawn_for_ever_it_does_not_grow() {
    let mut placements = Placements::default();
    for family in 0..5 * PREDICTION_KEYS_MAX as u64 {
        let number = placements.place(s(0), 1, &keys(family, 1));
        placements.withdraw(number, 1, &keys(family, 1));
    }
    assert_eq!(placements.len(), 0);
    assert!(placements.queue.len() <= 2 * PREDICTION_KEYS_MAX);
}

#[test]
fn the_end_of_one_placement_takes_nothing_from_another() {
    let mut placements = Placements::default();
    let prompt = keys(1, 4);
    let first = placements.place(s(0), 1, &prompt);
    placements.confirm(1, &prompt, 4);
    assert_eq!(placements.len(), 0, "the index shows it");
    placements.place(s(0), 1, &prompt);
    placements.withdraw(first, 1, &prompt);
    placements.settle(s(0), first, 1, &prompt);
    assert_eq!(found(&placements, s(9), &prompt), [(1, 4)]);
}

#[test]
fn a_failure_after_a_computed_sibling_leaves_only_what_is_on_its_way() {
    let mut placements = Placements::default();
    let prompt = keys(1, 4);
    let [computed, failed] = [0, 0].map(|now| placements.place(s(now), 1, &prompt));
    placements.settle(s(5), computed, 1, &prompt);
    placements.withdraw(failed, 1, &prompt);
    assert_eq!((found(&placements, s(5), &prompt), found(&placements, s(6), &prompt)), (vec![(1, 4)], vec![]));
}

#[test]
fn of_more_workers_than_a_key_has_room_for_the_first_to_expire_goes() {
    let mut placements = Placements::default();
    (0..6).for_each(|worker| _ = placements.place(s(worker.into()), worker, &keys(1, 1)));
    assert_eq!(found(&placements, s(9), &keys(1, 1)).len(), PREDICTION_WORKERS_MAX);
    assert!(found(&placements, s(9), &keys(1, 1)).iter().all(|&(worker, _)| worker >= 2));
    placements.forget(5);
    assert!(found(&placements, s(9), &keys(1, 1)).iter().all(|&(worker, _)| (2..5).contains(&worker)));
}

#[test]
fn a_placement_that_expired_does_not_keep_a_later_one_alive() {
    let mut placements = Placements::default();
    let prompt = keys(1, 1);
    placements.place(s(0), 2, &prompt);
    placements.place(s(10), 1, &prompt);
    placements.place(s(50), 2, &prompt);
    // Now the prefix stands in the queue with the expiry of worker 2.
    placements.place(s(65), 9, &keys(2, 1));
    let failed = placements.place(s(75), 1, &prompt);
    placements.withdraw(failed, 1, &prompt);
    assert_eq!(found(&placements, s(75), &prompt), [(2, 1)], "the first one at worker 1 expired at 70 s");
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Place { worker: u32, family: u64, blocks: u64 },
    Withdraw(usize),
    Settle(usize),
    Confirm { worker: u32, family: u64, blocks: u64, shown: u32 },
    Forget(u32),
}

fn any_step() -> impl Strategy<Value = Step> {
    let (worker, family, blocks) = (0u32..4, 0u64..3, 1u64..12);
    prop_oneof![
        2 => (0u64..50).prop_map(Step::Pass),
        5 => (worker.clone(), family.clone(), blocks.clone()).prop_map(|(worker, family, blocks)| Step::Place { worker, family, blocks }),
        2 => any::<usize>().prop_map(Step::Withdraw),
        2 => any::<usize>().prop_map(Step::Settle),
        1 => (worker.clone(), family, blocks, 0u32..12)
            .prop_map(|(worker, family, blocks, shown)| Step::Confirm { worker, family, blocks, shown }),
        1 => worker.prop_map(Step::Forget),
    ]
}

/// The same by the letter: every prefix at every worker with the list of who placed it.
#[derive(Default)]
struct Model(BTreeMap<(u64, u32), Held>);

#[derive(Default)]
struct Held {
    pending: Vec<u64>,
    expires: Duration,
    settled: Duration,
}

impl Held {
    fn is_live(&self, now: Duration) -> bool {
        now < self.settled || (!self.pending.is_empty() && now < self.expires)
    }
}

impl Model {
    fn each(&mut self, worker: u32, keys: &[Key], mut change: impl FnMut(u32, &mut Held)) {
        for key in keys {
            if let Some(held) = self.0.get_mut(&(key.hash, worker)) {
                change(key.blocks, held);
            }
        }
    }

    fn longest(&self, now: Duration, worker: u32, keys: &[Key]) -> Option<u32> {
        let live = |key: &&Key| self.0.get(&(key.hash, worker)).is_some_and(|held| held.is_live(now));
        keys.iter().rev().find(live).map(|key| key.blocks)
    }
}

proptest! {
    #[test]
    fn the_table_is_what_its_placements_say(steps in prop::collection::vec(any_step(), 1..60)) {
        let (mut placements, mut model, mut now) = (Placements::default(), Model::default(), s(0));
        let mut placed: Vec<(u64, u32, Vec<Key>)> = Vec::new();
        for step in steps {
            match step {
                Step::Pass(seconds) => now += s(seconds),
                Step::Place { worker, family, blocks } => {
                    let keys = keys(family, blocks);
                    let number = placements.place(now, worker, &keys);
                    model.0.retain(|_, held| held.is_live(now));
                    for key in &keys {
                        let held = model.0.entry((key.hash, worker)).or_default();
                        held.pending.push(number);
                        held.expires = now + PREDICTION_TTL;
                    }
                    placed.push((number, worker, keys));
                }
                Step::Withdraw(nth) if !placed.is_empty() => {
                    let (number, worker, keys) = placed.swap_remove(nth % placed.len());
                    placements.withdraw(number, worker, &keys);
                    model.each(worker, &keys, |_, held| held.pending.retain(|by| *by != number));
                }
                Step::Settle(nth) if !placed.is_empty() => {
                    let (number, worker, keys) = placed.swap_remove(nth % placed.len());
                    placements.settle(now, number, worker, &keys);
                    model.each(worker, &keys, |_, held| {
                        let live = held.is_live(now);
                        if let Some(place) = held.pending.iter().position(|by| live && *by == number) {
                            held.pending.remove(place);
                            held.settled = now + SETTLE_AFTER;
                        }
                    });
                }
                Step::Confirm { worker, family, blocks, shown } => {
                    placements.confirm(worker, &keys(family, blocks), shown);
                    model.each(worker, &keys(family, blocks), |blocks, held| if blocks <= shown { *held = Held::default() });
                }
                Step::Forget(worker) => {
                    placements.forget(worker);
                    model.0.retain(|(_, holder), _| *holder != worker);
                }
                _ => {}
            }
            for prompt in (0..3).flat_map(|family| [1, 5, 8, 11].map(|blocks| keys(family, blocks))) {
                let mut told = found(&placements, now, &prompt);
                told.sort_unstable();
                let expected: Vec<_> = (0..4).filter_map(|worker| Some((worker, model.longest(now, worker, &prompt)?))).collect();
                prop_assert_eq!(told, expected);
            }
        }
    }
}
