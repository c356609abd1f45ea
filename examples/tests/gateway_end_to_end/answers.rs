//! What clients get: streams, models, reports.

use kv_examples::mock_engine::MockConfig;
use serde_json::{Value, json};

use crate::decided::metric;
use crate::site::{Site, completion, eventually, fast, prompt};

fn stream(prompt: &[u32], options: Option<Value>) -> Value {
    let mut body = json!({"model": "mock", "prompt": prompt, "max_tokens": 5, "stream": true});
    if let Some(options) = options {
        body["stream_options"] = options;
    }
    body
}

/// The data of the events, without the marker of the end, which must be there.
fn events(text: &str) -> Vec<Value> {
    let mut data: Vec<&str> = text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
    assert_eq!(data.pop(), Some("[DONE]"), "{text}");
    data.into_iter().map(|json| serde_json::from_str(json).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_s_usage_is_compared_and_shown_to_who_asked() {
    let site = Site::start(fast()).await;
    site.complete(&prompt(1, 64)).await;
    for (asked, options) in [(false, None), (true, Some(json!({"include_usage": true})))] {
        let answer = site.post("/v1/completions", &stream(&prompt(1, 64), options)).await;
        assert_eq!((answer.status, answer.predicted, answer.cached), (200, Some(48), None));
        let events = events(&answer.text);
        assert_eq!(events.iter().filter(|event| event["choices"][0]["text"].is_string()).count(), 5);
        let usage: Vec<_> = events.iter().filter(|event| event["usage"].is_object()).collect();
        assert_eq!(usage.len(), usize::from(asked), "{}", answer.text);
    }
    let total = async |field: &str| site.ranks().await.iter().map(|rank| rank[field].as_u64().unwrap()).sum::<u64>();
    eventually("both streams are compared", || async { total("compared_answers").await == 3 }).await;
    assert_eq!((total("equal_answers").await, total("cached_tokens").await), (3, 96));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_the_engine_s_work() {
    let config = MockConfig { engines: 1, ..MockConfig::default() };
    let site = Site::start(config).await;
    let running = || site.fleet.engines()[0].loads()[0].running;
    let mut body = stream(&prompt(1, 32), None);
    body["max_tokens"] = json!(20_000);
    let mut response = site.client.post(site.url("/v1/completions")).json(&body).send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    assert_eq!(running(), 1);
    drop(response);
    eventually("the stream's generation ends", || async { running() == 0 }).await;
    body["stream"] = json!(false);
    let whole = tokio::spawn(site.client.post(site.url("/v1/completions")).json(&body).send());
    eventually("the engine is at work", || async { running() == 1 }).await;
    whole.abort();
    eventually("the generation of a whole answer ends", || async { running() == 0 }).await;
    eventually("nothing is booked", || async { site.ranks().await[0]["in_flight"] == 0 }).await;
    let vanished = metric(&site, "kv_request_outcomes_total{outcome=\"vanished\"} ").await;
    assert_eq!(vanished.to_bits(), 2.0f64.to_bits(), "nobody failed");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn models_health_and_metrics() {
    let site = Site::start(fast()).await;
    let models = site.json("/v1/models").await;
    assert_eq!((&models["object"], models["data"].as_array().unwrap().len()), (&json!("list"), 1));
    assert_eq!(models["data"][0]["id"], "mock");
    assert_eq!(site.json("/health").await, json!({"status": "ok", "ready_engines": 2, "engines": 2}));
    let answer = site.complete(&prompt(1, 64)).await;
    let metrics = site.client.get(site.url("/metrics")).send().await.unwrap().text().await.unwrap();
    let worker = answer.worker.unwrap();
    for line in [
        format!("kv_requests_total{{worker=\"{worker}\",rank=\"0\"}} 1"),
        format!("kv_blocks{{worker=\"{worker}\",rank=\"0\"}} 4"),
        "kv_degraded_ranks 0".to_owned(),
        "kv_request_outcomes_total{outcome=\"completed\"} 1".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line} is absent from:\n{metrics}");
    }
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_reported_with_what_their_streams_told() {
    let site = Site::start(MockConfig { block_size: 32, ..fast() }).await;
    site.post("/v1/completions", &completion(&prompt(1, 64))).await;
    site.settled().await;
    let ranks = site.ranks().await;
    let rank = ranks.iter().find(|rank| rank["requests"] == 1).unwrap();
    let expected = json!({"rank": 0, "blocks": 2, "trust": "exact", "dialect": "vllm", "block_tokens": 32, "caveats": [],
        "in_flight": 0, "failures": 0, "hit_rate": 0.0, "compared_answers": 1, "equal_answers": 1, "missed_batches": 0,
        "last_error": null});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&rank[field], value, "{field} of {rank}");
    }
    site.stop().await;
}
