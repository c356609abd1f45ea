//! Asking an engine for its load, for as long as the gateway runs and the engine pushes none.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kv_events::Dialect;
use kv_routing::adapter::grpc::Servicer;
use kv_routing::adapter::tokio::{self as adapter, LoadPoller, PollCounts, PollError, PollFailure, PollOptions, PollOutcome};
use kv_routing::load::wire::{Loads, WireError, metrics, sglang};
use parking_lot::Mutex;
use reqwest::{Client, StatusCode};
use thiserror::Error;

use super::engine::Engine;
use super::health::failure_word;
use super::port::GrpcPort;
use crate::gateway::proxy;
use crate::gateway::settings::LoadSource;

/// What became of the questions for an engine's load.
#[derive(Debug, Default)]
pub(crate) struct Polls(Mutex<Polled>);

/// Counts, and where it answered last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Polled {
    /// By the outcome's word.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// The path that answered last.
    pub(crate) path: Option<&'static str>,
    /// The last failure, until an answer comes.
    pub(crate) last_error: Option<String>,
    /// What the poller counts itself.
    poller: PollCounts,
}

/// Who asks one engine.
struct Questions {
    engine: Arc<Engine>,
    client: Client,
    port: Option<GrpcPort>,
}

/// Why a question for a load brought none.
#[derive(Debug, Error)]
enum AskError {
    /// The connection to the HTTP server was refused or reset: of all these, the only one that tells of the engine's life.
    #[error("{0}")]
    Unreachable(String),
    #[error("it answered {0}")]
    Status(StatusCode),
    #[error("it broke off or was too long: {0}")]
    Body(String),
    #[error("{0}")]
    Unreadable(#[from] WireError),
    /// The gRPC port brought none. No request goes there, so that it cannot be reached says nothing of the way that requests go.
    #[error("gRPC: {reason}")]
    Grpc { failure: PollFailure, reason: String },
}

/// One place where an engine may tell its load.
#[derive(Clone, Copy)]
struct Place {
    path: &'static str,
    way: Way,
}

#[derive(Clone, Copy)]
enum Way {
    Http(fn(&[u8], Duration) -> Result<Loads, WireError>),
    Grpc(Servicer),
}

const METRICS: Place = Place { path: "/metrics", way: Way::Http(metrics::loads) };
const LOADS: Place = Place { path: "/v1/loads", way: Way::Http(sglang::loads) };
const GET_LOAD: Place = Place { path: "/get_load", way: Way::Http(sglang::loads) };
const VLLM: Place = Place { path: "/vllm.grpc.engine.VllmEngine/GetLoads", way: Way::Grpc(Servicer::Vllm) };
const SGLANG: Place = Place { path: "/sglang.grpc.scheduler.SglangScheduler/GetLoads", way: Way::Grpc(Servicer::Sglang) };

/// Asks `engine`, over HTTP or at its gRPC `port`, each `interval` until the task is aborted, but while every rank pushes.
pub(super) async fn keep_loads(engine: Arc<Engine>, client: Client, port: Option<GrpcPort>, interval: Duration) {
    let workers = engine.ranks().iter().map(|rank| adapter::Polled {
        rank: Some(rank.books.rank()),
        pulse: rank.pulse.clone(),
        ledger: rank.books.ledger().clone(),
    });
    let poller = LoadPoller::by_rank(Questions { engine: engine.clone(), client, port }, workers.collect());
    let poller = poller.with_options(PollOptions { interval, ..PollOptions::default() });
    engine.polls.0.lock().poller = poller.counts();
    // A server without the route may be one that starts, so no answer ends this.
    poller.keep_polled(|answer| engine.polls.note(answer)).await;
}

impl adapter::LoadSource for Questions {
    /// The load from the first place that tells it. A server without the route, or whose metrics tell no load, is asked elsewhere.
    async fn poll(&self, sent_at: Duration) -> Result<Loads, PollError> {
        let mut last = None;
        for Place { path, way } in places(&self.engine) {
            let told = match way {
                Way::Http(read) => self.fetch(path).await.and_then(|body| Ok(read(&body, sent_at)?)),
                Way::Grpc(servicer) => self.call(servicer, sent_at).await,
            };
            match told {
                Ok(loads) => {
                    self.engine.polls.0.lock().path = Some(path);
                    return Ok(loads);
                }
                Err(error @ AskError::Unreachable(_)) => return Err(error.into()),
                // What is said of a place that is there weighs more than that another one is not.
                Err(error) if error.is_absence() => _ = last.get_or_insert(error),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(AskError::Status(StatusCode::NOT_FOUND)).into())
    }
}

impl Questions {
    async fn fetch(&self, path: &str) -> Result<Bytes, AskError> {
        let answer = self.client.get(self.engine.at(path)).send().await;
        let answer = answer.map_err(|error| AskError::Unreachable(proxy::reason(&error)))?;
        if !answer.status().is_success() {
            return Err(AskError::Status(answer.status()));
        }
        proxy::side_answer(answer).await.map_err(AskError::Body)
    }

