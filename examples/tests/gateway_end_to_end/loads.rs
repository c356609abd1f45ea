//! What engines say of their load: asked for, or pushed by a relay.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use kv_events::adapter::grpc;
use kv_events::adapter::grpc::smg::SmgCounts;
use kv_events::adapter::hub::{Hub, Input};
use kv_events::relay::{Load, LoadCore, Options};
use kv_examples::gateway::{DecisionSettings, LoadSource, PolicyKind, Settings};
use kv_examples::mock_engine::{Dialect, MockConfig, MockFleet};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::decided::{at_once, decided, metric, often};
use crate::site::{Site, completion, eventually, fast, prompt, settings};

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
async fn who_shall_not_be_asked_is_not() {
    for (load_interval, asked) in [(often().load_interval, [false, true]), (None, [false, false])] {
        let fleet = MockFleet::start(MockConfig { engines: 2, ..fast() }).await.unwrap();
        let mut settings = Settings { decision: DecisionSettings { load_interval, ..often() }, ..settings(&[&fleet]) };
        settings.engines[0].load = LoadSource::Off;
        let site = Site::in_front_of(fleet, settings).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let workers = site.json("/debug/workers").await;
        let told = [0, 1].map(|engine: usize| workers[engine]["load_polls"]["outcomes"]["answered"].as_u64() > Some(1));
        assert_eq!(told, asked, "{workers}");
        site.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_load_is_counted_by_its_reason_and_no_request_notices() {
    let site = decided(MockConfig { engines: 2, ..fast() }, PolicyKind::Blend, often()).await;
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

/// A relay that was told of one batch, and where it listens.
async fn relay(closing: &CancellationToken) -> (Hub, String) {
    let (hub, _) = Hub::spawn(7, Options { ranks: 1, replays: false, ..Options::default() });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = format!("grpc://{}", listener.local_addr().unwrap());
    tokio::spawn(grpc::serve(listener, hub.clone(), Arc::<SmgCounts>::default(), closing.clone().cancelled_owned()));
    hub.tell(Input::Connected { rank: 0 }).await.unwrap();
    hub.tell(Input::Live { rank: 0, sequence: 0, payload: b"\x92\x01\x90".as_slice().into() }).await.unwrap();
    (hub, address)
}

async fn push(hub: &Hub, running: u32, waiting: u32) {
    let core = LoadCore { running, waiting, queued_tokens: 900, kv_usage: 0.5, ..LoadCore::default() };
    hub.tell(Input::Load { rank: 0, load: Load { core, ..Load::default() } }).await.unwrap();
}

// Behaviour 6: a rank that pushes is not asked.
#[tokio::test(flavor = "multi_thread")]
async fn records_of_a_relay_are_taken_and_the_engine_is_not_asked() {
    let closing = CancellationToken::new();
    let (hub, address) = relay(&closing).await;
    push(&hub, 3, 2).await;
    let fleet = MockFleet::start(MockConfig { engines: 1, ..fast() }).await.unwrap();
    let engine = format!("{},events={address}", fleet.engines()[0].http_url()).parse().unwrap();
    let decision = DecisionSettings { load_interval: Some(Duration::from_secs(2)), ..often() };
    let settings = Settings { listen: "127.0.0.1:0".to_owned(), engines: vec![engine], decision, ..Settings::default() };
    let site = Site::in_front_of(fleet, settings).await;
    let told = async |running: u32, waiting: u32| {
        let rank = site.ranks().await.remove(0);
        (&rank["running"], &rank["waiting"]) == (&running.into(), &waiting.into())
    };
    eventually("its record is taken", || async { told(3, 2).await }).await;
    push(&hub, 5, 9).await;
    eventually("the next one is", || async { told(5, 9).await }).await;
    let rank = site.ranks().await.remove(0);
    assert_eq!((&rank["because"][0], &rank["queued_tokens"]), (&"overloaded".into(), &900.into()), "{rank}");
    let polled = async || site.json("/debug/workers").await[0]["load_polls"]["outcomes"]["answered"].as_u64().unwrap_or(0);
    // At most the one from before the first record.
    let before = polled().await;
    assert!(before <= 1, "{before}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(polled().await, before, "it pushes every few seconds, changed or not");
    site.stop().await;
    closing.cancel();
}
