//! An engine, perhaps a relay beside it, and a gateway.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Parser;
use kv_examples::gateway::{EngineSpec, Gateway, Settings};
use kv_examples::mock_engine::{Dialect, MockConfig, MockFleet, Timing};
use kv_examples::relay::{Options, Sidecar};
use reqwest::Client;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::load::{PROMPTS, prompt};
use crate::truth::{BLOCK, Truth};

/// Whose events the gateway takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Engine,
    Relay,
}

/// What runs. What is away is nothing.
pub(crate) struct Site {
    config: MockConfig,
    pub(crate) fleet: Option<MockFleet>,
    relay: Option<Sidecar>,
    relay_options: Option<Options>,
    gateway: Option<Gateway>,
    settings: Settings,
    client: Client,
    truth: Truth,
}

impl Site {
    /// Starts everything. Connections to the engine's events and to the relay go through what `via` makes of their addresses.
    pub(crate) async fn start(from: From, dialect: Dialect, via: impl AsyncFn(Link, SocketAddr) -> SocketAddr) -> Self {
        let ports = free_ports(4);
        let config = MockConfig {
            engines: 1,
            dialect,
            block_size: BLOCK as usize,
            // Much less than the load leaves: most of it is evicted.
            kv_blocks: 300,
            timing: Timing { speed: 100.0, ..Timing::default() },
            http_port: ports,
            events_port: ports + 1,
            ..MockConfig::default()
        };
        let fleet = MockFleet::start(config.clone()).await.unwrap();
        let engine = &fleet.engines()[0];
        let url = engine.http_url().to_owned();
        let events = via(Link::EngineEvents, local(ports + 1)).await;
        let answers = local(ports + 2);
        let (mut relay, mut relay_options) = (None, None);
        let spec = match from {
            From::Engine => format!("{url},events=tcp://{events},replay=tcp://{answers}"),
            From::Relay => {
                let listen = local(ports + 3).to_string();
                let sockets = [format!("tcp://{events}"), format!("tcp://{answers}")];
                let options =
                    Options::parse_from(["relay", "--engine-events", &sockets[0], "--replay", &sockets[1], "--listen", &listen]);
                let started = Sidecar::start(&options).await.unwrap();
                let address = via(Link::Relay, started.address()).await;
                (relay, relay_options) = (Some(started), Some(options));
                format!("{url},events=grpc://{address}")
            }
        };
        let engines = vec![spec.parse::<EngineSpec>().unwrap()];
        let settings = Settings { listen: "127.0.0.1:0".to_owned(), engines, ..Settings::default() };
        let gateway = Some(Gateway::start(settings.clone()).await.unwrap());
        let client = Client::builder().no_proxy().build().unwrap();
        let truth = Truth::of((0..PROMPTS).map(prompt));
        let site = Self { config, fleet: Some(fleet), relay, relay_options, gateway, settings, client, truth };
        timeout(Duration::from_secs(10), site.gateway().all_ready()).await.expect("the engine becomes ready");
        site
    }

    pub(crate) fn engine_url(&self) -> String {
        format!("http://{}", local(self.config.http_port))
    }

    /// Ends the gateway without notice, and starts another.
    pub(crate) async fn restart_gateway(&mut self) {
        drop(self.gateway.take());
        self.gateway = Some(Gateway::start(self.settings.clone()).await.unwrap());
    }

    pub(crate) async fn kill_relay(&mut self) {
        drop(self.relay.take());
        // Its sockets close by themselves; a process's would at once.
        sleep(Duration::from_millis(50)).await;
    }