    async fn call(&self, servicer: Servicer, sent_at: Duration) -> Result<Loads, AskError> {
        let nowhere = AskError::Grpc { failure: PollFailure::Unsupported, reason: "there is no port".to_owned() };
        let port = self.port.as_ref().ok_or(nowhere)?;
        Ok(adapter::LoadSource::poll(port.loads(servicer), sent_at).await?)
    }
}

/// Where to ask, the likeliest first.
fn places(engine: &Engine) -> Vec<Place> {
    let is_sglang = engine.dialect() == Some(Dialect::Sglang);
    let (mut servicers, mut paths) = match engine.spec().load {
        LoadSource::Off => (vec![], vec![]),
        LoadSource::Metrics => (vec![], vec![METRICS]),
        LoadSource::Sglang => (vec![], vec![LOADS, GET_LOAD]),
        LoadSource::GrpcVllm => (vec![VLLM], vec![]),
        LoadSource::GrpcSglang => (vec![SGLANG], vec![]),
        // SGLang's own endpoint tells the tokens that wait, its metrics do not, and are off by default.
        LoadSource::Auto if is_sglang => (vec![SGLANG, VLLM], vec![LOADS, GET_LOAD, METRICS]),
        LoadSource::Auto => (vec![VLLM, SGLANG], vec![METRICS, LOADS, GET_LOAD]),
    };
    if engine.spec().grpc.is_none() {
        servicers.clear();
    }
    let answered = engine.polls.get().path;
    if !is_sglang {
        // Each by itself: whoever names a port wants it asked first again when it is back.
        [&mut servicers, &mut paths].into_iter().for_each(|places| places.sort_by_key(|place| Some(place.path) != answered));
    }
    [servicers, paths].concat()
}

impl Polls {
    /// What became of them so far.
    pub(crate) fn get(&self) -> Polled {
        let mut polled = self.0.lock().clone();
        let counts = &polled.poller;
        let own = [
            ("suppressed", counts.of(PollOutcome::Suppressed)),
            ("unknown_rank", counts.strays()),
            ("unreadable_entry", counts.unreadable()),
        ];
        polled.counts.extend(own.into_iter().filter(|(_, count)| *count > 0));
        polled
    }

    fn note(&self, answer: &Result<Loads, PollError>) {
        let mut polled = self.0.lock();
        polled.last_error = answer.as_ref().err().map(|error| proxy::reason(error));
        *polled.counts.entry(outcome(answer)).or_default() += 1;
    }
}

fn outcome(answer: &Result<Loads, PollError>) -> &'static str {
    let Err(error) = answer else { return "answered" };
    // What was given up has no reason of ours.
    error.source().and_then(|cause| cause.downcast_ref()).map_or("timeout", AskError::as_str)
}

impl AskError {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Status(_) => "refused",
            Self::Body(_) => "broken_off",
            Self::Unreadable(_) => "unreadable",
            Self::Grpc { failure, .. } => failure_word(*failure),
        }
    }

    /// Whether it says no more than that there is no such place.
    fn is_absence(&self) -> bool {
        matches!(self, Self::Status(StatusCode::NOT_FOUND) | Self::Grpc { failure: PollFailure::Unsupported, .. })
    }
}

/// Of what came from the gRPC port.
impl From<PollError> for AskError {
    fn from(error: PollError) -> Self {
        match error.source().and_then(|cause| cause.downcast_ref::<WireError>()) {
            Some(unreadable) => Self::Unreadable(unreadable.clone()),
            None => Self::Grpc { failure: error.failure(), reason: proxy::reason(&error) },
        }
    }
}

