//! Records: stored, read, and decided again.

use kv_routing::cost::{InFlight, Pass, Prefill, Pressure, Wait};
use kv_routing::select::{Blend, Gates, Scratch};
use kv_routing::{Candidate, Load, Overlap, Overrides, Policy, Record, Request, Router, Threshold};
use proptest::prelude::*;

use crate::{ALL, REQUEST, candidate};

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![5 => 0.0..2.0, 1 => Just(f64::NAN), 1 => Just(f64::INFINITY), 1 => Just(-1.0), 1 => Just(1e300)]
}

fn any_single() -> impl Strategy<Value = Option<f32>> {
    let odd = prop_oneof![Just(f32::NAN), Just(f32::INFINITY), Just(-1.0f32), Just(0.0), Just(1e38)];
    prop_oneof![Just(None), (0.0f32..1.0).prop_map(Some), (1.0f32..50_000.0).prop_map(Some), odd.prop_map(Some)]
}

fn any_threshold() -> impl Strategy<Value = Threshold> {
    prop_oneof![2 => (0.0..20.0).prop_map(Threshold::Above), 1 => Just(Threshold::Off), 1 => Just(Threshold::Above(f64::NAN))]
}

fn any_load() -> impl Strategy<Value = Load> {
    let counts = (0u32..50, 0u32..20, 0u32..20, any::<bool>());
    let tokens = (0u64..50_000, prop_oneof![Just(0u64), 0u64..100_000, Just(u64::MAX)]);
    (counts, tokens, any_single(), any_single()).prop_map(|(counts, tokens, rate_tokens_per_s, kv_usage)| Load {
        in_flight: counts.0,
        running: counts.1,
        waiting: counts.2,
        reported: counts.3,
        queued_tokens: tokens.0,
        kept_tokens: tokens.1,
        rate_tokens_per_s,
        kv_usage,
    })
}

fn any_overlap() -> impl Strategy<Value = Overlap> {
    let tokens = || prop_oneof![3 => Just(0u64), 3 => 0u64..2_000, 1 => Just(u64::MAX)];
    [tokens(), tokens(), tokens(), tokens()].prop_map(|[device_tokens, host_tokens, disk_tokens, predicted_tokens]| Overlap {
        device_tokens,
        host_tokens,
        disk_tokens,
        predicted_tokens,
    })
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    let flags = [0.3, 0.85, 0.15, 0.15].map(proptest::bool::weighted);
    let overrides = (proptest::option::of(any_threshold()), any_single(), prop_oneof![3 => Just(0.0f32), 1 => Just(f32::NAN)]);
    (any_overlap(), any_load(), flags, overrides).prop_map(|(overlap, load, flags, overrides)| Candidate {
        overlap,
        load,
        degraded: flags[0],
        ready: flags[1],
        vetoed: flags[2],
        overloaded: flags[3],
        overrides: Overrides { max_waiting: overrides.0, tokens_per_s: overrides.1, handicap_s: overrides.2 },
        ..Candidate::default()
    })
}

