use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::mock_engine::sequence::Prompt;

const BLOCK_SIZE: usize = 16;

fn options(kv_blocks: usize) -> SchedulerOptions {
    SchedulerOptions {
        block_size: BLOCK_SIZE,
        kv_blocks,
        max_batched_tokens: 8_192,
        max_running: 256,
        reserve_full_prompt: true,
        prefill_first: false,
    }
}

/// A prompt of `len` tokens that shares its beginning with every other prompt of the same `family`.
fn request(id: u64, family: u32, len: u32, max_tokens: usize) -> Request {
    let tokens = (0..len).map(|position| family * 100_000 + position).collect();
    Request { id, prompt: Prompt::new(tokens, BLOCK_SIZE), max_tokens }
}

fn run_dry(scheduler: &mut Scheduler) -> Vec<Pass> {
    let mut passes = Vec::new();
    while scheduler.has_work() {
        passes.push(scheduler.pass());
        assert!(passes.len() < 100_000, "the scheduler makes no progress");
    }
    passes
}

fn cached_tokens(passes: &[Pass], id: u64) -> usize {
    let admitted = passes.iter().flat_map(|pass| &pass.admitted);
    admitted.filter(|admitted| admitted.id == id).map(|admitted| admitted.cached_tokens).next().unwrap()
}

#[test]
fn a_repeated_prompt_recomputes_its_last_block() {
    let mut scheduler = Scheduler::new(options(100));
    scheduler.submit(request(1, 1, 64, 1));
    run_dry(&mut scheduler);
    scheduler.submit(request(2, 1, 64, 1));
    let passes = run_dry(&mut scheduler);
    assert_eq!(cached_tokens(&passes, 2), 48);
    assert_eq!(passes[0].work.prefill_tokens, 16);
    assert!(passes[0].events.is_empty(), "the recomputed block was there already: {:?}", passes[0].events);
}

#[test]
fn the_chunk_that_completes_a_prompt_emits_the_first_token() {
    let mut scheduler = Scheduler::new(options(2_000));
    scheduler.submit(request(1, 1, 10_000, 2));
    let passes = run_dry(&mut scheduler);
    let work: Vec<_> = passes.iter().map(|pass| (pass.work.prefill_tokens, pass.work.decode_sequences)).collect();
    assert_eq!(work, [(8_192, 0), (1_808, 0), (0, 1)]);
    assert_eq!(passes.iter().map(|pass| pass.emitted.len()).collect::<Vec<_>>(), [0, 1, 1]);
    assert!(passes[2].emitted[0].last);
}

#[test]
fn chunks_are_stored_with_their_parent() {
    let mut scheduler = Scheduler::new(SchedulerOptions { max_batched_tokens: 40, ..options(100) });
    scheduler.submit(request(1, 1, 64, 1));
    let passes = run_dry(&mut scheduler);
    let events: Vec<_> = passes.iter().flat_map(|pass| &pass.events).collect();
    let [CacheEvent::Stored { parent: None, names: first, tokens }, CacheEvent::Stored { parent, names: second, .. }] =
        events[..]
    else {
        panic!("expected two stores, got {events:?}");
    };
    assert_eq!((first.len(), second.len(), tokens.len()), (2, 2, 32));
    assert_eq!(*parent, first.last().copied());
}

#[test]
fn a_prompt_waits_for_its_whole_length_and_blocks_those_behind_it() {
    let mut scheduler = Scheduler::new(SchedulerOptions { max_batched_tokens: 64, ..options(10) });
    scheduler.submit(request(1, 1, 64, 20));
    scheduler.submit(request(2, 2, 96, 1));
    scheduler.submit(request(3, 3, 16, 1));
    scheduler.pass();
    assert_eq!((scheduler.running(), scheduler.waiting()), (1, 2), "6 of 10 blocks are free; 97 tokens need 7");
    let admitted: Vec<u64> = run_dry(&mut scheduler).iter().flat_map(|pass| &pass.admitted).map(|admitted| admitted.id).collect();
    assert_eq!(admitted, [2, 3]);
}

