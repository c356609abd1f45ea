//! Engines that fail: before their answer, in the middle of it, or until they come.

use std::collections::BTreeSet;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use kv_examples::gateway::{Gateway, LoadSource, PolicyKind, Settings};
use kv_examples::mock_engine::{MockConfig, MockFleet};
use serde_json::json;
use tokio::net::TcpListener;

use crate::decided::metric;
use crate::site::{Answer, Site, client, completion, eventually, fast, free_ports, prompt, settings, spec};

fn one() -> MockConfig {
    MockConfig { engines: 1, ..fast() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_finds_its_engine_gone_goes_to_another() {
    let (left, right) = (MockFleet::start(one()).await.unwrap(), MockFleet::start(one()).await.unwrap());
    let settings = settings(&[&left, &right]);
    let name = spec(&right.engines()[0]).name;
    let site = Site::in_front_of(left, settings).await;
    right.shutdown().await;
    for family in 0..10 {
        let answer = site.post("/v1/completions", &completion(&prompt(family, 64))).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_ne!(answer.worker.as_ref(), Some(&name));
    }
    eventually("the engine is known to be gone", || async { site.json("/health").await["ready_engines"] == 1 }).await;
    let workers = site.json("/debug/workers").await;
    let gone = workers.as_array().unwrap().iter().find(|engine| engine["name"] == name.as_str()).unwrap();
    assert!(gone["last_error"].as_str().unwrap().contains("refused"), "{gone}");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_can_serve_nobody_is_left_for_another_once() {
    let site = Site::start(MockConfig { engines: 3, ..fast() }).await;
    site.fault("0", "fail?status=503").await;
    let answers: Vec<Answer> = futures_util::future::join_all(
        (0..12).map(async |family| site.post("/v1/completions", &completion(&prompt(family, 64))).await),
    )
    .await;
    let workers: BTreeSet<_> = answers.iter().map(|answer| (answer.status, answer.worker.clone().unwrap())).collect();
    assert_eq!(workers.len(), 2, "{workers:?}");
    assert!(workers.iter().all(|(status, _)| *status == 200));
    site.fault("all", "fail?status=503").await;
    let answer = site.post("/v1/completions", &completion(&prompt(1, 64))).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (502, &json!("engine_failed")), "{}", answer.text);
    assert_eq!(site.ranks().await.iter().map(|rank| rank["in_flight"].as_u64().unwrap()).sum::<u64>(), 0);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_ends_with_an_error_in_its_own_form() {
    let site = Site::start(one()).await;
    site.fault("0", "fail?after_tokens=3").await;
    let answer =
        site.post("/v1/completions", &json!({"model": "mock", "prompt": [1, 2, 3], "max_tokens": 9, "stream": true})).await;
    assert_eq!(answer.status, 200);
    let last = answer.text.trim_end().rsplit("\n\n").next().unwrap().strip_prefix("data: ").unwrap();
    let error: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(error["error"]["code"], "engine_failed", "{}", answer.text);
    assert!(!answer.text.contains("[DONE]"));
    let rank = site.ranks().await.remove(0);
    assert_eq!((&rank["failures"], &rank["in_flight"]), (&1.into(), &0.into()));
    site.stop().await;
}

// Neither polls nor events tell of this engine: what passes it over is what its requests met.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_fails_casts_doubt_on_its_engine_s_life() {
    let (left, right) = (MockFleet::start(one()).await.unwrap(), MockFleet::start(one()).await.unwrap());
    let mut settings = Settings { policy: PolicyKind::RoundRobin, ..settings(&[&left, &right]) };
    (settings.engines[1].load, settings.engines[1].events, settings.engines[1].replay) = (LoadSource::Off, None, None);
    settings.liveness.stall = std::time::Duration::from_millis(100);
    let site = Site::in_front_of(left, settings).await;
    let veto = async || site.ranks().await[1]["veto"].clone();
    right.shutdown().await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(veto().await.is_null(), "nobody has met its absence");
    for family in 0..2 {
        assert_eq!(site.post("/v1/completions", &completion(&prompt(family, 64))).await.status, 200);
    }
    eventually("it is passed over", || async { veto().await == "unreachable" }).await;
    assert_eq!(metric(&site, "kv_request_outcomes_total{outcome=\"failed\"} ").await.to_bits(), 1.0f64.to_bits());
    site.stop().await;
}

/// An engine whose answers end in their middle.
async fn breaking() -> String {
    let body = async || Body::from_stream(futures_util::stream::iter([Ok("{"), Err(std::io::Error::other("gone"))]));
    let models = r#"{"data": [{"id": "mock"}]}"#;
    let router = Router::new().route("/v1/models", get(async move || models)).route("/v1/completions", post(body));
    serve(router).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_answer_that_breaks_off_fails_and_leaves_nothing_booked() {
    let fleet = MockFleet::start(one()).await.unwrap();
    let settings = Settings { engines: vec![breaking().await.parse().unwrap()], ..settings(&[&fleet]) };
    let site = Site::in_front_of(fleet, settings).await;
    let answer = site.post("/v1/completions", &completion(&prompt(1, 64))).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (502, &json!("engine_failed")), "{}", answer.text);
    let rank = site.ranks().await.remove(0);
    assert_eq!((&rank["failures"], &rank["in_flight"]), (&1.into(), &0.into()));
    assert_eq!(metric(&site, "kv_request_outcomes_total{outcome=\"failed\"} ").await.to_bits(), 1.0f64.to_bits());
    site.stop().await;
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// An engine that answers a request as its client's header `x-answer` says, with a status and a content type.
async fn refusing() -> String {
    let answer = async |headers: HeaderMap| {
        let (status, kind) = headers["x-answer"].to_str().unwrap().split_once(' ').unwrap();
        let status = StatusCode::from_bytes(status.as_bytes()).unwrap();
        (status, [(CONTENT_TYPE, kind.to_owned())], r#"data: {"error": {"message": "no"}}"#)
    };
    let models = r#"{"data": [{"id": "mock"}]}"#;
    serve(Router::new().route("/v1/models", get(async move || models)).route("/v1/completions", post(answer))).await
}

// An error is no first token: no prompt was computed, whose prefix siblings could use, or whose time says how fast prompts are.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_answered_with_an_error_has_no_first_token() {
    let engines = vec![refusing().await.parse().unwrap()];
    let gateway = Gateway::start(Settings { listen: "127.0.0.1:0".to_owned(), engines, ..Settings::default() }).await.unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(10), gateway.all_ready()).await.expect("it lists its models");
    let url = |path| format!("http://{}{path}", gateway.address());
    let body = json!({"model": "mock", "prompt": prompt(1, 64), "max_tokens": 9, "stream": true});
    let metrics = async || client().get(url("/metrics")).send().await.unwrap().text().await.unwrap();
    let mut failed = 0;
    for status in [400, 429, 500] {
        for kind in ["application/json", "text/event-stream"] {
            let request = client().post(url("/v1/completions")).header("x-answer", format!("{status} {kind}"));
            let answer = request.json(&body).send().await.unwrap();
            assert_eq!((answer.status().as_u16(), answer.headers()[CONTENT_TYPE].to_str().unwrap()), (status, kind));
            assert_eq!(answer.text().await.unwrap(), r#"data: {"error": {"message": "no"}}"#);
            failed += 1;
            let metrics = metrics().await;
            for line in
                [format!("kv_request_outcomes_total{{outcome=\"failed\"}} {failed}\n"), "kv_predicted_prefixes 0\n".to_owned()]
            {
                assert!(metrics.contains(&line), "{status} {kind}: {line} is absent from:\n{metrics}");
            }
        }
    }
    let request = client().post(url("/v1/completions")).header("x-answer", "200 text/event-stream");
    request.json(&body).send().await.unwrap().text().await.unwrap();
    assert!(!metrics().await.contains("kv_predicted_prefixes 0\n"), "an answer is expected to leave its prefix behind");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_too_slow_is_not_asked_twice() {
    let fleet = MockFleet::start(MockConfig { engines: 2, ..fast() }).await.unwrap();
    let impatient = Settings { max_wait: std::time::Duration::from_millis(300), ..settings(&[&fleet]) };
    let site = Site::in_front_of(fleet, impatient).await;
    site.fault("all", "pause").await;
    let answer = site.post("/v1/completions", &completion(&prompt(1, 64))).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (504, &json!("engine_timeout")), "{}", answer.text);
    assert_eq!(site.ranks().await.iter().map(|rank| rank["requests"].as_u64().unwrap()).sum::<u64>(), 1);
    site.fault("all", "resume").await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_comes_late_is_taken_in() {
    let http_port = free_ports(3);
    let events_port = http_port + 1;
    let engine =
        format!("http://127.0.0.1:{http_port},events=tcp://127.0.0.1:{events_port},replay=tcp://127.0.0.1:{}", events_port + 1);
    let settings = Settings { listen: "127.0.0.1:0".to_owned(), engines: vec![engine.parse().unwrap()], ..Settings::default() };
    let gateway = Gateway::start(settings).await.unwrap();
    let health = format!("http://{}/health", gateway.address());
    assert_eq!(client().get(&health).send().await.unwrap().status(), 503);
    let late = MockConfig { http_port, events_port, ..one() };
    let fleet = MockFleet::start(late).await.unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(15), gateway.all_ready()).await.expect("it is found");
    assert_eq!(client().get(&health).send().await.unwrap().status(), 200);
    gateway.stop().await;
    fleet.shutdown().await;
}