prop_compose! {
    fn any_router()(
        policy in proptest::sample::select(ALL.to_vec()),
        numbers in proptest::collection::vec(any_number(), 14),
        thresholds in proptest::collection::vec(any_threshold(), 5),
        shed_overloaded: bool,
    ) -> Router {
        let n = &numbers;
        Router {
            policy,
            prefill: Prefill { host_weight: n[0], disk_weight: n[1], predicted_weight: n[2], degraded_weight: n[3] },
            pass: Pass { tokens: n[13] },
            wait: Wait { waiting_tokens: n[4] },
            pressure: Pressure { weight_s: n[5] },
            in_flight: InFlight { each_s: n[6], kept_weight: n[7] },
            tokens_per_s: n[8],
            gates: Gates {
                balance_rel: thresholds[0],
                balance_abs: thresholds[1],
                kv_usage: thresholds[2],
                kv_usage_spread: thresholds[3],
            },
            blend: Blend { wait_weight: n[9], patience_savings: n[10], patience_s: n[11] },
            temperature: n[12],
            max_waiting: thresholds[4],
            shed_overloaded,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_record_survives_its_text_and_decides_the_same(
        mut candidates in proptest::collection::vec(any_candidate(), 0..20),
        router in any_router(),
        prompt_tokens in 0u64..4_000,
        home in proptest::option::of(0u32..20),
        seed: u64,
    ) {
        (0..).zip(&mut candidates).for_each(|(worker, candidate)| candidate.worker = worker);
        let request = Request { prompt_tokens, home };
        let mut scratch = Scratch::new();
        let choice = router.choose(request, &candidates, seed, &mut scratch);
        match router.decide(request, &candidates, seed) {
            Ok(decision) => {
                prop_assert_eq!(choice, Ok(decision.choice), "with a record and without");
                let text = serde_json::to_string(&decision.record).unwrap();
                let read: Record = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(&read, &decision.record);
                prop_assert_eq!(read.replay(), Ok(decision.choice));
                let chosen = &candidates[decision.choice.index];
                prop_assert_eq!(chosen.worker, decision.choice.worker);
                prop_assert!(chosen.ready);
                prop_assert!(chosen.is_eligible() || candidates.iter().all(|candidate| !candidate.is_eligible()));
                prop_assert!(decision.choice.costs.total_s().is_finite() && decision.choice.regret_s >= 0.0);
            }
            Err(refusal) => prop_assert_eq!(choice, Err(refusal)),
        }
    }

    #[test]
    fn settings_survive_a_configuration_file(router in any_router()) {
        // Numbers that are none are no settings; thresholds that are none are off.
        let read: Router = serde_json::from_str(&serde_json::to_string(&stored(&router)).unwrap()).unwrap();
        prop_assert_eq!(&read, &stored(&router));
        let read: Router = toml::from_str(&toml::to_string(&read).unwrap()).unwrap();
        prop_assert_eq!(read, stored(&router));
    }
}

/// The router as records keep it.
fn stored(router: &Router) -> Router {
    let own = Overrides { max_waiting: Some(Threshold::Off), ..Overrides::default() };
    router.decide(REQUEST, &[Candidate { overrides: own, ..Candidate::default() }], 0).unwrap().record.router
}

// Defect 8, of the whole configuration.
#[test]
fn thresholds_that_are_off_are_not_revived() {
    let off = Gates {
        balance_rel: Threshold::Off,
        balance_abs: Threshold::Off,
        kv_usage: Threshold::Off,
        kv_usage_spread: Threshold::Off,
    };
    let router = Router { gates: off, ..Router::default() };
    assert_eq!(toml::from_str::<Router>(&toml::to_string(&router).unwrap()).unwrap(), router);
    assert_eq!(serde_json::from_str::<Router>(&serde_json::to_string(&router).unwrap()).unwrap(), router);
    assert_eq!(toml::from_str::<Router>("").unwrap(), Router::default());
}

#[test]
fn a_record_tells_who_was_there_what_they_cost_and_what_was_forgone() {
    let busy = candidate(0, 900, 40);
    let all = [busy, Candidate { degraded: true, ..candidate(1, 500, 0) }, Candidate { vetoed: true, ..candidate(2, 1_000, 0) }];
    let record = Router::new(Policy::CacheAware).decide(REQUEST, &all, 5).unwrap().record;
    assert_eq!((record.choice.worker, record.seed, record.forgone_tokens()), (1, 5, 400));
    let told: Vec<_> = record.scored.iter().map(|scored| (scored.credit_tokens, scored.out_of_line)).collect();
    assert_eq!(told, [(900.0, true), (250.0, false), (1_000.0, false)]);
    assert!(record.scored[0].costs.in_flight_s > record.scored[1].costs.in_flight_s);
    let text = serde_json::to_string(&record.scored[1]).unwrap();
    assert!(text.contains(r#""degraded":true"#) && text.len() < 300, "{} bytes: {text}", text.len());
}
