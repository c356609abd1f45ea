//! Requests go where their prefix is, and the prediction is what the engine reports.

use std::collections::BTreeMap;

use kv_examples::gateway::{PolicyKind, Settings};
use kv_examples::mock_engine::{Dialect, MockConfig, MockFleet};
use kv_routing::Record;
use serde_json::json;

use crate::decided::{decided, metric, often};
use crate::site::{Answer, Site, completion, fast, prompt, settings};

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_goes_where_its_prefix_is() {
    for dialect in [Dialect::Vllm, Dialect::Sglang] {
        let site = Site::start(MockConfig { engines: 3, dialect, ..fast() }).await;
        let mut first = Vec::new();
        for family in 0..9 {
            let answer = site.complete(&prompt(family, 100)).await;
            assert_eq!((answer.predicted, answer.cached), (Some(0), Some(0)));
            first.push(answer.worker);
        }
        for (family, worker) in (0..9).zip(&first) {
            let longer = [prompt(family, 100), prompt(50 + family, 40)].concat();
            let answer = site.complete(&longer).await;
            assert_eq!((&answer.worker, answer.predicted, answer.cached), (worker, Some(96), Some(96)), "{dialect:?}");
        }
        site.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn evictions_are_followed() {
    let site = Site::start(MockConfig { engines: 2, kv_blocks: 24, ..fast() }).await;
    for round in 0..4 {
        for family in 0..12 {
            let answer = site.complete(&prompt(family, 20 + 16 * (family % 5))).await;
            assert_eq!(answer.predicted, answer.cached, "round {round}, family {family}");
        }
    }
    let ranks = site.ranks().await;
    assert!(ranks.iter().all(|rank| rank["predicted_tokens"] == rank["cached_tokens"]), "{ranks:?}");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rank_of_an_engine_is_a_place_of_its_own() {
    let site = Site::start(MockConfig { engines: 2, ranks: 2, ..fast() }).await;
    let place = |answer: &Answer| (answer.worker.clone().unwrap(), answer.rank.unwrap());
    let mut places = Vec::new();
    for family in 0..24 {
        places.push(place(&site.complete(&prompt(family, 64)).await));
    }
    let used: BTreeMap<_, usize> = places.iter().fold(BTreeMap::new(), |mut used, place| {
        *used.entry(place.clone()).or_default() += 1;
        used
    });
    assert_eq!(used.len(), 4, "equals are drawn among: {used:?}");
    for (family, expected) in (0..24).zip(&places) {
        let answer = site.complete(&[prompt(family, 64), vec![7; 16]].concat()).await;
        assert_eq!((place(&answer), answer.predicted, answer.cached), (expected.clone(), Some(64), Some(64)));
    }
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_policies_do_not_look_at_the_cache_and_are_compared_all_the_same() {
    let fleet = MockFleet::start(MockConfig { engines: 3, ..fast() }).await.unwrap();
    let settings = Settings { policy: PolicyKind::RoundRobin, ..settings(&[&fleet]) };
    let site = Site::in_front_of(fleet, settings).await;
    let mut answers = Vec::new();
    for _ in 0..6 {
        answers.push(site.complete(&prompt(1, 64)).await);
    }
    let workers: Vec<_> = answers.iter().map(|answer| answer.worker.clone().unwrap()).collect();
    assert_eq!(workers[..3], workers[3..]);
    assert!(workers[0] != workers[1] && workers[1] != workers[2] && workers[0] != workers[2]);
    assert!(answers.iter().all(|answer| answer.predicted == answer.cached));
    assert!(answers[3..].iter().all(|answer| answer.predicted == Some(48)));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_explains_itself_to_who_asks() {
    let site = Site::start(MockConfig { engines: 12, ..fast() }).await;
    let held = site.complete(&prompt(1, 64)).await;
    assert!(held.decision.is_none());
    let request = site.client.post(site.url("/v1/completions")).header("x-kv-explain", "1");
    let answer = Answer::read(request.json(&completion(&prompt(1, 64))).send().await.unwrap()).await;
    let decision = answer.decision.expect("it was asked for");
    assert!(decision.to_string().len() <= 2048);
    assert_eq!(decision["engine"], held.worker.unwrap());
    assert_eq!(decision["record"]["ask"]["request"]["prompt_tokens"], 64);
    let scored = decision["record"]["scored"].as_array().unwrap();
    assert_eq!(scored[0]["candidate"]["worker"], decision["record"]["choice"]["worker"]);
    assert_eq!(scored[0]["candidate"]["overlap"]["device_tokens"], 48);
    assert_eq!(scored.len() as u64 + decision["omitted"].as_u64().unwrap(), 12);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_and_chats_are_tokenized_by_the_engines() {
    let site = Site::start(MockConfig { engines: 3, ..fast() }).await;
    let words: Vec<String> = (0..60).map(|word| format!("word{word}")).collect();
    let text = json!({"model": "mock", "prompt": words.join(" "), "max_tokens": 1});
    let chat = json!({"model": "mock", "messages": [{"role": "user", "content": words.join(" ")}], "max_tokens": 1});
    for (path, body) in [("/v1/completions", text), ("/v1/chat/completions", chat)] {
        let first = site.post(path, &body).await;
        site.settled().await;
        let again = site.post(path, &body).await;
        assert_eq!((again.worker, again.predicted, again.cached), (first.worker, Some(48), Some(48)), "{path}");
    }
    let image = json!([{"type": "image_url", "image_url": {"url": "data:,"}}]);
    let answer =
        site.post("/v1/chat/completions", &json!({"model": "mock", "messages": [{"role": "user", "content": image}]})).await;
    assert_eq!((answer.status, answer.predicted, answer.unpredicted.as_deref()), (200, Some(0), Some("multimodal")));
    let metrics = site.client.get(site.url("/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("kv_unpredicted_requests_total{reason=\"multimodal\"} 1"), "{metrics}");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_from_the_header_is_decided_again_to_the_same_answer() {
    let site = decided(MockConfig { engines: 3, ..fast() }, PolicyKind::Blend, often()).await;
    for family in 0..6 {
        site.complete(&prompt(family, 64)).await;
    }
    for family in 0..6 {
        let request = site.client.post(site.url("/v1/completions")).header("x-kv-explain", "1");
        let answer = Answer::read(request.json(&completion(&prompt(family, 64))).send().await.unwrap()).await;
        let decision = answer.decision.expect("it was asked for");
        assert_eq!((&decision["omitted"], &decision["branch"]), (&json!(0), &json!(answer.branch.unwrap())), "{decision}");
        let record: Record = serde_json::from_value(decision["record"].clone()).unwrap();
        assert_eq!(record.replay().unwrap(), record.choice);
    }
    let reach = metric(&site, "kv_decided_overlap_tokens_total ").await / metric(&site, "kv_best_overlap_tokens_total ").await;
    assert!(reach > 0.9, "{reach}");
    site.stop().await;
}
