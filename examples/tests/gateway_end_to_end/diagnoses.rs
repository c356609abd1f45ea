//! What the gateway says is wrong with an engine.

use kv_examples::mock_engine::{MockConfig, MockFleet};

use crate::site::{Site, fast, prompt, settings};

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_well_has_no_diagnosis() {
    let site = Site::start(MockConfig { engines: 1, ..fast() }).await;
    for family in 0..12 {
        site.complete(&prompt(family % 6, 64)).await;
    }
    let rank = &site.ranks().await[0];
    assert!(rank["diagnoses"].as_array().unwrap().is_empty() && rank["hashes"].is_null(), "{rank}");
    site.stop().await;
}

/// P22: an engine that does not hash as it is believed to. Nothing is dropped for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_hashes_otherwise_is_named_with_advice_and_counted() {
    let fleet = MockFleet::start(MockConfig { engines: 1, ..fast() }).await.unwrap();
    let mut settings = settings(&[&fleet]);
    settings.engines[0].hash_check = Some("vllm-sha256:0".parse().unwrap());
    let site = Site::in_front_of(fleet, settings).await;
    for _ in 0..2 {
        let answer = site.complete(&prompt(1, 64)).await;
        assert_eq!(answer.predicted, answer.cached);
    }
    let rank = &site.ranks().await[0];
    assert_eq!((&rank["hashes"]["matched"], &rank["hashes"]["mismatched_roots"]), (&0.into(), &1.into()), "{rank}");
    assert_eq!(rank["diagnoses"][0]["cause"], "hashing_differs");
    assert!(rank["diagnoses"][0]["advice"].as_str().unwrap().contains("PYTHONHASHSEED"));
    let metrics = site.client.get(site.url("/metrics")).send().await.unwrap().text().await.unwrap();
    for line in ["cause=\"hashing_differs\"} 1", "outcome=\"mismatched\"} 1", "outcome=\"unverifiable\"} 3"] {
        assert!(metrics.contains(line), "{line} is absent from:\n{metrics}");
    }
    site.stop().await;
}