impl From<AskError> for PollError {
    fn from(error: AskError) -> Self {
        if matches!(error, AskError::Unreachable(_)) { Self::transport(error) } else { Self::engine(error) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::Router;
    use axum::routing::get;
    use kv_events::Profile;
    use kv_routing::accounting::PrefixKeys;
    use kv_routing::adapter::tokio::PollFailure;
    use kv_routing::load::Refusal;
    use tokio::net::TcpListener;

    use super::*;

    /// The engine of two ranks whose load endpoint answers with `body`, and which has no other.
    async fn telling(body: &'static str) -> Arc<Engine> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/v1/loads", get(move || async move { body }));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Arc::new(Engine::of(&format!("http://{address},ranks=2")))
    }

    /// Asks once.
    async fn poll(engine: &Arc<Engine>) -> Polled {
        let port = engine.spec().grpc.as_ref().map(GrpcPort::at);
        let polling = tokio::spawn(keep_loads(engine.clone(), Client::new(), port, Duration::from_hours(1)));
        while engine.polls.get().counts.is_empty() {
            tokio::task::yield_now().await;
        }
        polling.abort();
        engine.polls.get()
    }

    #[tokio::test]
    async fn each_rank_is_booked_its_own_load_and_what_belongs_to_none_is_counted() {
        let body = r#"{"loads": [
            {"dp_rank": 0, "num_running_reqs": 0, "num_waiting_reqs": -1},
            {"dp_rank": 1, "num_running_reqs": 1, "num_waiting_reqs": 4, "num_waiting_uncached_tokens": 70},
            {"dp_rank": 2, "num_running_reqs": 0, "num_waiting_reqs": 7}, {"num_running_reqs": {}}]}"#;
        let engine = telling(body).await;
        let books = [0, 1].map(|rank: usize| &engine.ranks()[rank].books);
        let _under_way = books[1].book(50, 0, true, &PrefixKeys::default());
        let polled = poll(&engine).await;
        assert_eq!(books.map(|books| (books.view().waiting, books.load_counts().accepted)), [(0, 0), (4, 1)]);
        assert_eq!(books[0].load_counts().refused(Refusal::Negative), 1);
        assert_eq!(books[1].view().queued_tokens, 70, "the rank knows of the request that was sent to it");
        assert_eq!((polled.path, polled.last_error), (Some("/v1/loads"), None));
        assert_eq!(polled.counts, BTreeMap::from([("answered", 1), ("unknown_rank", 1), ("unreadable_entry", 1)]));
    }

    #[tokio::test]
    async fn what_brings_no_load_is_counted_by_its_reason() {
        let engine = telling("no load").await;
        let polled = poll(&engine).await;
        assert_eq!((polled.counts, polled.path), (BTreeMap::from([("unreadable", 1)]), None));
        assert_eq!(polled.poller.of(PollOutcome::Failed), 1, "which says nothing of its life");
        assert!(polled.last_error.unwrap().contains("JSON"));
        let gone = Arc::new(Engine::of("http://127.0.0.1:1"));
        let polled = poll(&gone).await;
        assert_eq!((polled.counts, polled.poller.of(PollOutcome::Unreachable)), (BTreeMap::from([("unreachable", 1)]), 1));
        let port = Arc::new(Engine::of("http://127.0.0.1:1,grpc=grpc://127.0.0.1:1,load=grpc-vllm"));
        let polled = poll(&port).await;
        assert_eq!((polled.counts, polled.poller.of(PollOutcome::Failed)), (BTreeMap::from([("unreachable", 1)]), 1));
        assert!(polled.last_error.unwrap().starts_with("gRPC: Connection refused"), "and its life is not doubted");
        let late = Err(PollError::new(PollFailure::Late, "3 s"));
        assert_eq!(outcome(&late), "timeout");
    }

    #[test]
    fn places_are_asked_in_the_order_in_which_they_are_likely() {
        let paths = |engine: &Engine| places(engine).into_iter().map(|place| place.path).collect::<Vec<_>>();
        let of = |load: &str| Engine::of(&format!("http://h:1,load={load}"));
        assert_eq!(paths(&of("auto")), ["/metrics", "/v1/loads", "/get_load"]);
        assert_eq!(paths(&of("sglang")), ["/v1/loads", "/get_load"]);
        assert!(paths(&of("off")).is_empty());
        let engine = of("auto");
        engine.polls.0.lock().path = Some("/get_load");
        assert_eq!(paths(&engine)[0], "/get_load", "what answered last");
        let of = |load: &str| of(&format!("{load},grpc=grpc://h:2"));
        assert_eq!(paths(&of("auto"))[..3], [VLLM.path, SGLANG.path, "/metrics"]);
        assert_eq!((paths(&of("grpc-sglang")), paths(&of("metrics"))), (vec![SGLANG.path], vec!["/metrics"]));
        let engine = of("auto");
        engine.polls.0.lock().path = Some(SGLANG.path);
        assert_eq!(paths(&engine)[..3], [SGLANG.path, VLLM.path, "/metrics"], "the servicer that answered last");
        engine.polls.0.lock().path = Some("/get_load");
        assert_eq!(paths(&engine)[..3], [VLLM.path, SGLANG.path, "/get_load"], "the port is not forgotten when it falls silent");
        let profile = Profile { dialect: Some(Dialect::Sglang), ..Profile::default() };
        engine.ranks()[0].publish(|stream| stream.profile = Arc::new(profile));
        assert_eq!(paths(&engine)[..3], [SGLANG.path, VLLM.path, "/v1/loads"]);
    }
}
