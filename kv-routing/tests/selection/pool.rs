//! Decisions in large pools.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use kv_index::{Match, Matches, Scheme, View, WorkerId};
use kv_routing::limits::{HOLDERS_MAX, POOL_SAMPLE, POOL_WORKERS_MAX, REFINED_MAX};
use kv_routing::select::Scratch;
use kv_routing::{Branch, Candidate, Load, Lookup, NoCandidate, Overlap, Policy, Pool, PoolError, Request, Router};

use crate::{ALL, REQUEST};

const BLOCK: u64 = 16;

fn pool(workers: u32) -> Pool {
    let mut pool = Pool::new();
    (0..workers).for_each(|worker| pool.insert(WorkerId(worker), worker / 2, worker % 2).unwrap());
    pool
}

/// Depths in blocks of some workers.
fn matches(rows: impl IntoIterator<Item = (u32, u32)>) -> Matches {
    let mut matches = Matches::new();
    rows.into_iter().for_each(|(worker, depth)| matches.push(Match { depth, worker: WorkerId(worker), view: View::MAIN }));
    matches.finish();
    matches
}

fn lookup(matches: &Matches) -> Lookup<'_> {
    let block_tokens = NonZeroU32::new(16).unwrap();
    Lookup { matches, scheme: Scheme::plain(block_tokens), predicted: &[] }
}

fn chosen(pool: &Pool, policy: Policy, matches: &Matches, seed: u64) -> u32 {
    pool.choose(&Router::new(policy), REQUEST, &lookup(matches), None, seed, &mut Scratch::new()).unwrap().worker
}

#[test]
fn a_small_pool_is_decided_as_its_slice_is() {
    let mut pool = pool(20);
    for worker in 0..20 {
        let in_flight = worker * 7 % 5;
        // With what the fleet's means are made of.
        let (rate_tokens_per_s, kv_usage) = (Some(9_000.0), Some(0.5));
        let queued_tokens = u64::from(worker * 13 % 7) * 500;
        let load = Load { in_flight, running: in_flight, queued_tokens, rate_tokens_per_s, kv_usage, ..Load::default() };
        pool.update(WorkerId(worker), |candidate| candidate.load = load).unwrap();
    }
    let found = matches([(3, 40), (4, 40), (9, 10)]);
    let overlaps: BTreeMap<u32, u64> = [(3, 40), (4, 40), (9, 10)].into();
    let with = |worker| {
        let overlap = Overlap::device(overlaps.get(&worker).copied().unwrap_or(0) * BLOCK);
        Candidate { overlap, ..*pool.candidate(WorkerId(worker)).unwrap() }
    };
    let slice: Vec<Candidate> = (0..20).map(with).collect();
    let same = |pool: &Pool, slice: &[Candidate]| {
        for policy in [Policy::Blend, Policy::CacheAware] {
            let of_slice = Router::new(policy).decide(REQUEST, slice, 3).unwrap().choice;
            let of_pool = pool.decide(&Router::new(policy), REQUEST, &lookup(&found), None, 3).unwrap();
            assert_eq!((of_pool.choice.worker, of_pool.choice.costs), (of_slice.worker, of_slice.costs), "{policy:?}");
            assert_eq!(of_pool.record.replay(), Ok(of_pool.choice));
        }
    };
    same(&pool, &slice);
    let overloaded: Vec<Candidate> = slice.iter().map(|candidate| Candidate { overloaded: true, ..*candidate }).collect();
    (0..20).for_each(|worker| pool.update(WorkerId(worker), |candidate| candidate.overloaded = true).unwrap());
    same(&pool, &overloaded);
}

#[test]
fn a_large_pool_finds_the_deepest_holder_and_looks_at_few() {
    let pool = pool(4_096);
    // A template that all have, a head that many have, and one worker with a block more.
    let all = (0..4_096).map(|worker| {
        (
            worker,
            if worker == 2_345 {
                41
            } else if worker % 5 == 0 {
                40
            } else {
                6
            },
        )
    });
    let found = matches(all);
    let mut scratch = Scratch::new();
    for seed in 0..200 {
        for policy in [Policy::Blend, Policy::CacheAware] {
            let choice = pool.choose(&Router::new(policy), REQUEST, &lookup(&found), None, seed, &mut scratch).unwrap();
            assert_eq!((choice.worker, choice.branch), (2_345, Branch::Hit));
            assert!(scratch.shortlist().len() <= HOLDERS_MAX + POOL_SAMPLE, "{}", scratch.shortlist().len());
        }
    }
}

