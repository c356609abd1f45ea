//! Requests of one prefix that arrive before any event tells of it.

use kv_examples::gateway::{DecisionSettings, PolicyKind};
use kv_examples::mock_engine::{MockConfig, Timing};
use kv_routing::warmup;
use serde_json::Value;

use crate::decided::{at_once, decided, metric, off, spread};
use crate::site::{completion, fast, prompt};

/// Sixteen that share 320 tokens, each with 32 of its own.
fn siblings(family: u32) -> Vec<Value> {
    (0..16).map(|number| completion(&[prompt(family, 320), prompt(900 + number, 32)].concat())).collect()
}

/// The time that a burst takes to arrive is far below that of a prefill.
fn slow() -> MockConfig {
    MockConfig { engines: 4, timing: Timing { speed: 0.2, ..Timing::default() }, ..MockConfig::default() }
}

// D30: nobody has announced anything when the siblings are placed.
#[tokio::test(flavor = "multi_thread")]
async fn siblings_that_arrive_at_once_go_together() {
    let warm =
        DecisionSettings { warmup: warmup::Options { share: 0.0, ..warmup::Options::default() }, ..DecisionSettings::default() };
    let together = decided(slow(), PolicyKind::CacheAware, DecisionSettings { gates: off(), ..warm.clone() }).await;
    let answers = at_once(&together, &siblings(1)).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(spread(&answers).len(), 1, "{:?}", spread(&answers));
    // All that they share, and not only the power of two below.
    assert_eq!(answers.iter().filter(|answer| answer.expected == Some(320)).count(), 15);
    together.stop().await;
    let apart = decided(slow(), PolicyKind::CacheAware, DecisionSettings { gates: off(), predict_for: None, ..warm }).await;
    let answers = at_once(&apart, &siblings(1)).await;
    assert!(spread(&answers).len() > 1, "nothing tells that they are siblings");
    apart.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_request_leaves_no_prediction_behind_and_events_end_the_others() {
    let site = decided(MockConfig { engines: 4, ..fast() }, PolicyKind::Blend, DecisionSettings::default()).await;
    site.fault("all", "fail?status=503").await;
    let answers = at_once(&site, &siblings(1)).await;
    assert!(answers.iter().all(|answer| answer.status == 502));
    assert_eq!(metric(&site, "kv_predicted_prefixes ").await.to_bits(), 0.0f64.to_bits());
    assert!(metric(&site, "kv_request_outcomes_total{outcome=\"failed\"} ").await >= 16.0);
    site.fault("all", "fail?status=400").await;
    assert_eq!(site.post("/v1/completions", &siblings(1)[0]).await.status, 400);
    assert_eq!(metric(&site, "kv_predicted_prefixes ").await.to_bits(), 0.0f64.to_bits(), "a refusal computes nothing either");
    site.fault("all", "fail").await;
    site.complete(&prompt(2, 64)).await;
    let again = site.post("/v1/completions", &completion(&prompt(2, 64))).await;
    assert_eq!(
        (again.predicted, again.cached, again.expected),
        (Some(48), Some(48), None),
        "what is announced is not expected beside"
    );
    site.stop().await;
}
