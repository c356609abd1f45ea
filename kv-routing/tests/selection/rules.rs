//! What must hold whatever the policy: defects and complaints by their numbers.

use kv_routing::select::Fallback;
use kv_routing::{Branch, Candidate, Load, NoCandidate, Overlap, Policy, Request, Router};

use crate::{ALL, REQUEST, candidate, chosen, queued};

/// How often each of `workers` was chosen.
fn hits(policy: Policy, candidates: &[Candidate], requests: u64) -> Vec<u32> {
    let mut hits = vec![0; candidates.len()];
    (0..requests).for_each(|seed| hits[chosen(policy, candidates, seed) as usize] += 1);
    hits
}

// Defect 27, D29, P29: 47 of 128 workers were used, because ties fell on the first row.
#[test]
fn a_thousand_misses_over_128_idle_workers_reach_all() {
    let idle: Vec<Candidate> = (0..128).map(|worker| candidate(worker, 0, 0)).collect();
    for policy in [Policy::CacheAware, Policy::Blend, Policy::LeastLoad, Policy::PowerOfTwo, Policy::Random] {
        let hits = hits(policy, &idle, 1_000);
        assert!(hits.iter().all(|&hits| (1..=23).contains(&hits)), "{policy:?} {hits:?}");
    }
}

// sglang#32983: a miss at low concurrency always picks replica 0. Digits of usage 1e-9 apart are no difference.
#[test]
fn usage_that_differs_by_a_billionth_is_a_tie() {
    let usage = |kv_usage| Load { kv_usage: Some(kv_usage), ..Load::default() };
    let all = [0.5, 0.5 + f32::EPSILON].map(|kv_usage| Candidate { load: usage(kv_usage), ..Candidate::default() });
    let all = [all[0], Candidate { worker: 1, ..all[1] }];
    let hits = hits(Policy::LeastLoad, &all, 1_000);
    assert!(hits.iter().all(|&hits| hits > 400), "{hits:?}");
}

#[test]
fn one_cheaper_worker_wins_a_thousand_of_a_thousand() {
    let with = |place: u32, cheaper: Candidate| -> Vec<Candidate> {
        (0..128).map(|worker| if worker == place { Candidate { worker, ..cheaper } } else { candidate(worker, 0, 1) }).collect()
    };
    for policy in [Policy::CacheAware, Policy::Blend, Policy::LeastLoad] {
        assert_eq!(hits(policy, &with(77, candidate(0, 0, 0)), 1_000)[77], 1_000, "{policy:?}");
    }
    for policy in [Policy::CacheAware, Policy::Blend] {
        assert_eq!(hits(policy, &with(78, candidate(0, 16, 1)), 1_000)[78], 1_000, "{policy:?}");
    }
}

// D27: turns of a conversation with equal scores for all, and then any worker.
#[test]
fn the_next_turn_of_a_conversation_goes_where_the_last_one_went() {
    let everywhere = 320;
    let mut all: Vec<Candidate> = (0..8).map(|worker| candidate(worker, everywhere, 2)).collect();
    all[5].overlap = Overlap::device(everywhere + 16);
    for policy in [Policy::CacheAware, Policy::Blend] {
        assert_eq!(hits(policy, &all, 200)[5], 200, "{policy:?}: one block more is the difference");
    }
}

// D8: a dead worker kept being selected because its prefix was cached there.
#[test]
fn a_prefix_attracts_nobody_to_a_worker_that_is_ruled_out() {
    let holder = candidate(0, 1_000, 0);
    let out =
        [Candidate { ready: false, ..holder }, Candidate { vetoed: true, ..holder }, Candidate { overloaded: true, ..holder }];
    for (policy, out) in ALL.into_iter().flat_map(|policy| out.map(|out| (policy, out))) {
        let decide = |seed| Router::new(policy).decide(REQUEST, &[out, candidate(1, 0, 50)], seed).unwrap().choice;
        assert!((0..32).all(|seed| decide(seed).worker == 1), "{policy:?} {out:?}");
        assert_eq!(decide(0).best_overlap_tokens, 0, "what cannot be reached is no regret");
    }
}

// Behaviour 3: a veto steers and never refuses.
#[test]
fn when_all_are_ruled_out_one_of_the_better_ones_is_taken() {
    let vetoed = |worker, in_flight| Candidate { vetoed: true, ..candidate(worker, 900, in_flight) };
    let overloaded = |worker, in_flight| Candidate { overloaded: true, ..candidate(worker, 0, in_flight) };
    let down = Candidate { ready: false, ..candidate(9, 900, 0) };
    for policy in ALL {
        let take = |candidates: &[Candidate], seed| {
            let choice = Router::new(policy).decide(REQUEST, candidates, seed).unwrap().choice;
            (choice.worker, choice.branch)
        };
        let mixed = [vetoed(0, 0), overloaded(1, 80), overloaded(2, 60), down];
        let of_overloaded = |(worker, branch)| matches!(worker, 1 | 2) && branch == Branch::Fallback(Fallback::Overloaded);
        assert!((0..32).all(|seed| of_overloaded(take(&mixed, seed))), "{policy:?}");
        let dark = [vetoed(0, 7), vetoed(1, 3), down];
        assert!((0..32).all(|seed| take(&dark, seed) == (1, Branch::Fallback(Fallback::Vetoed))), "{policy:?}");
        let ties = (0..64).map(|seed| take(&[vetoed(0, 3), vetoed(1, 3)], seed).0);
        assert_eq!(ties.collect::<std::collections::BTreeSet<_>>().len(), 2, "{policy:?}: ties are drawn");
    }
}

