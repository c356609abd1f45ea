//! Each policy's own rule.

use kv_routing::cost::{Ask, CostFunction};
use kv_routing::select::Gates;
use kv_routing::{Branch, Candidate, Load, Overlap, Overrides, Policy, Request, Router, Threshold};

use crate::{ALL, REQUEST, candidate, choice, chosen, queued};

#[test]
fn cache_aware_takes_the_least_loaded_of_the_deepest_holders() {
    let holders = [candidate(0, 896, 0), queued(1, 960, 9_000), queued(2, 960, 500), candidate(3, 0, 0)];
    let choice = choice(Policy::CacheAware, &holders, 0);
    assert_eq!((choice.worker, choice.branch), (2, Branch::Hit));
    assert_eq!((choice.overlap_tokens, choice.best_overlap_tokens), (960, 960));
}

#[test]
fn cache_aware_spills_when_every_deepest_holder_is_out_of_line() {
    let busy = candidate(0, 960, 30);
    let branch_of = |others: &[Candidate]| {
        let choice = choice(Policy::CacheAware, &[&[busy], others].concat(), 5);
        (choice.worker, choice.branch)
    };
    assert_eq!(branch_of(&[candidate(1, 0, 0)]), (1, Branch::Spill));
    assert_eq!(branch_of(&[candidate(1, 0, 28)]), (0, Branch::Hit), "one with as much to do is no better");
    assert_eq!(branch_of(&[candidate(1, 960, 1), candidate(2, 0, 0)]), (1, Branch::Hit), "the holder that is in line");
}

#[test]
fn cache_aware_goes_by_load_when_nobody_has_any_or_memory_is_short() {
    let miss = [candidate(0, 0, 9), candidate(1, 0, 2)];
    assert_eq!((choice(Policy::CacheAware, &miss, 0).worker, choice(Policy::CacheAware, &miss, 0).branch), (1, Branch::Miss));
    let full = |usage| Load { kv_usage: Some(usage), ..Load::default() };
    let holders = [Candidate { load: full(0.95), ..candidate(0, 960, 0) }, Candidate { load: full(0.1), ..candidate(1, 0, 0) }];
    let gated =
        Router { gates: Gates { kv_usage: Threshold::Above(0.9), ..Gates::default() }, ..Router::new(Policy::CacheAware) };
    let choice = gated.decide(REQUEST, &holders, 0).unwrap().choice;
    assert_eq!((choice.worker, choice.branch), (1, Branch::MemoryShort));
    assert_eq!(chosen(Policy::CacheAware, &holders, 0), 0, "the gate is off by default");
}

#[test]
fn blend_keeps_affinity_until_the_wait_costs_more_than_it_saves() {
    let idle = candidate(1, 0, 0);
    let holder = |queued_tokens| queued(2, 900, queued_tokens);
    assert_eq!(chosen(Policy::Blend, &[idle, holder(2_000)], 0), 2, "waiting for reuse is cheap");
    assert_eq!(chosen(Policy::Blend, &[idle, holder(8_000)], 0), 1);
    // No cliff in between: the queue that tips it is one and the same from both sides.
    let tips: Vec<bool> = (0..100).map(|hundred| chosen(Policy::Blend, &[idle, holder(hundred * 100)], 0) == 2).collect();
    assert_eq!(tips.windows(2).filter(|pair| pair[0] != pair[1]).count(), 1, "{tips:?}");
}

#[test]
fn blend_does_not_wait_for_a_short_head() {
    let prompt = Request { prompt_tokens: 8_000, home: None };
    let of = |head: u64, queued_tokens| {
        let holders = [queued(1, head, queued_tokens), candidate(2, 0, 0)];
        Router::new(Policy::Blend).decide(prompt, &holders, 0).unwrap().choice.worker
    };
    assert_eq!((of(64, 1_000), of(6_000, 1_000)), (2, 1));
}

#[test]
fn blend_prefers_a_hit_on_a_nearer_tier_and_discounts_doubt() {
    let on = |worker, overlap| Candidate { worker, overlap, ..Candidate::default() };
    let host = on(1, Overlap { host_tokens: 600, ..Overlap::default() });
    let disk = on(2, Overlap { disk_tokens: 600, ..Overlap::default() });
    let hoped = on(3, Overlap { predicted_tokens: 600, ..Overlap::default() });
    let doubted = Candidate { degraded: true, ..on(4, Overlap::device(600)) };
    for policy in [Policy::Blend, Policy::CacheAware] {
        let device = on(5, Overlap::device(600));
        assert_eq!(chosen(policy, &[host, disk, hoped, doubted, device], 0), 5, "{policy:?}");
        assert_eq!(chosen(policy, &[host, disk, hoped, doubted], 0), 3, "{policy:?}");
        assert_eq!(chosen(policy, &[host, disk, doubted], 0), 1, "{policy:?}");
        assert_eq!(chosen(policy, &[doubted, on(6, Overlap::device(290))], 0), 4, "{policy:?}");
        assert_eq!(chosen(policy, &[doubted, on(6, Overlap::device(310))], 0), 6, "{policy:?}");
    }
}

#[test]
fn least_load_does_not_look_at_overlap() {
    let holders = [candidate(0, 960, 3), candidate(1, 0, 2)];
    assert_eq!(choice(Policy::LeastLoad, &holders, 0).branch, Branch::Load);
    assert!((0..50).all(|seed| chosen(Policy::LeastLoad, &holders, seed) == 1));
    assert_eq!(choice(Policy::LeastLoad, &holders, 0).best_overlap_tokens, 960, "what was forgone is told");
}

