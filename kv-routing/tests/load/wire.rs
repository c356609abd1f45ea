//! What engines say of their load, in their own words.

use std::time::Duration;

use kv_events::relay::{LoadCore, LoadSample, Telemetry};
use kv_routing::load::wire::{Loads, WireError, engine_silence, metrics, record, record_report, sglang};
use kv_routing::load::{Sample, Source};
use proptest::prelude::*;

const AT: Duration = Duration::from_secs(7);

const VLLM: &str = r#"
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="org/m"} 3.0
vllm:num_requests_running{engine="1",model_name="org/m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="org/m"} 2.0
vllm:num_requests_waiting{engine="1",model_name="org/m"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="org/m",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="org/m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="org/m"} 0.5
vllm:prompt_tokens_total{engine="0",model_name="org/m"} 1000.0
vllm:prefix_cache_hits_total{engine="0",model_name="org/m"} 400.0
vllm:generation_tokens_total{engine="0",model_name="org/m"} 50.0
vllm:generation_tokens_created{engine="0",model_name="org/m"} 1.7e9
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="org/m"} 6.0
"#;

#[test]
fn vllms_metrics_by_rank() {
    let loads = metrics::loads(VLLM.as_bytes(), AT).unwrap();
    let first = Sample { running: 3.0, waiting: 2.0, kv_usage: Some(0.25), tokens_total: Some(650.0), ..Sample::polled(AT) };
    let second = Sample { running: 1.0, waiting: 0.0, kv_usage: Some(0.5), ..Sample::polled(AT) };
    assert_eq!(loads, Loads { ranks: vec![(0, first), (1, second)], unreadable: 0 });
}

#[test]
fn sglangs_metrics_without_its_shards_and_priorities() {
    let text = r#"
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="1",dp_rank="0"} 4.0
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="0",dp_rank="0"} 5.0
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="2",dp_rank="1"} 6.0
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="3",dp_rank="1"} 9.0
sglang:num_queue_reqs{model_name="m",dp_rank="0",priority=""} 3.0
sglang:num_queue_reqs{model_name="m",dp_rank="0",priority="9"} 2.0
sglang:token_usage{model_name="m",dp_rank="0"} 0.74
sglang:gen_throughput{model_name="m",dp_rank="0"} 35.1
sglang:gen_throughput{model_name="m",dp_rank="1"} 0.0
sglang:prompt_tokens_total{model_name="m"} 100.0
sglang:generation_tokens_total{model_name="m"} 100.0
"#;
    let loads = metrics::loads(text.as_bytes(), AT).unwrap();
    let first = Sample { running: 5.0, waiting: 3.0, kv_usage: Some(0.74), tokens_per_s: Some(35.1), ..Sample::polled(AT) };
    let second = Sample { running: 6.0, tokens_per_s: Some(0.0), ..Sample::polled(AT) };
    assert_eq!(loads.ranks, [(0, first), (1, second)], "the counters are both ranks'");
}

#[test]
fn lines_that_cannot_be_placed_are_counted() {
    let text = "vllm:num_requests_running 1\nvllm:num_requests_running{engine=\"x\"} 1\nvllm:num_requests_waiting{engine=\"70000\"} 1\n\
                vllm:num_requests_waiting{engine=\"0\"} many\nvllm:num_requests_waiting{engine=\"1024\"} 1\n";
    let loads = metrics::loads(text.as_bytes(), AT).unwrap();
    assert_eq!((loads.ranks.len(), loads.ranks[0].1.running, loads.unreadable), (1, 1.0, 4));
}

#[test]
fn bodies_without_a_load_are_errors_that_say_so() {
    let error = |result: Result<Loads, WireError>| result.unwrap_err().to_string();
    assert!(error(metrics::loads(b"up 1\n", AT)).contains("vllm:num_requests_running"));
    assert!(error(sglang::loads(b"{\"loads\": [{}]}", AT)).starts_with("num_running_reqs"));
    assert!(error(sglang::loads(b"{\"loads\": 7}", AT)).starts_with("an array of loads"));
    assert!(error(sglang::loads(b"<html>", AT)).starts_with("JSON was expected"));
    let long = vec![b' '; 17 << 20];
    for result in [metrics::loads(&long, AT), sglang::loads(&long, AT)] {
        assert!(matches!(result, Err(WireError::TooLong { got, .. }) if got == 17 << 20));
    }
}

#[test]
fn sglangs_load_endpoint_in_both_shapes() {
    let text = r#"{"timestamp": "2026-05-01T00:00:00Z", "version": "0.5.23", "loads": [
        {"dp_rank": 1, "num_running_reqs": 2, "num_waiting_reqs": 1, "num_waiting_uncached_tokens": 512, "num_used_tokens": 7,
         "token_usage": 0.125, "gen_throughput": 88.5, "cache_hit_rate": 0.5, "utilization": 0.0, "memory": {"x": [1]}},
        {"dp_rank": -1, "num_running_reqs": 1}, {"num_running_reqs": "x"}, 5, null,
        {"num_running_reqs": 4}]}"#;
    let loads = sglang::loads(text.as_bytes(), AT).unwrap();
    let second = Sample {
        running: 2.0,
        waiting: 1.0,
        queued_tokens: Some(512.0),
        kv_usage: Some(0.125),
        tokens_per_s: Some(88.5),
        ..Sample::polled(AT)
    };
    assert_eq!(loads, Loads { ranks: vec![(0, Sample { running: 4.0, ..Sample::polled(AT) }), (1, second)], unreadable: 4 });
    let older = sglang::loads(br#"[{"dp_rank": 0, "num_reqs": 5, "num_waiting_reqs": 2, "num_tokens": 99, "ts_tic": 1.5}]"#, AT);
    assert_eq!(older.unwrap().ranks, [(0, Sample { running: 3.0, waiting: 2.0, ..Sample::polled(AT) })]);
}