    pub(crate) async fn start_relay(&mut self) {
        let options = self.relay_options.as_ref().expect("the scene has a relay");
        let started = timeout(Duration::from_secs(10), async {
            loop {
                match Sidecar::start(options).await {
                    Ok(relay) => return relay,
                    // Its port may be taken for a moment longer.
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            }
        });
        self.relay = Some(started.await.expect("the port becomes free"));
    }

    pub(crate) async fn kill_engine(&mut self) {
        self.fleet.take().expect("the engine runs").shutdown().await;
    }

    pub(crate) async fn start_engine(&mut self) {
        let started = timeout(Duration::from_secs(10), async {
            loop {
                match MockFleet::start(self.config.clone()).await {
                    Ok(fleet) => return fleet,
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            }
        });
        self.fleet = Some(started.await.expect("the ports become free"));
    }

    /// Breaks something in the engine.
    pub(crate) async fn fault(&self, fault: &str) {
        let url = format!("{}/admin/faults/0/{fault}", self.engine_url());
        assert_eq!(self.client.post(url).send().await.unwrap().status(), 200);
    }

    /// Drops the engine's cache, which it announces.
    pub(crate) async fn reset(&self) {
        let url = format!("{}/admin/reset", self.engine_url());
        assert_eq!(self.client.post(url).send().await.unwrap().status(), 200);
    }

    /// Waits until the gateway trusts the rank so far.
    pub(crate) async fn becomes(&self, trust: &str) {
        let reached = timeout(Duration::from_secs(30), async {
            while self.rank().await["trust"] != trust {
                sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(reached.await.is_ok(), "waited in vain for {trust}: {:#}", self.rank().await);
    }

    /// Waits until the gateway calls its index exact and it holds the engine's very set, and says how long it took.
    pub(crate) async fn becomes_exact(&self, scene: &str) -> Value {
        let begun = Instant::now();
        let exact = timeout(Duration::from_secs(30), async {
            while !(self.is_true().await && self.rank().await["trust"] == "exact") {
                sleep(Duration::from_millis(10)).await;
            }
        });
        let in_time = exact.await.is_ok();
        let rank = self.rank().await;
        assert!(in_time, "{scene}: not exact in 30 s: {rank:#}\nthe engine caches {} blocks", self.cached().await.len());
        println!("{scene}: exact after {} ms, {} blocks", begun.elapsed().as_millis(), rank["blocks"]);
        rank
    }

    /// Whether the index holds the engine's set now, whatever it is called.
    pub(crate) async fn is_true(&self) -> bool {
        let truth = self.truth.digest(&self.cached().await);
        self.rank().await["digest"] == format!("{:016x}-{:016x}", truth.xor, truth.sum)
    }

    /// The names of the blocks that the engine caches.
    pub(crate) async fn cached(&self) -> Vec<u64> {
        let caches: Value = self.get(format!("{}/admin/cache/0", self.engine_url())).await;
        caches[0]["ranks"][0].as_array().unwrap().iter().map(|name| name.as_u64().unwrap()).collect()
    }

    /// What the gateway says of the engine's rank.
    pub(crate) async fn rank(&self) -> Value {
        let workers = self.get(format!("http://{}/debug/workers", self.gateway().address())).await;
        workers[0]["ranks"][0].clone()
    }

    pub(crate) async fn stop(mut self) {
        self.gateway.take().unwrap().stop().await;
        if let Some(relay) = self.relay.take() {
            relay.stop().await;
        }
        if let Some(fleet) = self.fleet.take() {
            fleet.shutdown().await;
        }
    }

    fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().expect("the gateway runs")
    }

    async fn get(&self, url: String) -> Value {
        self.client.get(url).send().await.unwrap().json().await.unwrap()
    }
}

/// Which of a site's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    EngineEvents,
    Relay,
}

fn local(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

/// The first of `count` ports in a row that are free, below the range from which the system chooses ports for others. No two
/// scenes of a process get the same.
pub(crate) fn free_ports(count: u16) -> u16 {
    static NEXT: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
    let first = 12_000 + u16::try_from(std::process::id() % 700).unwrap() * 10;
    let free = |port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let taken = NEXT.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
        let base = first + taken;
        assert!(base < 30_000, "there are free ports");
        if (base..base + count).all(free) {
            return base;
        }
    }
}
