//! What the sidecar adds to a relay: the engine's load, the check of its hashes, and when it begins.

use std::time::Duration;

use clap::Parser;
use kv_events::adapter::grpc::{News, RelayAddress, Subscription, SubscriptionEvent, Update};
use kv_examples::mock_engine::{Dialect, MockConfig, MockFleet, Timing};
use kv_examples::relay::{Options, Sidecar};
use reqwest::Client;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::load::prompt;
use crate::site::free_ports;

struct Scene {
    fleet: MockFleet,
    relay: Sidecar,
    client: Client,
    engine: String,
}

impl Scene {
    async fn start(dialect: Dialect, arguments: impl Fn(&str) -> Vec<String>) -> Self {
        let ports = free_ports(3);
        let timing = Timing { speed: 1.0, ..Timing::default() };
        let config =
            MockConfig { engines: 1, dialect, timing, http_port: ports, events_port: ports + 1, ..MockConfig::default() };
        let fleet = MockFleet::start(config).await.unwrap();
        let engine = format!("http://127.0.0.1:{ports}");
        let mut line: Vec<String> = ["relay", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"].map(str::to_owned).to_vec();
        line.extend(["--engine-events".to_owned(), format!("tcp://127.0.0.1:{}", ports + 1)]);
        line.extend(["--replay".to_owned(), format!("tcp://127.0.0.1:{}", ports + 2)]);
        line.extend(arguments(&engine));
        let relay = Sidecar::start(&Options::parse_from(line)).await.unwrap();
        Self { fleet, relay, client: Client::builder().no_proxy().build().unwrap(), engine }
    }

    fn subscribe(&self) -> Subscription {
        Subscription::new(&format!("grpc://{}", self.relay.address()).parse::<RelayAddress>().unwrap(), 0)
    }

    /// A request that takes so many tokens, in the background.
    fn request(&self, number: u32, tokens: u32) {
        let body = json!({"model": "mock", "prompt": prompt(number), "max_tokens": tokens});
        let sent = self.client.post(format!("{}/v1/completions", self.engine)).json(&body).send();
        tokio::spawn(async { _ = sent.await });
    }

    async fn metrics(&self) -> String {
        let url = format!("http://{}/metrics", self.relay.metrics_address().unwrap());
        self.client.get(url).send().await.unwrap().text().await.unwrap()
    }

    async fn shows(&self, line: &str) {
        let shown = timeout(Duration::from_secs(20), async {
            while !self.metrics().await.contains(line) {
                sleep(Duration::from_millis(20)).await;
            }
        });
        assert!(shown.await.is_ok(), "waited in vain for {line}:\n{}", self.metrics().await);
    }

    async fn stop(self) {
        self.relay.stop().await;
        self.fleet.shutdown().await;
    }
}

/// The next message of which this holds.
async fn next_of(subscription: &mut Subscription, what: &str, is_it: impl Fn(&Update) -> bool) -> Update {
    let found = timeout(Duration::from_secs(20), async {
        loop {
            if let SubscriptionEvent::Update { update, .. } = subscription.next().await
                && is_it(&update)
            {
                return *update;
            }
        }
    });
    found.await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

async fn load_is_passed_on(dialect: Dialect) {
    let polls = |engine: &str| ["--load-url", &format!("{engine}/metrics"), "--load-every", "0.1"].map(str::to_owned).to_vec();
    let scene = Scene::start(dialect, polls).await;
    let mut reader = scene.subscribe();
    scene.request(1, 2_000);
    let is_running = |update: &Update| update.load.as_ref().is_some_and(|load| load.core.running == 1);
    let running = next_of(&mut reader, "a request that runs", is_running).await;
    let core = running.load.unwrap().core;
    assert!(core.kv_usage > 0.0 && core.waiting == 0, "{core:?}");
    next_of(&mut reader, "a rate", |update| update.load.as_ref().is_some_and(|load| load.core.tokens_per_s > 0.0)).await;
    scene.request(2, 1);
    let batch = next_of(&mut reader, "a batch", |update| matches!(update.news, News::Published { .. })).await;
    assert!(batch.load.is_some_and(|load| load.telemetry.is_none() && load.sample > 0), "every batch has it");
    scene.shows("kv_relay_load_polls_total{outcome=\"failed\"} 0").await;
    let Scene { fleet, relay, .. } = scene;
    fleet.shutdown().await;
    next_of(&mut reader, "a heartbeat without the load of an engine that is gone", |update| update.load.is_none()).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_load_of_vllm_goes_with_batches_and_heartbeats_until_it_is_not_told() {
    load_is_passed_on(Dialect::Vllm).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_load_of_sglang_does_so_too() {
    load_is_passed_on(Dialect::Sglang).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hashes_are_checked_when_it_is_asked_for() {
    let ask = |way: &'static str| move |_: &str| vec!["--hash-check".to_owned(), way.to_owned()];
    let scene = Scene::start(Dialect::Vllm, ask("vllm-sha256-cbor:of-nobody")).await;
    scene.request(1, 1);
    scene.shows("kv_relay_hash_checks_total{rank=\"0\",outcome=\"mismatched\"} 1").await;
    assert!(scene.metrics().await.contains("kv_relay_hash_checks_total{rank=\"0\",outcome=\"matched\"} 0"));
    scene.stop().await;
    let scene = Scene::start(Dialect::Vllm, |_| Vec::new()).await;
    scene.request(1, 1);
    scene.shows("kv_relay_batches_total{rank=\"0\",disposition=\"live\"} 1").await;
    assert!(!scene.metrics().await.contains("kv_relay_hash_checks_total{"));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lazy_relay_subscribes_with_its_first_reader() {
    let scene = Scene::start(Dialect::Vllm, |_| ["--start", "lazy"].map(str::to_owned).to_vec()).await;
    scene.request(1, 1);
    sleep(Duration::from_millis(500)).await;
    assert!(scene.metrics().await.contains("kv_relay_connections_total{rank=\"0\"} 0"), "{}", scene.metrics().await);
    let mut reader = scene.subscribe();
    let first = next_of(&mut reader, "what was published before", |update| matches!(update.news, News::Published { .. })).await;
    assert_eq!(first.sequence, 0);
    scene.shows("kv_relay_connections_total{rank=\"0\"} 1").await;
    scene.stop().await;
}
