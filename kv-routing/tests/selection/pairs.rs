//! Disaggregated pools.

use kv_routing::{Candidate, Leg, Load, NoCandidate, NoPair, PairRecord, Policy, Router};

use crate::{REQUEST, candidate};

#[test]
fn the_prompt_goes_by_overlap_and_the_answer_by_room() {
    let prefill = [candidate(0, 0, 0), candidate(1, 960, 2)];
    let full = Load { kv_usage: Some(0.9), in_flight: 3, ..Load::default() };
    let decode = [Candidate { load: full, ..candidate(10, 0, 0) }, candidate(11, 0, 3)];
    let pair = Router::default().pair(REQUEST, &prefill, &decode, 7).unwrap();
    assert_eq!((pair.prefill.worker, pair.decode.worker), (1, 11));
    let text = serde_json::to_string(&pair.record).unwrap();
    let read: PairRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(read.replay(), Ok((pair.prefill, pair.decode)));
    assert_eq!((pair.record.decode.router.policy, pair.record.prefill.router.policy), (Policy::LeastLoad, Policy::Blend));
}

// P47: decode workers were credited with prefixes that only prefill workers hold.
#[test]
fn what_a_decode_worker_holds_does_not_attract() {
    let decode = [candidate(10, 1_000, 5), candidate(11, 0, 4)];
    let chosen = |seed| Router::default().pair(REQUEST, &[candidate(0, 0, 0)], &decode, seed).unwrap().decode.worker;
    assert!((0..50).all(|seed| chosen(seed) == 11));
}

// D28: three of five decode workers got all the traffic of one prefill worker.
#[test]
fn one_prefill_worker_feeds_all_decode_workers() {
    let mut decode: Vec<Candidate> = (0..5).map(|worker| candidate(worker, 0, 0)).collect();
    for seed in 0..500 {
        let pair = Router::default().pair(REQUEST, &[candidate(9, 0, 0)], &decode, seed).unwrap();
        decode[pair.decode.index].load.in_flight += 1;
    }
    assert!(decode.iter().all(|worker| worker.load.in_flight == 100), "{decode:?}");
}

#[test]
fn the_two_legs_draw_their_ties_apart() {
    let idle: Vec<Candidate> = (0..4).map(|worker| candidate(worker, 0, 0)).collect();
    let pairs: std::collections::BTreeSet<_> = (0..400)
        .map(|seed| Router::default().pair(REQUEST, &idle, &idle, seed).unwrap())
        .map(|pair| (pair.prefill.worker, pair.decode.worker))
        .collect();
    assert_eq!(pairs.len(), 16, "{pairs:?}");
}

#[test]
fn a_leg_without_anybody_is_named() {
    let (some, none) = ([candidate(0, 0, 0)], []);
    let refusal = |prefill: &[Candidate], decode: &[Candidate]| Router::default().pair(REQUEST, prefill, decode, 0).unwrap_err();
    assert_eq!(refusal(&none, &some), NoPair { leg: Leg::Prefill, cause: NoCandidate::EmptyPool });
    assert_eq!(refusal(&some, &none).to_string(), "nobody for the decode leg: the pool is empty");
}
