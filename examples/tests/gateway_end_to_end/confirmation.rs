//! Engines whose answers say that the index is wrong about them.

use kv_examples::gateway::{DecisionSettings, PolicyKind};
use kv_examples::mock_engine::{MockConfig, MockFleet};
use serde_json::json;

use crate::decided::{decided, metric};
use crate::site::{Answer, Site, completion, eventually, fast, prompt, settings};

// Deliver 6: the events of evictions are lost and nobody on the wire can tell.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_reuses_less_than_its_index_says_is_learned_anew() {
    let site = decided(MockConfig { engines: 1, kv_blocks: 40, ..fast() }, PolicyKind::Blend, DecisionSettings::default()).await;
    for family in 0..4 {
        site.complete(&prompt(family, 160)).await;
    }
    // Four prompts push the first four out, and the wire tells of neither.
    site.fault("0", "hollow?batches=4").await;
    for family in 10..14 {
        assert_eq!(site.post("/v1/completions", &completion(&prompt(family, 160))).await.status, 200);
    }
    let believed = site.ranks().await.remove(0);
    assert_eq!((&believed["trust"], &believed["blocks"]), (&json!("exact"), &json!(40)), "{believed}");
    let mut answers = Vec::new();
    for family in 0..3 {
        answers.push(site.post("/v1/completions", &completion(&prompt(family, 160))).await);
    }
    assert!(answers.iter().all(|answer| (answer.predicted, answer.cached) == (Some(144), Some(0))), "{answers:?}");
    site.settled().await;
    eventually("it is believed again", || async { site.ranks().await[0]["index_drift"] == "sound" }).await;
    let rank = site.ranks().await.remove(0);
    assert!(rank["batches"]["resyncs"].as_u64().unwrap() + rank["batches"]["restarts"].as_u64().unwrap() >= 1, "{rank}");
    assert!(metric(&site, "kv_audited_answers_total{drift=\"less\"} ").await >= 3.0);
    let answer = site.complete(&prompt(2, 160)).await;
    assert_eq!((answer.predicted, answer.cached), (Some(144), Some(144)));
    site.stop().await;
}

// Nothing can be asked of it, so its overlap stays discounted.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_without_a_replay_socket_that_reuses_less_is_discounted() {
    let fleet = MockFleet::start(MockConfig { engines: 1, kv_blocks: 40, ..fast() }).await.unwrap();
    let mut settings = settings(&[&fleet]);
    settings.engines[0].replay = None;
    let site = Site::in_front_of(fleet, settings).await;
    for family in 0..4 {
        site.complete(&prompt(family, 160)).await;
    }
    site.fault("0", "hollow?batches=4").await;
    for family in 10..14 {
        assert_eq!(site.post("/v1/completions", &completion(&prompt(family, 160))).await.status, 200);
    }
    for family in 0..3 {
        let answer = site.post("/v1/completions", &completion(&prompt(family, 160))).await;
        assert_eq!((answer.predicted, answer.cached), (Some(144), Some(0)));
    }
    let rank = site.ranks().await.remove(0);
    assert_eq!(
        (&rank["index_drift"], &rank["because"]),
        (&json!("holds-less"), &json!(["overlap discounted: answers reuse less"]))
    );
    let request = site.client.post(site.url("/v1/completions")).header("x-kv-explain", "1");
    let answer = Answer::read(request.json(&completion(&prompt(3, 160))).send().await.unwrap()).await;
    let scored = &answer.decision.unwrap()["record"]["scored"][0];
    assert_eq!((&scored["candidate"]["degraded"], &scored["credit_tokens"]), (&json!(true), &json!(72.0)), "{scored}");
    site.stop().await;
}

// Behaviour 4's known limit: a publisher that restarts announces nothing that its engine kept.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_reuses_more_than_it_announced_is_credited_with_it() {
    // So that what is expected is the audit's credit.
    let decision = DecisionSettings { predict_for: None, ..DecisionSettings::default() };
    let site = decided(MockConfig { engines: 2, ..fast() }, PolicyKind::CacheAware, decision).await;
    for family in 0..12 {
        site.complete(&prompt(family, 160)).await;
    }
    site.fault("0", "restart-publisher").await;
    let (url, kept) = (site.fleet.engines()[0].http_url(), site.cached()[0]);
    // The first batch of the new life tells of it.
    let direct = site.client.post(format!("{url}/v1/completions")).json(&completion(&prompt(50, 16)));
    assert_eq!(direct.send().await.unwrap().status(), 200);
    eventually("what it held is forgotten", || async { site.indexed().await[0] < kept }).await;
    let mut credited = Vec::new();
    for round in 0..4 {
        for family in 0..12 {
            // Not what was asked before: nothing of the end is announced by the one before it.
            let asked = [prompt(family, 160), prompt(100 + round * 12 + family, 20)].concat();
            let answer = site.post("/v1/completions", &completion(&asked)).await;
            credited.extend(answer.expected.filter(|_| answer.worker.as_deref() == url.strip_prefix("http://")));
        }
    }
    assert!(credited.iter().any(|tokens| *tokens > 0), "{credited:?}");
    assert_eq!(site.ranks().await[0]["index_drift"], "holds-more");
    assert!(metric(&site, "kv_audited_answers_total{drift=\"more\"} ").await >= 3.0);
    site.stop().await;
}
