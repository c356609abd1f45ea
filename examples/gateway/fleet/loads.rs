//! Asking an engine for its load, for as long as the gateway runs and the engine pushes none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kv_events::Dialect;
use kv_routing::load::wire::{Loads, WireError, metrics, sglang};
use parking_lot::Mutex;
use reqwest::{Client, StatusCode};
use thiserror::Error;
use tokio::time::{Instant, sleep_until, timeout};

use super::engine::Engine;
use crate::gateway::limits::LOAD_MAX;
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
}

/// Why a question for a load brought none.
#[derive(Debug, Error)]
enum PollError {
    /// The connection was refused or reset: of all these, the only one that tells of the engine's life.
    #[error("no connection: {0}")]
    Unreachable(String),
    #[error("no answer within {} s", LOAD_MAX.as_secs())]
    Timeout,
    #[error("it answered {0}")]
    Status(StatusCode),
    #[error("its answer broke off or was too long: {0}")]
    Body(String),
    #[error("{0}")]
    Unreadable(#[from] WireError),
}

/// One place where an engine may tell its load.
type Place = (&'static str, fn(&[u8], Duration) -> Result<Loads, WireError>);

const METRICS: Place = ("/metrics", metrics::loads);
const LOADS: Place = ("/v1/loads", sglang::loads);
const GET_LOAD: Place = ("/get_load", sglang::loads);

/// Asks `engine` each `interval` until the task is aborted: one question at a time, and none while every rank pushes.
pub(super) async fn keep_loads(engine: Arc<Engine>, client: Client, interval: Duration) {
    let mut due = Instant::now();
    loop {
        sleep_until(due).await;
        due = Instant::now() + interval;
        if engine.ranks().iter().any(|rank| rank.books.wants_poll(interval)) {
            poll(&engine, &client).await;
        }
    }
}

/// Asks once, and books what comes.
async fn poll(engine: &Engine, client: &Client) {
    let sent_at = engine.now();
    let asked = ask(engine, client, sent_at).await;
    engine.polls.note(asked.as_ref().map(|(path, _)| *path));
    match asked {
        Ok((_, loads)) => take(engine, loads),
        Err(PollError::Unreachable(reason)) => {
            tracing::debug!(engine = engine.name(), reason, "the load could not be asked for");
            engine.ranks().iter().for_each(|rank| rank.pulse.cut_off());
        }
        Err(error) => tracing::debug!(engine = engine.name(), %error, "the load was not told"),
    }
}

/// Books what each rank said. That it answers at all is a sign of life of every rank.
fn take(engine: &Engine, loads: Loads) {
    engine.ranks().iter().for_each(|rank| rank.pulse.heard());
    for (number, sample) in loads.ranks {
        let Some(rank) = engine.ranks().get(usize::from(number)) else {
            engine.polls.count("unknown_rank");
            continue;
        };
        // A queue is a sign of its own rank only.
        rank.pulse.reported(&Loads { ranks: vec![(number, sample)], unreadable: 0 }.report());
        rank.books.sampled(&sample);
    }
}

/// The load from the first place that tells it. A server without the route, or whose metrics tell no load, is asked elsewhere.
async fn ask(engine: &Engine, client: &Client, sent_at: Duration) -> Result<(&'static str, Loads), PollError> {
    let mut last = PollError::Status(StatusCode::NOT_FOUND);
    for (path, read) in places(engine) {
        let asked = timeout(LOAD_MAX, fetch(client, &engine.at(path))).await.unwrap_or(Err(PollError::Timeout));
        match asked.and_then(|body| Ok(read(&body, sent_at)?)) {
            Ok(loads) => return Ok((path, loads)),
            Err(error @ (PollError::Unreachable(_) | PollError::Timeout)) => return Err(error),
            // What is said of a place that is there weighs more than that another one is not.
            Err(PollError::Status(StatusCode::NOT_FOUND)) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn fetch(client: &Client, url: &str) -> Result<bytes::Bytes, PollError> {
    let answer = client.get(url).send().await.map_err(|error| PollError::Unreachable(proxy::reason(&error)))?;
    if !answer.status().is_success() {
        return Err(PollError::Status(answer.status()));
    }
    proxy::side_answer(answer).await.map_err(PollError::Body)
}

/// Where to ask, the likeliest first.
fn places(engine: &Engine) -> Vec<Place> {
    let mut places = match engine.spec().load {
        LoadSource::Off => vec![],
        LoadSource::Metrics => vec![METRICS],
        LoadSource::Sglang => vec![LOADS, GET_LOAD],
        // SGLang's own endpoint tells the tokens that wait, its metrics do not, and are off by default.
        LoadSource::Auto if engine.dialect() == Some(Dialect::Sglang) => vec![LOADS, GET_LOAD, METRICS],
        LoadSource::Auto => vec![METRICS, LOADS, GET_LOAD],
    };
    let answered = engine.polls.get().path;
    if engine.dialect() != Some(Dialect::Sglang) {
        places.sort_by_key(|(path, _)| Some(*path) != answered);
    }
    places
}

impl Polls {
    /// What became of them so far.
    pub(crate) fn get(&self) -> Polled {
        self.0.lock().clone()
    }

    fn count(&self, outcome: &'static str) {
        *self.0.lock().counts.entry(outcome).or_default() += 1;
    }

    fn note(&self, asked: Result<&'static str, &PollError>) {
        let mut polled = self.0.lock();
        let outcome = match asked {
            Ok(path) => {
                (polled.path, polled.last_error) = (Some(path), None);
                "answered"
            }
            Err(error) => {
                polled.last_error = Some(error.to_string());
                error.outcome()
            }
        };
        *polled.counts.entry(outcome).or_default() += 1;
    }
}

impl PollError {
    const fn outcome(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Timeout => "timeout",
            Self::Status(_) => "refused",
            Self::Body(_) => "broken_off",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

#[cfg(test)]
mod tests {
    use kv_routing::load::Sample;

    use super::*;

    #[test]
    fn each_rank_is_booked_its_own_load_and_a_rank_that_is_none_is_counted() {
        let engine = Engine::of("http://h:1,ranks=2");
        let sample = |waiting| Sample { waiting, ..Sample::polled(Duration::ZERO) };
        take(&engine, Loads { ranks: vec![(1, sample(4.0)), (0, sample(f64::NAN)), (2, sample(7.0))], unreadable: 0 });
        let waiting: Vec<_> =
            engine.ranks().iter().map(|rank| (rank.books.view().waiting, rank.books.load_counts().accepted)).collect();
        assert_eq!(waiting, [(0, 0), (4, 1)]);
        assert_eq!(engine.polls.get().counts["unknown_rank"], 1);
    }

    #[test]
    fn places_are_asked_in_the_order_in_which_they_are_likely() {
        let paths = |engine: &Engine| places(engine).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
        let of = |load: &str| Engine::of(&format!("http://h:1,load={load}"));
        assert_eq!(paths(&of("auto")), ["/metrics", "/v1/loads", "/get_load"]);
        assert_eq!(paths(&of("sglang")), ["/v1/loads", "/get_load"]);
        assert!(paths(&of("off")).is_empty());
        let engine = of("auto");
        engine.polls.note(Ok("/get_load"));
        assert_eq!(paths(&engine)[0], "/get_load", "what answered last");
    }
}