#[test]
fn a_relays_record_has_its_age_and_number() {
    let core = LoadCore { running: 2, waiting: 0, queued_tokens: 0, window_tokens: 8_192, kv_usage: 0.5, tokens_per_s: 70.0 };
    let record = |core| record(&LoadSample { core, telemetry: None, sample: 3 }, AT, Duration::from_millis(500));
    let idle = record(core);
    assert_eq!((idle.source, idle.sampled_at, idle.number), (Source::Pushed, Duration::from_millis(6_480), Some(3)));
    assert_eq!((idle.running, idle.queued_tokens, idle.kv_usage, idle.tokens_per_s), (2.0, Some(0.0), Some(0.5), Some(70.0)));
    assert_eq!(record(LoadCore { waiting: 4, ..core }).queued_tokens, None, "the record has no place for: not told");
}

#[test]
fn loads_and_records_tell_the_tracker_what_it_needs() {
    let sample = |running, waiting| Sample { running, waiting, ..Sample::polled(AT) };
    let ranks = vec![(0, sample(2.0, 1.0)), (1, sample(f64::NAN, -3.0)), (2, sample(1.0, 1e300))];
    let polled = Loads { ranks, unreadable: 0 }.report();
    assert_eq!((polled.running, polled.waiting, polled.pushed, polled.engine), (3, u32::MAX, false, None));
    let core = LoadCore { running: 2, waiting: 5, ..LoadCore::default() };
    let telemetry: Telemetry = [("engine_silence_ms".into(), 40.0)].into_iter().collect();
    let pushed = record_report(&LoadSample { core, telemetry: Some(telemetry), sample: 0 });
    assert_eq!((pushed.running, pushed.waiting, pushed.pushed), (2, 5, true));
    assert_eq!(pushed.engine.map(|engine| engine.silence), Some(Duration::from_millis(40)));
    assert_eq!(record_report(&LoadSample { core, telemetry: None, sample: 0 }).engine, None);
}

#[test]
fn telemetry_may_tell_of_the_engines_steps() {
    let of = |entries: &[(&str, f64)]| -> Telemetry { entries.iter().map(|&(name, value)| (name.into(), value)).collect() };
    let told = engine_silence(&of(&[("engine_silence_ms", 3_500.0), ("prefill_pending_tokens", 90.0)])).unwrap();
    assert_eq!((told.silence, told.reports_steps, told.prefill_tokens), (Duration::from_millis(3_500), false, 90));
    assert!(engine_silence(&of(&[("engine_silence_ms", 1.0), ("engine_reports_steps", 1.0)])).unwrap().reports_steps);
    for bad in [f64::NAN, -1.0, f64::INFINITY, f64::MAX] {
        assert_eq!(engine_silence(&of(&[("engine_silence_ms", bad)])), None);
    }
    assert_eq!(engine_silence(&of(&[("watts", 1.0)])), None);
}

/// Bytes near the grammars: pieces of real bodies, cut, mixed and broken.
fn near_bodies() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&'static [u8]> = vec![
        b"vllm:num_requests_running",
        b"sglang:num_running_reqs",
        b"{",
        b"}",
        b"\"",
        b"\\",
        b"engine=\"",
        b"dp_rank=\"1\"",
        b",",
        b"=",
        b" ",
        b"\n",
        b"1",
        b"-1",
        b"NaN",
        b"1e999",
        b"# TYPE",
        b"\xff",
        b"\xc3\xa9",
        b"{\"loads\":[",
        b"{\"dp_rank\":",
        b"}]}",
        b"\"num_running_reqs\":",
        b"[",
        b"]",
        b"null",
        b"tp_rank=\"0\"",
        b"priority=\"\"",
        b"\0",
    ];
    let piece =
        prop_oneof![8 => prop::sample::select(pieces).prop_map(<[u8]>::to_vec), 1 => prop::collection::vec(any::<u8>(), 0..4)];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn no_body_panics_and_what_is_read_is_in_order(body in near_bodies(), from in any::<prop::sample::Index>()) {
        let broken = [VLLM.as_bytes(), &body, &VLLM.as_bytes()[from.index(VLLM.len())..]].concat();
        for loads in [metrics::loads(&body, AT), sglang::loads(&body, AT), metrics::loads(&broken, AT)].into_iter().flatten() {
            prop_assert!(!loads.ranks.is_empty() && loads.ranks.is_sorted_by(|before, after| before.0 < after.0));
            prop_assert!(loads.ranks.iter().all(|(rank, _)| *rank < 1_024));
        }
    }
}
