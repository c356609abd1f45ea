//! A gateway with its engines, and a client of both.

use std::time::Duration;

use kv_examples::gateway::{EngineSpec, Gateway, Settings};
use kv_examples::mock_engine::{MockConfig, MockEngine, MockFleet, Timing};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// A running gateway and the fleet behind it.
pub(crate) struct Site {
    pub(crate) fleet: MockFleet,
    pub(crate) gateway: Gateway,
    pub(crate) client: Client,
}

/// An answer of the gateway, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) worker: Option<String>,
    pub(crate) rank: Option<u64>,
    pub(crate) branch: Option<String>,
    pub(crate) predicted: Option<u64>,
    pub(crate) expected: Option<u64>,
    pub(crate) cached: Option<u64>,
    pub(crate) unpredicted: Option<String>,
    pub(crate) decision: Option<Value>,
    pub(crate) retry_after: Option<u64>,
    pub(crate) text: String,
}

/// Engines that take a hundredth of a real one's time.
pub(crate) fn fast() -> MockConfig {
    MockConfig { timing: Timing { speed: 100.0, ..Timing::default() }, ..MockConfig::default() }
}

/// Settings of a test: any port, and the fleet's engines.
pub(crate) fn settings(fleets: &[&MockFleet]) -> Settings {
    let engines = fleets.iter().flat_map(|fleet| fleet.engines().iter().map(spec)).collect();
    Settings { listen: "127.0.0.1:0".to_owned(), engines, ..Settings::default() }
}

/// How to reach `engine`, which is called by its port.
pub(crate) fn spec(engine: &MockEngine) -> EngineSpec {
    let (url, events, replay) = (engine.http_url(), engine.events_endpoint(), engine.replay_endpoint());
    format!("{url},events={events},replay={replay},ranks={}", engine.rank_endpoints().len()).parse().unwrap()
}

/// `len` tokens that no other `family` shares.
pub(crate) fn prompt(family: u32, len: u32) -> Vec<u32> {
    (0..len).map(|position| family * 100_000 + position + 1).collect()
}

/// A request for one token after `prompt`.
pub(crate) fn completion(prompt: &[u32]) -> Value {
    json!({"model": "mock", "prompt": prompt, "max_tokens": 1})
}

pub(crate) fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

/// The first of `count` ports in a row that are free, below the range from which the system chooses ports for others.
pub(crate) fn free_ports(count: u16) -> u16 {
    let first = 20_000 + u16::try_from(std::process::id() % 1000).unwrap() * 10;
    let free = |port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    (first..32_000).step_by(usize::from(count)).find(|&port| (port..port + count).all(free)).expect("there are free ports")
}

/// Waits until `condition` holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let held = timeout(Duration::from_secs(10), async {
        while !condition().await {
            sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(held.await.is_ok(), "waited in vain: {what}");
}

impl Site {
    /// A gateway in front of a fleet of `config`, ready.
    pub(crate) async fn start(config: MockConfig) -> Self {
        let fleet = MockFleet::start(config).await.unwrap();
        let settings = settings(&[&fleet]);
        Self::in_front_of(fleet, settings).await
    }

    /// A gateway of `settings`, ready.
    pub(crate) async fn in_front_of(fleet: MockFleet, settings: Settings) -> Self {
        let gateway = Gateway::start(settings).await.unwrap();
        timeout(Duration::from_secs(10), gateway.all_ready()).await.expect("the engines become ready");
        Self { fleet, gateway, client: client() }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.gateway.address())
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::read(self.client.post(self.url(path)).json(body).send().await.unwrap()).await
    }

    /// Sends `prompt` and waits until its events have been taken in.
    pub(crate) async fn complete(&self, prompt: &[u32]) -> Answer {
        let answer = self.post("/v1/completions", &completion(prompt)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        self.settled().await;
        answer
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        self.client.get(self.url(path)).send().await.unwrap().json().await.unwrap()
    }

    /// Breaks something in engine `index`, or in `all`.
    pub(crate) async fn fault(&self, engine: &str, fault: &str) {
        let url = format!("{}/admin/faults/{engine}/{fault}", self.fleet.engines()[0].http_url());
        assert_eq!(self.client.post(url).send().await.unwrap().status(), 200);
    }

    /// Waits until the gateway's index has as many blocks of each rank as the rank's cache.
    pub(crate) async fn settled(&self) {
        eventually("the index has what the engines have", || async { self.indexed().await == self.cached() }).await;
    }

    /// Blocks by engine and rank, as the gateway has them.
    pub(crate) async fn indexed(&self) -> Vec<u64> {
        self.ranks().await.iter().map(|rank| rank["blocks"].as_u64().unwrap()).collect()
    }

    /// Blocks by engine and rank, as the engines have them.
    pub(crate) fn cached(&self) -> Vec<u64> {
        let loads = self.fleet.engines().iter().flat_map(MockEngine::loads);
        loads.map(|load| load.cached_blocks as u64).collect()
    }

    /// What `/debug/workers` says of each rank.
    pub(crate) async fn ranks(&self) -> Vec<Value> {
        let workers = self.json("/debug/workers").await;
        workers.as_array().unwrap().iter().flat_map(|engine| engine["ranks"].as_array().unwrap().clone()).collect()
    }

    pub(crate) async fn stop(self) {
        self.gateway.stop().await;
        self.fleet.shutdown().await;
    }
}

impl Answer {
    pub(crate) async fn read(response: Response) -> Self {
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let number = |name: &str| header(name).map(|text| text.parse().unwrap());
        Self {
            status: response.status().as_u16(),
            worker: header("x-kv-worker"),
            rank: number("x-kv-rank"),
            branch: header("x-kv-branch"),
            predicted: number("x-kv-predicted-tokens"),
            expected: number("x-kv-expected-tokens"),
            cached: number("x-kv-cached-tokens"),
            unpredicted: header("x-kv-unpredicted"),
            decision: header("x-kv-decision").map(|text| serde_json::from_str(&text).unwrap()),
            retry_after: number("retry-after"),
            text: response.text().await.unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}