#[test]
fn holders_of_one_depth_have_the_same_chance() {
    let pool = pool(1_024);
    let found = matches((0..1_024).filter(|worker| worker % 4 == 0).map(|worker| (worker, 40)));
    let mut hits = BTreeMap::new();
    (0..5_120).for_each(|seed| *hits.entry(chosen(&pool, Policy::CacheAware, &found, seed)).or_insert(0) += 1);
    assert_eq!(hits.len(), 256, "all holders are reached");
    assert!(hits.values().all(|&hits| hits <= 60), "none far above the mean of 20: {hits:?}");
}

// Defect 27 in a pool: a thousand misses reach all, none above three times the mean.
#[test]
fn a_thousand_misses_over_128_idle_workers_of_a_pool_reach_all() {
    for policy in [Policy::CacheAware, Policy::Blend, Policy::LeastLoad, Policy::PowerOfTwo, Policy::Random, Policy::RoundRobin] {
        let (pool, nobody, mut hits) = (pool(128), matches([]), [0u32; 128]);
        (0..1_000).for_each(|seed| hits[chosen(&pool, policy, &nobody, seed) as usize] += 1);
        assert!(hits.iter().all(|&hits| (1..=23).contains(&hits)), "{policy:?} {hits:?}");
    }
}

// Stable at 4,096: misses spread by load, so that nobody's queue runs away.
#[test]
fn misses_level_the_loads_of_a_large_pool() {
    let (mut pool, nobody, mut scratch) = (pool(4_096), matches([]), Scratch::new());
    for seed in 0..16_384 {
        let worker = pool.choose(&Router::default(), REQUEST, &lookup(&nobody), None, seed, &mut scratch).unwrap().worker;
        pool.update(WorkerId(worker), |candidate| candidate.load.in_flight += 1).unwrap();
    }
    let loads: Vec<u32> = (0..4_096).map(|worker| pool.candidate(WorkerId(worker)).unwrap().load.in_flight).collect();
    let most = loads.iter().max().unwrap();
    assert!(*most <= 6, "the mean is 4, the most {most}");
}

#[test]
fn whoever_is_ruled_out_is_not_in_the_way() {
    let mut pool = pool(200);
    (0..100).for_each(|worker| pool.update(WorkerId(worker), |candidate| candidate.vetoed = true).unwrap());
    let found = matches((0..101).map(|worker| (worker, if worker < 100 { 60 - worker / 20 } else { 3 })));
    for policy in ALL {
        assert!((0..64).all(|seed| chosen(&pool, policy, &found, seed) >= 100), "{policy:?}");
    }
    assert!((0..64).all(|seed| chosen(&pool, Policy::Blend, &found, seed) == 100), "a shallow holder behind vetoed deep ones");
    (100..200).for_each(|worker| pool.update(WorkerId(worker), |candidate| candidate.vetoed = true).unwrap());
    pool.update(WorkerId(150), |candidate| candidate.ready = false).unwrap();
    pool.update(WorkerId(7), |candidate| candidate.load.in_flight = 0).unwrap();
    let choice = pool.choose(&Router::default(), REQUEST, &lookup(&found), None, 1, &mut Scratch::new()).unwrap();
    assert!(matches!(choice.branch, Branch::Fallback(_)), "{choice:?}");
    let empty = Pool::new().choose(&Router::default(), REQUEST, &lookup(&found), None, 1, &mut Scratch::new());
    assert_eq!(empty, Err(NoCandidate::EmptyPool));
}