#[test]
fn cached_blocks_are_not_room_for_the_prompt_that_uses_them() {
    let mut scheduler = Scheduler::new(options(10));
    scheduler.submit(request(1, 1, 64, 1));
    run_dry(&mut scheduler);
    scheduler.submit(request(2, 2, 70, 10));
    scheduler.pass();
    scheduler.submit(request(3, 1, 96, 1));
    scheduler.pass();
    assert_eq!(scheduler.waiting(), 1, "1 block is free, 4 idle ones are its own prefix, and it needs 3 more");
    assert_eq!(cached_tokens(&run_dry(&mut scheduler), 3), 64);
}

#[test]
fn without_the_reservation_the_first_chunk_is_enough() {
    let mut scheduler = Scheduler::new(SchedulerOptions { max_batched_tokens: 80, reserve_full_prompt: false, ..options(10) });
    scheduler.submit(request(1, 1, 64, 20));
    scheduler.submit(request(2, 2, 97, 1));
    scheduler.pass();
    assert_eq!(scheduler.running(), 2);
}

#[test]
fn the_most_recently_admitted_is_preempted_and_keeps_its_output() {
    let mut scheduler = Scheduler::new(options(10));
    scheduler.submit(request(1, 1, 64, 80));
    scheduler.submit(request(2, 2, 64, 20));
    let passes = run_dry(&mut scheduler);
    let preempted: usize = passes.iter().map(|pass| pass.preempted).sum();
    assert!(preempted >= 1, "two requests of 5 growing blocks do not fit in 10");
    let order: Vec<u64> = passes.iter().flat_map(|pass| &pass.emitted).filter(|e| e.last).map(|e| e.id).collect();
    assert_eq!(order.len(), 2);
    let tokens_of = |id| passes.iter().flat_map(|pass| &pass.emitted).filter(|e| e.id == id).count();
    assert_eq!((tokens_of(1), tokens_of(2)), (80, 20));
}

#[test]
fn a_lone_prompt_larger_than_the_pool_overdraws_it() {
    let mut scheduler = Scheduler::new(options(4));
    scheduler.submit(request(1, 1, 160, 3));
    let passes = run_dry(&mut scheduler);
    assert_eq!(passes.iter().map(|pass| pass.emitted.len()).sum::<usize>(), 3);
    scheduler.submit(request(2, 2, 16, 1));
    run_dry(&mut scheduler);
    assert!(scheduler.pool().used() <= 4, "the next request brings the pool back under its size");
}

#[test]
fn heads_outlive_tails() {
    let mut scheduler = Scheduler::new(options(8));
    scheduler.submit(request(1, 1, 64, 1));
    run_dry(&mut scheduler);
    scheduler.submit(request(2, 2, 80, 1));
    run_dry(&mut scheduler);
    let head = Prompt::new((0..49).map(|position| 100_000 + position).collect(), BLOCK_SIZE);
    assert_eq!(scheduler.pool().matched(head.servable()), 3, "5 blocks for the second take one of the 4");
}

#[test]
fn a_cancelled_request_frees_its_blocks_wherever_it_is() {
    let mut scheduler = Scheduler::new(SchedulerOptions { max_running: 1, ..options(10) });
    scheduler.submit(request(1, 1, 40, 100));
    scheduler.submit(request(2, 2, 40, 100));
    scheduler.pass();
    assert!(scheduler.cancel(1) && scheduler.cancel(2) && !scheduler.cancel(2));
    assert!(!scheduler.has_work());
    assert_eq!(scheduler.pool().used(), scheduler.pool().cached(), "only idle blocks are left");
}

#[test]
fn a_reset_clears_before_anything_else_and_the_requests_start_over() {
    let mut scheduler = Scheduler::new(options(100));
    scheduler.submit(request(1, 1, 64, 3));
    scheduler.pass();
    scheduler.request_reset();
    let pass = scheduler.pass();
    assert_eq!(pass.events[0], CacheEvent::Cleared);
    assert_eq!(pass.preempted, 1);
    let passes = run_dry(&mut scheduler);
    assert_eq!(passes.iter().map(|pass| pass.emitted.len()).sum::<usize>() + pass.emitted.len(), 2);
}

