//! Ending: what runs may finish, or is told.

use std::time::{Duration, Instant};

use kv_examples::mock_engine::MockConfig;
use serde_json::json;

use crate::site::{Answer, Site, completion, fast, prompt};

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_cannot_finish_is_told() {
    let site = Site::start(MockConfig { engines: 1, ..MockConfig::default() }).await;
    let body = json!({"model": "mock", "prompt": prompt(1, 32), "max_tokens": 100_000, "stream": true});
    let mut response = site.client.post(site.url("/v1/completions")).json(&body).send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    let Site { fleet, gateway, .. } = site;
    let started = Instant::now();
    let stopping = tokio::spawn(gateway.stop());
    let text = response.text().await.unwrap();
    let last = text.trim_end().rsplit("\n\n").next().unwrap();
    assert!(last.contains("\"code\":\"shutting_down\""), "{last}");
    stopping.await.unwrap();
    assert!((Duration::from_secs(4)..Duration::from_secs(8)).contains(&started.elapsed()), "{:?}", started.elapsed());
    fleet.shutdown().await;
}

// #10.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_can_finish_does_and_no_further_connection_is_taken() {
    let site = Site::start(MockConfig { engines: 1, ..fast() }).await;
    site.fault("0", "admit-delay?ms=500").await;
    let request = site.client.post(site.url("/v1/completions")).json(&completion(&prompt(1, 32))).send();
    let running = tokio::spawn(request);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (url, started) = (site.url("/health"), Instant::now());
    let Site { fleet, gateway, .. } = site;
    gateway.stop().await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(Answer::read(running.await.unwrap().unwrap()).await.status, 200);
    let refused = crate::site::client().get(url).send().await;
    assert!(refused.unwrap_err().is_connect());
    fleet.shutdown().await;
}