#[test]
fn power_of_two_never_takes_the_most_loaded_and_reaches_all_others() {
    let loads: Vec<Candidate> = (0..10).map(|worker| candidate(worker, 0, worker)).collect();
    let mut hits = [0i32; 10];
    (0..2_000).for_each(|seed| hits[chosen(Policy::PowerOfTwo, &loads, seed) as usize] += 1);
    assert_eq!(hits[9], 0, "two are always different");
    // The n-th of ten is the lesser of two in (9 - n) of 45 pairs.
    for (hits, pairs) in hits.iter().zip((0..10).rev()) {
        assert!((hits - pairs * 2_000 / 45).abs() < 60, "{hits} {pairs}");
    }
    let two = [candidate(0, 0, 9), candidate(1, 0, 0)];
    assert!((0..64).all(|seed| chosen(Policy::PowerOfTwo, &two, seed) == 1), "of two, both are drawn");
    assert_eq!(chosen(Policy::PowerOfTwo, &loads[4..5], 1), 4);
}

#[test]
fn round_robin_takes_turns_among_the_eligible() {
    let all = [candidate(5, 0, 0), Candidate { vetoed: true, ..candidate(6, 0, 0) }, candidate(7, 0, 0)];
    let turns: Vec<_> = (0..4).map(|turn| chosen(Policy::RoundRobin, &all, turn)).collect();
    assert_eq!(turns, [5, 7, 5, 7]);
}

#[test]
fn random_reaches_everybody_whatever_they_cost() {
    let uneven: Vec<Candidate> = (0..8).map(|worker| candidate(worker, u64::from(worker) * 100, worker * 9)).collect();
    let mut hits = [0u32; 8];
    (0..800).for_each(|seed| hits[chosen(Policy::Random, &uneven, seed) as usize] += 1);
    assert!(hits.iter().all(|&hits| (60..=140).contains(&hits)), "{hits:?}");
}

// D31: several routers with one view of the fleet all choose the same worker.
#[test]
fn a_temperature_spreads_routers_that_see_the_same() {
    let views: Vec<Candidate> = (0..8).map(|worker| candidate(worker, 1_000 - u64::from(worker) * 100, 0)).collect();
    for policy in [Policy::Blend, Policy::CacheAware] {
        let warm = Router { temperature: 0.5, ..Router::new(policy) };
        let of = |router: &Router, seed| router.decide(REQUEST, &views, seed).unwrap().choice;
        let mut hits = [0u32; 8];
        (0..400).for_each(|seed| hits[of(&warm, seed).worker as usize] += 1);
        assert!(hits[0] > hits[7] && hits[0] > 60 && hits[0] < 300, "{policy:?} {hits:?}");
        assert!((0..50).all(|seed| of(&Router::new(policy), seed).worker == 0));
        assert!((0..50).all(|seed| of(&warm, seed).worker == of(&warm, seed).worker));
    }
}

#[test]
fn a_session_stays_at_home_while_home_is_in_line() {
    let request = Request { home: Some(1), ..REQUEST };
    for policy in ALL {
        let at = |candidates: &[Candidate]| {
            let choice = Router::new(policy).decide(request, candidates, 3).unwrap().choice;
            (choice.worker, choice.branch == Branch::Home)
        };
        assert_eq!(at(&[candidate(0, 960, 0), candidate(1, 0, 3)]), (1, true), "{policy:?}");
        assert!(!at(&[candidate(0, 960, 0), candidate(1, 0, 30)]).1, "{policy:?}: home is swamped");
        let gone = Candidate { vetoed: true, ..candidate(1, 0, 0) };
        assert_eq!(at(&[candidate(0, 0, 0), gone]), (0, false), "{policy:?}: home is vetoed");
    }
}

/// A cost of the caller's own: keep off every other worker.
struct Odd(f64);

impl CostFunction for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }

    fn cost_s(&self, _: &Ask, candidate: &Candidate) -> f64 {
        if candidate.worker % 2 == 1 { self.0 } else { 0.0 }
    }
}

#[test]
fn a_cost_function_of_ones_own_decides_and_is_replayed_without_it() {
    let all = [candidate(1, 960, 0), candidate(2, 0, 0)];
    let with = |price| Router::new(Policy::Blend).decide_with(REQUEST, &all, &[&Odd(price)], 0).unwrap();
    assert_eq!((with(0.01).choice.worker, with(1.0).choice.worker), (1, 2));
    assert_eq!(with(1.0).record.replay(), Ok(with(1.0).choice));
    assert_eq!((with(1.0).record.own[0].as_ref(), with(1.0).record.scored[0].costs.own_s), ("odd", 1.0));
    assert_eq!(with(f64::NAN).choice.worker, 1, "what is no number does not choose");
    assert_eq!(with(f64::INFINITY).choice.worker, 1);
}

#[test]
fn overrides_are_of_one_worker() {
    let slow = Overrides { tokens_per_s: Some(100.0), ..Overrides::default() };
    let drained = Overrides { handicap_s: 10.0, ..Overrides::default() };
    for overrides in [slow, drained] {
        let all = [Candidate { overrides, ..queued(1, 500, 10) }, queued(2, 500, 20)];
        assert_eq!(chosen(Policy::Blend, &all, 0), 2, "{overrides:?}");
        assert_eq!(chosen(Policy::LeastLoad, &all, 0), 2, "{overrides:?}");
    }
    let wanted = Overrides { handicap_s: -1.0, ..Overrides::default() };
    assert_eq!(chosen(Policy::Blend, &[queued(1, 500, 10), Candidate { overrides: wanted, ..queued(2, 0, 20) }], 0), 2);
}
