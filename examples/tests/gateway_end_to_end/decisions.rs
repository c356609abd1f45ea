//! What decisions are made from besides the index: loads, bookings, predictions, overload, warm-up, the audit, sessions.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use kv_examples::gateway::{DecisionSettings, LoadSource, PolicyKind, Settings};
use kv_examples::mock_engine::{Dialect, MockConfig, MockFleet, Timing};
use kv_routing::warmup;
use kv_routing::{Record, Threshold};
use serde_json::{Value, json};

use crate::site::{Answer, Site, completion, eventually, fast, prompt, settings};

/// A gateway of `decision` in front of `config`'s fleet.
async fn site(config: MockConfig, policy: PolicyKind, decision: DecisionSettings) -> Site {
    let fleet = MockFleet::start(config).await.unwrap();
    let settings = Settings { policy, decision, ..settings(&[&fleet]) };
    Site::in_front_of(fleet, settings).await
}

fn often() -> DecisionSettings {
    DecisionSettings { load_interval: Some(Duration::from_millis(50)), ..DecisionSettings::default() }
}

/// The value of a line of `/metrics`; 0 if there is none.
async fn metric(site: &Site, line: &str) -> f64 {
    let text = site.client.get(site.url("/metrics")).send().await.unwrap().text().await.unwrap();
    text.lines().find_map(|told| told.strip_prefix(line)?.trim().parse().ok()).unwrap_or(0.0)
}

/// Sends all at once.
async fn at_once(site: &Site, bodies: &[Value]) -> Vec<Answer> {
    join_all(bodies.iter().map(|body| site.post("/v1/completions", body))).await
}

/// Answers by worker.
fn spread(answers: &[Answer]) -> BTreeMap<String, usize> {
    answers.iter().fold(BTreeMap::new(), |mut spread, answer| {
        *spread.entry(answer.worker.clone().unwrap_or_default()).or_default() += 1;
        spread
    })
}