// D37: a rank outside the engine's, and an unset rank that became rank 0.
#[test]
fn workers_and_ranks_that_are_not_there_are_named() {
    let mut pool = pool(4);
    assert_eq!(pool.pinned(1, 1), Ok(WorkerId(3)));
    assert_eq!(pool.pinned(7, 0), Err(PoolError::UnknownEngine { engine: 7 }));
    assert_eq!(pool.pinned(1, 2), Err(PoolError::UnknownRank { engine: 1, rank: 2, ranks: 2 }));
    let stranger = WorkerId(9);
    assert_eq!(pool.update(stranger, |_| ()), Err(PoolError::UnknownWorker { worker: stranger }));
    assert_eq!(pool.remove(stranger), Err(PoolError::UnknownWorker { worker: stranger }));
    assert_eq!(pool.insert(WorkerId(3), 8, 0), Err(PoolError::Present { worker: WorkerId(3), engine: 8, rank: 0 }));
    assert_eq!(pool.insert(WorkerId(8), 1, 1), Err(PoolError::Present { worker: WorkerId(8), engine: 1, rank: 1 }));
    let far = WorkerId(u32::MAX);
    assert_eq!(pool.insert(far, 8, 0), Err(PoolError::Full { worker: far, workers: 4, limit: POOL_WORKERS_MAX }));
    assert_eq!(pool.pinned(1, 2).unwrap_err().to_string(), "engine 1 has no rank 2; it has 2");
}

#[test]
fn matches_of_workers_that_left_the_pool_are_passed_over() {
    let mut pool = pool(64);
    let found = matches([(5, 50), (6, 40)]);
    pool.remove(WorkerId(5)).unwrap();
    assert_eq!(chosen(&pool, Policy::Blend, &found, 1), 6);
    pool.insert(WorkerId(5), 2, 1).unwrap();
    assert_eq!(chosen(&pool, Policy::Blend, &found, 1), 5);
}

#[test]
fn the_last_token_is_never_credited() {
    let (pool, found) = (pool(2), matches([(0, 4)]));
    let request = |prompt_tokens| Request { prompt_tokens, home: None };
    let overlap = |prompt_tokens| {
        pool.choose(&Router::default(), request(prompt_tokens), &lookup(&found), None, 1, &mut Scratch::new())
            .unwrap()
            .overlap_tokens
    };
    assert_eq!((overlap(64), overlap(65)), (48, 64));
}

#[test]
fn what_is_not_on_the_device_counts_as_host() {
    let mut found = Matches::new();
    let device = View(1);
    for (worker, depth, view) in [(0, 40, View::MAIN), (0, 10, device), (1, 38, View::MAIN), (1, 38, device)] {
        found.push(Match { depth, worker: WorkerId(worker), view });
    }
    found.finish();
    let mut pool = pool(64);
    pool.set_device_view(WorkerId(0), Some(device)).unwrap();
    pool.set_device_view(WorkerId(1), Some(device)).unwrap();
    let decision = pool.decide(&Router::default(), REQUEST, &lookup(&found), None, 1).unwrap();
    assert_eq!(decision.choice.worker, 1, "two blocks more are not worth copying thirty");
    let first = decision.record.scored.iter().find(|scored| scored.candidate.worker == 0).unwrap();
    assert_eq!(first.candidate.overlap, Overlap { host_tokens: 30 * BLOCK, ..Overlap::device(10 * BLOCK) });
}

// D30: siblings that arrive before the first event.
#[test]
fn a_booked_prediction_makes_a_holder() {
    let (pool, nobody) = (pool(300), matches([]));
    let booked = [Match { depth: 40, worker: WorkerId(211), view: View::MAIN }];
    let expecting = Lookup { predicted: &booked, ..lookup(&nobody) };
    for policy in [Policy::Blend, Policy::CacheAware] {
        let choose = |seed| pool.choose(&Router::new(policy), REQUEST, &expecting, None, seed, &mut Scratch::new()).unwrap();
        assert!((0..50).all(|seed| choose(seed).worker == 211), "{policy:?}");
    }
    let decision = pool.decide(&Router::default(), REQUEST, &expecting, None, 1).unwrap();
    let overlap = decision.record.scored[0].candidate.overlap;
    assert_eq!(overlap, Overlap { predicted_tokens: 640, ..Overlap::default() });
}