#[test]
fn nobody_has_a_reason() {
    let down = Candidate { ready: false, ..Candidate::default() };
    let overloaded = Candidate { overloaded: true, ..Candidate::default() };
    for policy in ALL {
        let refusal = |router: &Router, candidates: &[Candidate]| router.decide(REQUEST, candidates, 0).unwrap_err();
        let (router, shedding) = (Router::new(policy), Router { shed_overloaded: true, ..Router::new(policy) });
        assert_eq!(refusal(&router, &[]), NoCandidate::EmptyPool);
        assert_eq!(refusal(&router, &[down; 3]), NoCandidate::NoneReady { candidates: 3 });
        assert_eq!(refusal(&shedding, &[overloaded, down]), NoCandidate::Shed { candidates: 2 });
        assert!(router.decide(REQUEST, &[overloaded], 0).is_ok(), "shedding is opt-in");
    }
    let text = NoCandidate::Shed { candidates: 2 }.to_string();
    assert_eq!(text, "all of 2 candidates that are ready are overloaded, and overload is shed");
}

// D32: load of a rank, not of its worker; credit above 1.
#[test]
fn more_overlap_than_prompt_buys_nothing() {
    let absurd = Candidate { overlap: Overlap { predicted_tokens: u64::MAX, ..Overlap::device(u64::MAX) }, ..candidate(0, 0, 0) };
    let tied = hits(Policy::Blend, &[absurd, candidate(1, 1_000, 0)], 400);
    assert!(tied.iter().all(|&hits| hits > 120), "{tied:?}");
    let choice = Router::default().decide(REQUEST, &[absurd], 0).unwrap().choice;
    assert_eq!((choice.overlap_tokens, choice.best_overlap_tokens), (1_000, 1_000));
}

// D34, D12 of dynamo's: whoever was marked is free again as soon as the mark goes; nothing is remembered here.
#[test]
fn a_mark_that_goes_leaves_nothing_behind() {
    let mut worker = Candidate { overloaded: true, ..candidate(0, 900, 0) };
    assert_eq!(chosen(Policy::Blend, &[worker, candidate(1, 0, 0)], 0), 1);
    worker.overloaded = false;
    assert_eq!(chosen(Policy::Blend, &[worker, candidate(1, 0, 0)], 0), 0);
}

// Defect 29: an idle rank that last computed slowly is not slow.
#[test]
fn an_idle_workers_last_rate_makes_it_no_dearer() {
    let idle = Load { rate_tokens_per_s: Some(5.0), running: 0, ..Load::default() };
    let busy = Load { rate_tokens_per_s: Some(20_000.0), running: 9, in_flight: 9, ..Load::default() };
    let all = [Candidate { load: idle, ..candidate(0, 0, 0) }, Candidate { worker: 1, load: busy, ..Candidate::default() }];
    assert_eq!((chosen(Policy::Blend, &all, 0), chosen(Policy::LeastLoad, &all, 0)), (0, 0));
}

/// Found with Mooncake's trace and more of it than the fleet could serve: all were overloaded, so all went by load, and nine tenths of what
/// could be reused was computed again.
#[test]
fn where_all_are_overloaded_a_prefix_still_counts_and_so_does_a_queue() {
    let overloaded = |candidate| Candidate { overloaded: true, ..candidate };
    let all = [overloaded(queued(0, 0, 9_000)), overloaded(queued(1, 900, 9_000)), overloaded(queued(2, 900, 90_000))];
    for policy in [Policy::CacheAware, Policy::Blend] {
        assert!((0..32).all(|seed| chosen(policy, &all, seed) == 1), "{policy:?}");
    }
    assert!((0..32).all(|seed| chosen(Policy::LeastLoad, &all[1..], seed) == 1));
}

// D36: long requests starve where short ones may overtake them. Nothing queues here: whatever its length, and however busy all are, a
// prompt is placed when it is asked for.
#[test]
fn a_prompt_of_any_length_is_placed_at_once() {
    let busy: Vec<Candidate> = (0..8).map(|worker| queued(worker, 0, 5_000_000)).collect();
    for policy in ALL {
        for prompt_tokens in [1, 1_000, 1_000_000, u64::MAX] {
            let decided = Router::new(policy).decide(Request { prompt_tokens, home: None }, &busy, 3);
            assert!(decided.is_ok_and(|decision| decision.choice.worker < 8), "{policy:?}, {prompt_tokens} tokens");
        }
    }
}

// sglang#14305: what nobody has goes to the least loaded, not to who has least in its cache.
#[test]
fn a_miss_goes_to_the_least_loaded() {
    for policy in [Policy::CacheAware, Policy::Blend, Policy::LeastLoad] {
        assert_eq!(chosen(policy, &[queued(0, 0, 9_000), queued(1, 0, 100), queued(2, 0, 9_000)], 1), 1, "{policy:?}");
    }
}

#[test]
fn a_prompt_of_unknown_length_goes_by_load() {
    let unknown = Request::default();
    let all = [queued(0, 500, 9_000), queued(1, 0, 100)];
    for policy in [Policy::CacheAware, Policy::Blend] {
        assert_eq!(Router::new(policy).decide(unknown, &all, 1).unwrap().choice.worker, 1, "{policy:?}");
    }
}

#[test]
fn who_reports_nothing_is_no_haven() {
    let told = |worker, queued_tokens| Candidate {
        load: Load { queued_tokens, reported: true, ..Load::default() },
        ..candidate(worker, 0, 0)
    };
    let silent = queued(2, 0, 500);
    assert_eq!(chosen(Policy::LeastLoad, &[told(0, 30_000), told(1, 20_000), silent], 0), 1);
    assert_eq!(chosen(Policy::LeastLoad, &[queued(0, 0, 900), silent], 0), 2, "when nobody reports, our books decide");
}
