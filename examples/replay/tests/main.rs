//! A replay through a small gateway in front of two mock engines.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Parser;
use kv_examples::mock_engine::{MockConfig, MockFleet, Timing};
use kv_examples::replay::{Options, Report, run};
use serde_json::{Value, json};

/// Sends requests to the engines by turns and predicts nothing cached.
struct RoundRobin {
    engines: Vec<String>,
    turn: AtomicUsize,
    client: reqwest::Client,
}

async fn forward(State(gateway): State<Arc<RoundRobin>>, body: Bytes) -> Response {
    let turn = gateway.turn.fetch_add(1, Ordering::Relaxed) % gateway.engines.len();
    let engine = &gateway.engines[turn];
    let request = gateway.client.post(format!("{engine}/v1/completions")).body(body).header("content-type", "application/json");
    let answer = request.send().await.unwrap();
    Response::builder()
        .status(answer.status().as_u16())
        .header("x-kv-worker", format!("engine-{turn}"))
        .header("x-kv-predicted-tokens", 0)
        .body(Body::from_stream(answer.bytes_stream()))
        .unwrap()
}

async fn workers(State(gateway): State<Arc<RoundRobin>>) -> Json<Value> {
    let list = gateway.engines.iter().enumerate().map(|(n, url)| json!({"name": format!("engine-{n}"), "url": url}));
    Json(list.collect())
}

/// Returns the gateway's address.
async fn start_gateway(fleet: &MockFleet) -> String {
    let gateway = Arc::new(RoundRobin {
        engines: fleet.engines().iter().map(|engine| engine.http_url().to_owned()).collect(),
        turn: AtomicUsize::new(0),
        client: reqwest::Client::builder().no_proxy().build().unwrap(),
    });
    let router = Router::new()
        .route("/v1/completions", post(forward))
        .route("/v1/models", get(|| async { Json(json!({"data": [{"id": "mock"}]})) }))
        .route("/debug/workers", get(workers))
        .with_state(gateway);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, router).await });
    url
}

async fn start_fleet() -> MockFleet {
    let timing = Timing { speed: 2_000.0, ..Timing::default() };
    MockFleet::start(MockConfig { timing, ..MockConfig::default() }).await.unwrap()
}

async fn replay(gateway: &str, arguments: &[&str]) -> Report {
    let fixed = ["replay", "--gateway", gateway, "--limit", "60", "--speedup", "60", "--max-output", "8"];
    let options = Options::try_parse_from(fixed.iter().chain(arguments)).unwrap();
    run(&options).await.unwrap()
}

#[track_caller]
fn close(got: f64, expected: f64, tolerance: f64) {
    assert!((got - expected).abs() <= tolerance, "expected {expected} +- {tolerance}, got {got}");
}

#[tokio::test]
async fn round_robin_measures_what_round_robin_simulates() {
    let fleet = start_fleet().await;
    let gateway = start_gateway(&fleet).await;
    let json_path = scratch("report.json");
    let report = replay(&gateway, &["--json", json_path.to_str().unwrap()]).await;

    assert_eq!((report.requests, report.failed, report.counted), (60, 0, 60), "{:?}", report.failures);
    assert_eq!(report.workers.values().copied().collect::<Vec<_>>(), [30, 30]);
    assert!(report.prompt_tokens > 60_000 && report.cached_tokens > 0);
    let floor = report.floor.unwrap();
    close(floor.measured_reuse, report.prefix_reuse, 1e-9);
    close(floor.round_robin_reuse, floor.placed_reuse, 0.02);
    close(floor.placed_reuse, report.prefix_reuse, 0.05);
    assert!(floor.best_reuse > floor.placed_reuse && floor.shared_reuse >= floor.best_reuse);
    let oracle = report.oracle.as_ref().unwrap();
    assert_eq!(oracle.joined, 60);
    assert!(oracle.prefix_reuse >= report.prefix_reuse && oracle.hit_over_oracle < 1.0);
    let predictions = report.predictions.unwrap();
    assert_eq!((predictions.compared(), predictions.over), (60, 0));

    let written: Value = serde_json::from_slice(&std::fs::read(&json_path).unwrap()).unwrap();
    assert_eq!(written["cached_tokens"], report.cached_tokens);
    assert!(report.to_string().contains("round robin"));
    fleet.shutdown().await;
}

#[tokio::test]
async fn texts_reach_the_engines_and_a_warm_up_is_not_counted() {
    let fleet = start_fleet().await;
    let gateway = start_gateway(&fleet).await;
    let csv_path = scratch("requests.csv");
    let report = replay(&gateway, &["--text", "--warmup", "20", "--csv", csv_path.to_str().unwrap()]).await;
    assert_eq!((report.requests, report.failed, report.counted), (60, 0, 40), "{:?}", report.failures);
    assert_eq!(report.prompt_tokens % 480, 0, "480 words for each hash id");
    assert_eq!(std::fs::read_to_string(&csv_path).unwrap().lines().count(), 61);
    fleet.shutdown().await;
}

#[tokio::test]
async fn an_engine_alone_is_measured_without_placements_and_failures_are_counted() {
    let fleet = start_fleet().await;
    let engine = fleet.engines()[0].http_url();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let report = replay(engine, &["--admin", engine]).await;
    assert_eq!((report.failed, &report.floor), (0, &None));
    assert_eq!(report.oracle.unwrap().joined, 60);

    client.post(format!("{engine}/admin/faults/0/fail?status=503")).send().await.unwrap();
    let report = replay(engine, &[]).await;
    assert_eq!((report.failed, report.counted), (60, 0));
    let (reason, count) = report.failures.first_key_value().unwrap();
    assert!(reason.starts_with("status 503") && *count == 60, "{reason}");
    fleet.shutdown().await;
}

#[tokio::test]
async fn a_gateway_that_is_not_there_is_an_error_that_says_so() {
    let options = Options::try_parse_from(["replay", "--gateway", "http://127.0.0.1:9"]).unwrap();
    let error = run(&options).await.unwrap_err().to_string();
    assert!(error.starts_with("http://127.0.0.1:9/v1/models does not say which model it serves"), "{error}");
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("kv-replay-{}-{name}", std::process::id()))
}
