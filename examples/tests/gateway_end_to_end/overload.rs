//! Engines with more to do than their thresholds say.

use futures_util::future::join_all;
use kv_examples::gateway::{DecisionSettings, PolicyKind};
use kv_examples::mock_engine::{MockConfig, Timing};
use kv_routing::Threshold;
use kv_routing::overload::Thresholds;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::decided::{decided, metric, off, often};
use crate::site::{Answer, Site, completion, eventually, prompt};

/// One engine that runs one request at a time, and says so.
fn narrow(engines: usize) -> MockConfig {
    MockConfig { engines, max_running: 1, timing: Timing { speed: 2.0, ..Timing::default() }, ..MockConfig::default() }
}

fn strict(shed: bool) -> DecisionSettings {
    let overload = Thresholds { waiting_requests: Threshold::Above(2.0), kv_usage: Threshold::Off };
    DecisionSettings { overload, shed, ..often() }
}

/// Sends `count` long requests of one prefix at once and leaves them under way.
fn crowd(site: &Site, count: usize) -> Vec<JoinHandle<Answer>> {
    let body = json!({"model": "mock", "prompt": prompt(1, 160), "max_tokens": 60, "stream": true});
    (0..count)
        .map(|_| {
            let request = site.client.post(site.url("/v1/completions")).json(&body);
            tokio::spawn(async move { Answer::read(request.send().await.unwrap()).await })
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_engine_is_passed_over_by_requests_whose_prefix_it_holds() {
    let site = decided(narrow(2), PolicyKind::CacheAware, DecisionSettings { gates: off(), ..strict(false) }).await;
    let holder = site.complete(&prompt(1, 160)).await.worker;
    let running = crowd(&site, 5);
    eventually("it says that it has too much", || async {
        site.ranks().await.iter().any(|rank| rank["because"].as_array().unwrap().contains(&json!("overloaded")))
    })
    .await;
    let answer = site.post("/v1/completions", &completion(&prompt(1, 160))).await;
    assert_eq!(answer.status, 200);
    assert_ne!(answer.worker, holder);
    let running = join_all(running).await;
    assert!(running.iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer.status == 200)));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shed_requests_are_told_when_to_come_back_and_counted_once() {
    let site = decided(narrow(1), PolicyKind::Blend, strict(true)).await;
    let running = crowd(&site, 6);
    eventually("it says that it has too much", || async { site.ranks().await[0]["waiting"].as_u64() > Some(2) }).await;
    let answer = site.post("/v1/completions", &completion(&prompt(2, 64))).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (503, &json!("overloaded")), "{}", answer.text);
    assert_eq!(answer.retry_after, Some(1), "the poll's interval, in whole seconds");
    assert_eq!(metric(&site, "kv_sheds_total ").await.to_bits(), 1.0f64.to_bits());
    let running = join_all(running).await;
    assert!(running.iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer.status == 200)), "who is in stays in");
    eventually("its queue is gone", || async { site.ranks().await[0]["waiting"] == 0 }).await;
    assert_eq!(site.post("/v1/completions", &completion(&prompt(2, 64))).await.status, 200);
    site.stop().await;
}