#[test]
fn prefill_first_holds_decoding_back() {
    let mut scheduler = Scheduler::new(SchedulerOptions { prefill_first: true, ..options(100) });
    scheduler.submit(request(1, 1, 32, 5));
    scheduler.pass();
    scheduler.submit(request(2, 2, 32, 5));
    let mixed = scheduler.pass().work;
    assert_eq!((mixed.prefill_tokens, mixed.decode_sequences), (32, 0));
    assert_eq!(scheduler.pass().work.decode_sequences, 2);
}

#[derive(Debug, Clone)]
enum Step {
    Submit { family: u32, len: u32, max_tokens: usize },
    Cancel(u64),
    Reset,
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    let submit =
        (0..3_u32, 1..200_u32, 1..40_usize).prop_map(|(family, len, max_tokens)| Step::Submit { family, len, max_tokens });
    prop_oneof![3 => submit, 1 => (0..20_u64).prop_map(Step::Cancel), 1 => Just(Step::Reset), 12 => Just(Step::Pass)]
}

/// What a subscriber knows and what a client is owed.
#[derive(Debug, Default)]
struct Observer {
    cache: HashSet<u64>,
    owed: HashMap<u64, usize>,
}

impl Observer {
    fn see(&mut self, pass: &Pass) {
        for event in &pass.events {
            self.see_event(event);
        }
        for emitted in &pass.emitted {
            let owed = self.owed.get_mut(&emitted.id).expect("a token of a request that is not there");
            *owed -= 1;
            assert_eq!(*owed == 0, emitted.last);
            if emitted.last {
                self.owed.remove(&emitted.id);
            }
        }
    }

    fn see_event(&mut self, event: &CacheEvent) {
        match event {
            CacheEvent::Cleared => self.cache.clear(),
            CacheEvent::Removed(names) => {
                assert!(names.iter().all(|name| self.cache.remove(name)), "removed a block that was not there");
            }
            CacheEvent::Stored { parent, names, tokens } => {
                assert!(parent.is_none_or(|parent| self.cache.contains(&parent)), "the parent is unknown");
                assert!(names.iter().all(|&name| self.cache.insert(name)), "stored a block twice");
                assert_eq!(tokens.len(), names.len() * BLOCK_SIZE);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Under any load on a pool that is too small: what subscribers know is what the pool holds, every request gets
    /// exactly its tokens, and the pool is only ever overdrawn by a request that is alone.
    #[test]
    fn events_tokens_and_blocks_add_up(
        steps in proptest::collection::vec(step(), 1..150),
        prefill_first: bool,
        reserve_full_prompt: bool,
        kv_blocks in 6..40_usize,
    ) {
        let options = SchedulerOptions { max_batched_tokens: 128, max_running: 4, prefill_first, reserve_full_prompt, ..options(kv_blocks) };
        let (mut scheduler, mut observer) = (Scheduler::new(options), Observer::default());
        for (id, step) in (0_u64..).zip(steps) {
            match step {
                Step::Submit { family, len, max_tokens } => {
                    scheduler.submit(request(id, family, len, max_tokens));
                    observer.owed.insert(id, max_tokens);
                }
                Step::Cancel(id) => prop_assert_eq!(scheduler.cancel(id), observer.owed.remove(&id).is_some()),
                Step::Reset => scheduler.request_reset(),
                Step::Pass => observer.see(&scheduler.pass()),
            }
            prop_assert_eq!(&scheduler.pool().names().collect::<HashSet<_>>(), &observer.cache);
            prop_assert!(scheduler.pool().used() <= kv_blocks || scheduler.running() <= 1);
        }
        run_dry(&mut scheduler).iter().for_each(|pass| observer.see(pass));
        prop_assert!(observer.owed.is_empty(), "still owed: {:?}", observer.owed);
        prop_assert_eq!(scheduler.pool().used(), scheduler.pool().cached(), "only idle blocks are left");
    }
}
