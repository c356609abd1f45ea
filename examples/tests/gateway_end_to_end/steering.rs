//! Requests that have a place before the policy is asked: emptied engines, sessions.

use std::collections::BTreeMap;

use kv_examples::gateway::{DecisionSettings, PolicyKind};
use kv_examples::mock_engine::MockConfig;
use kv_routing::warmup;
use serde_json::json;

use crate::decided::{decided, metric};
use crate::site::{Answer, completion, eventually, fast, prompt};

// Behaviour 4, defect 26: every prompt has a holder, and the emptied engine gets its share all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_engine_gets_its_slice() {
    let warmup = warmup::Options { blocks: 16, ..warmup::Options::default() };
    let decision = DecisionSettings { warmup, predict_for: None, ..DecisionSettings::default() };
    let site = decided(MockConfig { engines: 3, ..fast() }, PolicyKind::CacheAware, decision).await;
    for family in 0..24 {
        site.complete(&prompt(family, 160)).await;
    }
    let name = |place: usize| site.fleet.engines()[place].http_url().trim_start_matches("http://").to_owned();
    let url = format!("{}/admin/reset/0", site.fleet.engines()[0].http_url());
    assert_eq!(site.client.post(url).send().await.unwrap().status(), 200);
    eventually("it is known to be empty", || async { site.indexed().await[0] == 0 }).await;
    eventually("it is called thin", || async { site.ranks().await[0]["because"].as_array().unwrap().contains(&json!("thin")) })
        .await;
    // Prompts that others hold.
    let held: Vec<u32> = {
        let mut held = Vec::new();
        for family in 0..24 {
            let request = site.client.post(site.url("/v1/completions")).header("x-kv-explain", "1");
            let answer = Answer::read(request.json(&completion(&prompt(family, 160))).send().await.unwrap()).await;
            held.extend((answer.predicted == Some(144)).then_some(family));
            if answer.worker.as_deref() == Some(&name(0)) && answer.branch.as_deref() == Some("warmup_divert") {
                let decision = answer.decision.unwrap();
                assert_eq!(
                    (&decision["branch"], &decision["record"]["choice"]["branch"]),
                    (&json!("warmup_divert"), &json!("home"))
                );
            }
        }
        held
    };
    assert!(held.len() >= 8, "{held:?}");
    assert!(metric(&site, "kv_decisions_total{branch=\"warmup_divert\"} ").await >= 1.0);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_stay_where_they_were() {
    let session_header = Some("x-session".parse().unwrap());
    let site = decided(
        MockConfig { engines: 4, ..fast() },
        PolicyKind::Random,
        DecisionSettings { session_header, ..DecisionSettings::default() },
    )
    .await;
    let ask = async |session: &str| {
        let request = site.client.post(site.url("/v1/completions")).header("x-session", session);
        Answer::read(request.json(&completion(&prompt(1, 32))).send().await.unwrap()).await
    };
    let mut used = BTreeMap::new();
    for session in ["ann", "ben", "cem", "dora", "eva", "finn"] {
        let first = ask(session).await;
        assert_eq!(first.branch.as_deref(), Some("load"));
        for _ in 0..3 {
            let again = ask(session).await;
            assert_eq!((&again.worker, again.branch.as_deref()), (&first.worker, Some("session")));
        }
        used.insert(first.worker, session);
    }
    assert!(used.len() > 1, "{used:?}");
    assert_eq!(metric(&site, "kv_sessions ").await.to_bits(), 6.0f64.to_bits());
    site.stop().await;
}
