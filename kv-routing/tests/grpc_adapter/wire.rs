//! Names and numbers on the wire, which others have chosen.

use std::time::Duration;

use kv_routing::adapter::grpc::loads;
use kv_routing::adapter::grpc::proto::engines::kv_routing::engine::v1::{GetLoadsRequest, GetLoadsResponse};
use kv_routing::adapter::grpc::proto::engines::{sglang, vllm};
use kv_routing::adapter::grpc::proto::health::{HealthCheckRequest, HealthCheckResponse, health_server};
use prost::Message;

#[test]
fn services_have_the_names_that_engines_give_them() {
    assert_eq!(vllm::grpc::engine::vllm_engine_server::SERVICE_NAME, "vllm.grpc.engine.VllmEngine");
    assert_eq!(sglang::grpc::scheduler::sglang_scheduler_server::SERVICE_NAME, "sglang.grpc.scheduler.SglangScheduler");
    assert_eq!(health_server::SERVICE_NAME, "grpc.health.v1.Health");
}

/// Field numbers and kinds, by bytes written by hand; what a router does not read, telemetry included, is skipped.
#[test]
fn an_answer_is_read_by_its_numbers() {
    let mut load = vec![8, 2, 16, 3, 24, 4, 32, 7, 40, 100, 48, 127, 88, 64];
    for (key, value) in [(0x39, 0.25_f64), (0x41, 900.5), (0x49, 0.75), (0x51, 0.5)] {
        load.push(key);
        load.extend(value.to_le_bytes());
    }
    // Memory, a message, and the uncached tokens.
    load.extend([98, 2, 8, 1, 136, 1, 55]);
    let mut answer = b"\x0a\x03now\x12\x011\x18\x01\x22".to_vec();
    answer.push(u8::try_from(load.len()).unwrap());
    answer.extend(load);
    let answer = GetLoadsResponse::decode(&answer[..]).unwrap();
    let load = &answer.loads[0];
    assert_eq!((answer.dp_rank_count, load.num_total_reqs, load.num_used_tokens, load.max_total_num_tokens), (1, 7, 100, 127));
    assert_eq!((load.cache_hit_rate, load.utilization, load.max_running_requests), (0.75, 0.5, 64));
    let loads = loads(&answer, Duration::from_secs(1)).unwrap();
    let (rank, sample) = loads.ranks[0];
    assert_eq!((rank, sample.running, sample.waiting, sample.queued_tokens), (2, 3.0, 4.0, Some(55.0)));
    assert_eq!((sample.kv_usage, sample.tokens_per_s, sample.number), (Some(0.25), Some(900.5), None));
}

#[test]
fn questions_are_what_engines_read() {
    assert_eq!(GetLoadsRequest { dp_rank: None }.encode_to_vec(), b"");
    assert_eq!(GetLoadsRequest { dp_rank: Some(3) }.encode_to_vec(), b"\x08\x03");
    assert_eq!(HealthCheckRequest { service: "s".to_owned() }.encode_to_vec(), b"\x0a\x01s");
    assert_eq!(HealthCheckResponse::decode(&b"\x08\x02"[..]).unwrap().status, 2);
}