// Amendment 9: `/metrics` of vLLM, and SGLang's load endpoint.
#[tokio::test(flavor = "multi_thread")]
async fn loads_are_asked_for_where_the_engine_tells_them() {
    for (dialect, load, path) in [
        (Dialect::Vllm, LoadSource::Auto, "/metrics"),
        (Dialect::Sglang, LoadSource::Auto, "/v1/loads"),
        (Dialect::Sglang, LoadSource::Metrics, "/metrics"),
    ] {
        let fleet = MockFleet::start(MockConfig { engines: 1, ranks: 2, dialect, ..fast() }).await.unwrap();
        let mut settings = Settings { decision: often(), ..settings(&[&fleet]) };
        settings.engines[0].load = load;
        let site = Site::in_front_of(fleet, settings).await;
        site.complete(&prompt(1, 64)).await;
        let polls = || async { site.json("/debug/workers").await[0]["load_polls"].clone() };
        eventually("the load is told", || async {
            let ranks = site.ranks().await;
            polls().await["path"] == path
                && ranks.iter().all(|rank| rank["running"] == 0 && rank["loads_accepted"].as_u64() > Some(1))
        })
        .await;
        assert!(polls().await["last_error"].is_null());
        site.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_load_is_counted_by_its_reason_and_no_request_notices() {
    let site = site(MockConfig { engines: 2, ..fast() }, PolicyKind::Blend, often()).await;
    let name = site.json("/debug/workers").await[0]["name"].as_str().unwrap().to_owned();
    site.fault("0", "load?garbled=true").await;
    let refused = format!("kv_load_samples_total{{worker=\"{name}\",rank=\"0\",outcome=\"not_a_number\"}} ");
    eventually("it is counted", || async { metric(&site, &refused).await > 0.0 }).await;
    site.fault("0", "load?status=500").await;
    let failed = format!("kv_load_polls_total{{worker=\"{name}\",outcome=\"refused\"}} ");
    eventually("it is counted", || async { metric(&site, &failed).await > 0.0 }).await;
    let polls = site.json("/debug/workers").await[0]["load_polls"].clone();
    assert!(polls["last_error"].as_str().unwrap().contains("500"), "{polls}");
    let answers = at_once(&site, &(0..8).map(|family| completion(&prompt(family, 64))).collect::<Vec<_>>()).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert!(site.ranks().await.iter().all(|rank| rank["veto"].is_null()));
    site.stop().await;
}

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
    let together = site(slow(), PolicyKind::CacheAware, DecisionSettings { gates: off(), ..warm.clone() }).await;
    let answers = at_once(&together, &siblings(1)).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(spread(&answers).len(), 1, "{:?}", spread(&answers));
    assert_eq!(answers.iter().filter(|answer| answer.expected.is_some_and(|tokens| tokens >= 256)).count(), 15);
    together.stop().await;
    let apart = site(slow(), PolicyKind::CacheAware, DecisionSettings { gates: off(), predict_for: None, ..warm }).await;
    let answers = at_once(&apart, &siblings(1)).await;
    assert!(spread(&answers).len() > 1, "nothing tells that they are siblings");
    apart.stop().await;
}

/// Gates that never shut.
fn off() -> kv_routing::select::Gates {
    kv_routing::select::Gates { balance_abs: Threshold::Off, ..DecisionSettings::default().gates }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_request_leaves_no_prediction_behind_and_events_end_the_others() {
    let site = site(MockConfig { engines: 4, ..fast() }, PolicyKind::Blend, DecisionSettings::default()).await;
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

/// One engine that runs one request at a time, and says so.
fn narrow(engines: usize) -> MockConfig {
    MockConfig { engines, max_running: 1, timing: Timing { speed: 2.0, ..Timing::default() }, ..MockConfig::default() }
}

fn strict(shed: bool) -> DecisionSettings {
    let overload = kv_routing::overload::Thresholds { waiting_requests: Threshold::Above(2.0), kv_usage: Threshold::Off };
    DecisionSettings { overload, shed, ..often() }
}

/// Sends `count` long requests of one prefix at once and leaves them under way.
fn crowd(site: &Site, count: usize) -> Vec<tokio::task::JoinHandle<Answer>> {
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
    let site = site(narrow(2), PolicyKind::CacheAware, DecisionSettings { gates: off(), ..strict(false) }).await;
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
    let site = site(narrow(1), PolicyKind::Blend, strict(true)).await;
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

// Behaviour 4, defect 26: every prompt has a holder, and the emptied engine gets its share all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_engine_gets_its_slice() {
    let warmup = warmup::Options { blocks: 16, ..warmup::Options::default() };
    let decision = DecisionSettings { warmup, predict_for: None, ..DecisionSettings::default() };
    let site = site(MockConfig { engines: 3, ..fast() }, PolicyKind::CacheAware, decision).await;
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

// Deliver 6: the events of evictions are lost and nobody on the wire can tell.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_reuses_less_than_its_index_says_is_learned_anew() {
    let site = site(MockConfig { engines: 1, kv_blocks: 40, ..fast() }, PolicyKind::Blend, DecisionSettings::default()).await;
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

// Behaviour 4's known limit: a publisher that restarts announces nothing that its engine kept.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_reuses_more_than_it_announced_is_credited_with_it() {
    let site = site(MockConfig { engines: 2, ..fast() }, PolicyKind::CacheAware, DecisionSettings::default()).await;
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
    let state = site.ranks().await[0]["index_drift"].clone();
    assert!(!credited.is_empty() || state == "holds-more", "{state}");
    assert!(metric(&site, "kv_audited_answers_total{drift=\"more\"} ").await >= 3.0);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_stay_where_they_were() {
    let session_header = Some("x-session".parse().unwrap());
    let site = site(
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

#[tokio::test(flavor = "multi_thread")]
async fn a_record_from_the_header_is_decided_again_to_the_same_answer() {
    let site = site(MockConfig { engines: 3, ..fast() }, PolicyKind::Blend, often()).await;
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