#[test]
fn a_sessions_home_is_looked_at_wherever_it_is() {
    let (pool, nobody) = (pool(1_000), matches([]));
    let request = Request { home: Some(777), ..REQUEST };
    let choose = |seed| pool.choose(&Router::default(), request, &lookup(&nobody), None, seed, &mut Scratch::new()).unwrap();
    assert!((0..50).all(|seed| (choose(seed).worker, choose(seed).branch) == (777, Branch::Home)));
}

// Hybrid models: only the deepest few pay for the lookups of their other groups.
#[test]
fn only_the_deepest_few_are_refined_and_the_best_of_them_is_found() {
    let pool = pool(1_024);
    let found = matches((0..500).map(|worker| (worker, 60 - worker / 100)));
    let refined = |usable: &dyn Fn(WorkerId, u32) -> u32| {
        let mut asked = Vec::new();
        let mut refine = |worker: WorkerId, depth: u32| {
            asked.push((worker, depth));
            usable(worker, depth)
        };
        let router = Router::new(Policy::CacheAware);
        let choice = pool.choose(&router, REQUEST, &lookup(&found), Some(&mut refine), 1, &mut Scratch::new()).unwrap();
        (choice, asked.len())
    };
    let (choice, asked) = refined(&|worker, depth| if worker.0 == 3 { depth - 8 } else { 16 });
    assert_eq!((choice.worker, choice.overlap_tokens, asked), (3, 52 * BLOCK, REFINED_MAX));
    let (choice, asked) = refined(&|_, _| 1_000);
    assert!(choice.overlap_tokens <= 60 * BLOCK && asked <= REFINED_MAX, "no group adds to what the main one has");
    let few = matches([(7, 60), (8, 30), (9, 20)]);
    let mut count = 0;
    let mut refine = |_: WorkerId, depth: u32| {
        count += 1;
        depth.min(40)
    };
    let router = Router::new(Policy::CacheAware);
    let choice = pool.choose(&router, REQUEST, &lookup(&few), Some(&mut refine), 1, &mut Scratch::new()).unwrap();
    assert_eq!((choice.worker, count), (7, 1), "nobody behind 40 can have more");
}

#[test]
fn means_follow_every_change() {
    let mut pool = pool(40);
    let mut draw = kv_routing::select::Draw::new(9);
    for _ in 0..2_000 {
        let worker = WorkerId(u32::try_from(draw.below(40).unwrap()).unwrap());
        let (roll, in_flight) = (draw.below(10).unwrap(), u32::try_from(draw.below(30).unwrap()).unwrap());
        match roll {
            0 => _ = pool.remove(worker),
            1 => _ = pool.insert(worker, worker.0 / 2, worker.0 % 2),
            2 => _ = pool.update(worker, |candidate| candidate.vetoed ^= true),
            _ => {
                let rate = (in_flight > 10).then_some(1e12);
                let load = Load { in_flight, running: in_flight, rate_tokens_per_s: rate, ..Load::default() };
                _ = pool.update(worker, |candidate| candidate.load = load);
            }
        }
    }
    let router = Router::new(Policy::Random);
    let decision = pool.decide(&router, REQUEST, &lookup(&matches([])), None, 1).unwrap();
    let members: Vec<Candidate> = (0..40).filter_map(|worker| pool.candidate(WorkerId(worker)).ok().copied()).collect();
    let mut expected = router.fleet(&members);
    // A pool keeps rates within what a worker can do.
    expected.tokens_per_s = decision.record.ask.fleet.tokens_per_s;
    assert_eq!(decision.record.ask.fleet, expected);
    assert!(decision.record.ask.fleet.tokens_per_s.is_finite() && pool.len() == members.len());
}

#[test]
fn the_other_groups_count_where_all_are_overloaded_too() {
    let mut pool = pool(64);
    (0..64).for_each(|worker| pool.update(WorkerId(worker), |candidate| candidate.overloaded = true).unwrap());
    let found = matches([(7, 40), (9, 40)]);
    let mut refine = |worker: WorkerId, depth: u32| if worker.0 == 7 { 1 } else { depth };
    let choice =
        pool.choose(&Router::new(Policy::CacheAware), REQUEST, &lookup(&found), Some(&mut refine), 3, &mut Scratch::new());
    assert_eq!(choice.map(|choice| (choice.worker, choice.overlap_tokens)), Ok((9, 40 * BLOCK)));
}
