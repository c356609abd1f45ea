//! What tests need to know and to break, for the whole fleet on every engine's port.
//!
//! | path | what |
//! |---|---|
//! | `GET /admin/fleet` | sizes of the caches, the log's end, address, endpoints and load of every rank |
//! | `GET /admin/requests?since=N&limit=N` | what each request got, and what the best engine could have given it |
//! | `GET /admin/cache/{worker}` | names of the cached blocks, by rank |
//! | `GET /admin/truth` | cached blocks by worker |
//! | `POST /admin/truth`, `POST /admin/truth/{worker}` with `{"token_ids": [...]}` | tokens that would be served from the cache now |
//! | `POST /admin/reset`, `POST /admin/reset/{worker}` | drop the cache; what runs starts over |
//! | `GET /admin/faults/{worker}` | which faults are on |
//! | `POST /admin/faults/{worker}/FAULT` | turn a fault on, for the next requests or batches |
//!
//! `{worker}` is the index of an engine or `all`. The faults:
//!
//! | fault | what it does |
//! |---|---|
//! | `drop?batches=N` | the next N batches are lost on the wire; the replay socket has them |
//! | `hollow?batches=N` | the next N batches go out without their events; the replay socket has them whole |
//! | `load?status=N` | questions for the load are refused with this status; 0 ends it |
//! | `load?garbled=true` | they are answered with what no load can be; `load` without both ends both |
//! | `delay?ms=N` | batches go out N ms late; 0 ends it |
//! | `restart-publisher` | sequence numbers start over, the replay buffer is empty, the cache stays |
//! | `pause`, `resume` | no pass starts; health, load and admin answer |
//! | `admit-delay?ms=N` | requests reach the scheduler N ms late; 0 ends it |
//! | `fail?status=N` | generations are refused with this status; 0 ends it |
//! | `fail?after_tokens=N` | streams break off behind N tokens; `fail` without both ends both |

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Site;
use super::body::parse;
use super::error::ApiError;
use crate::mock_engine::engine::{FaultReport, MockEngine};
use crate::mock_engine::engine_core::Command;
use crate::mock_engine::limits;
use crate::mock_engine::log::LogEntry;
use crate::mock_engine::zmq::StreamFault;

pub(super) fn router() -> Router<Site> {
    Router::new()
        .route("/fleet", get(fleet))
        .route("/requests", get(requests))
        .route("/cache/{worker}", get(cache))
        .route("/truth", get(totals).post(truth_of_all))
        .route("/truth/{worker}", post(truth))
        .route("/reset", post(reset_all))
        .route("/reset/{worker}", post(reset))
        .route("/faults/{worker}", get(faults))
        .route("/faults/{worker}/{fault}", post(inject))
}

async fn fleet(State(site): State<Site>) -> Json<Value> {
    let config = &site.fleet.config;
    let workers: Vec<Value> = site.fleet.engines.iter().map(describe).collect();
    Json(json!({
        "block_size": config.block_size,
        "kv_blocks": config.kv_blocks,
        "next_request": site.fleet.log.next_sequence(),
        "workers": workers,
    }))
}

fn describe(engine: &MockEngine) -> Value {
    let ranks: Vec<Value> = engine
        .rank_endpoints()
        .into_iter()
        .zip(engine.loads())
        .map(|((events, replay), load)| json!({"events": events, "replay": replay, "load": load}))
        .collect();
    json!({"worker": engine.index(), "url": engine.http_url(), "ranks": ranks})
}

#[derive(Deserialize)]
#[serde(default)]
struct Page {
    since: u64,
    limit: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self { since: 0, limit: limits::LOG_PAGE }
    }
}

async fn requests(State(site): State<Site>, Query(page): Query<Page>) -> Json<Vec<LogEntry>> {
    Json(site.fleet.log.page(page.since, page.limit))
}

async fn cache(State(site): State<Site>, Path(worker): Path<String>) -> Result<Json<Value>, ApiError> {
    let names = |engine: &MockEngine| -> Vec<Vec<u64>> { engine.ranks.iter().map(|rank| rank.mirror.names()).collect() };
    let caches = targets(&site, &worker)?.iter().map(|engine| json!({"worker": engine.index(), "ranks": names(engine)}));
    Ok(Json(caches.collect()))
}

async fn totals(State(site): State<Site>) -> Json<Value> {
    let cached = |engine: &MockEngine| engine.loads().iter().map(|load| load.cached_blocks).sum::<usize>();
    Json(site.fleet.engines.iter().map(|engine| json!({"worker": engine.index(), "cached_blocks": cached(engine)})).collect())
}

#[derive(Deserialize)]
struct TruthBody {
    token_ids: Vec<u32>,
}

async fn truth_of_all(site: State<Site>, body: Result<Bytes, BytesRejection>) -> Result<Json<Value>, ApiError> {
    truth(site, Path(ALL.to_owned()), body).await
}

async fn truth(
    State(site): State<Site>,
    Path(worker): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, ApiError> {
    let TruthBody { token_ids } = parse(body)?;
    let mut answers = Vec::new();
    for engine in targets(&site, &worker)? {
        let ranks = engine.truth(&token_ids, site.fleet.config.block_size).await;
        answers.push(json!({"worker": engine.index(), "cached_tokens": ranks.iter().max(), "ranks": ranks}));
    }
    Ok(Json(answers.into()))
}

async fn reset_all(site: State<Site>) -> Result<(), ApiError> {
    reset(site, Path(ALL.to_owned())).await
}

async fn reset(State(site): State<Site>, Path(worker): Path<String>) -> Result<(), ApiError> {
    for engine in targets(&site, &worker)? {
        engine.command_all(Command::Reset).await;
    }
    Ok(())
}

async fn faults(State(site): State<Site>, Path(worker): Path<String>) -> Result<Json<Vec<FaultReport>>, ApiError> {
    Ok(Json(targets(&site, &worker)?.iter().map(MockEngine::fault_report).collect()))
}

#[derive(Deserialize)]
struct FaultOptions {
    batches: Option<u64>,
    ms: Option<u64>,
    status: Option<u16>,
    after_tokens: Option<usize>,
    garbled: Option<bool>,
}

/// Answers when the fault is in force.
async fn inject(
    State(site): State<Site>,
    Path((worker, fault)): Path<(String, String)>,
    Query(options): Query<FaultOptions>,
) -> Result<Json<Vec<FaultReport>>, ApiError> {
    let engines = targets(&site, &worker)?;
    for engine in engines {
        inject_one(engine, &fault, &options).await?;
    }
    Ok(Json(engines.iter().map(MockEngine::fault_report).collect()))
}

async fn inject_one(engine: &MockEngine, fault: &str, options: &FaultOptions) -> Result<(), ApiError> {
    match fault {
        "drop" => break_streams(engine, StreamFault::Drop(required("batches", options.batches)?)).await,
        "hollow" => break_streams(engine, StreamFault::Hollow(required("batches", options.batches)?)).await,
        "load" => {
            let mut faults = engine.http_faults.lock();
            faults.load_status = options.status.filter(|&status| status != 0);
            faults.load_garbled = options.garbled.unwrap_or(false);
        }
        "delay" => break_streams(engine, StreamFault::Delay(delay(options)?)).await,
        "restart-publisher" => break_streams(engine, StreamFault::Restart).await,
        "pause" => engine.command_all(Command::Pause).await,
        "resume" => engine.command_all(Command::Resume).await,
        "admit-delay" => {
            let ms = u64::try_from(delay(options)?.as_millis()).unwrap_or(u64::MAX);
            engine.http_faults.lock().admit_delay_ms = ms;
        }
        "fail" => {
            let mut faults = engine.http_faults.lock();
            faults.fail_status = options.status.filter(|&status| status != 0);
            faults.fail_after_tokens = options.after_tokens;
        }
        other => return Err(ApiError::not_found(format!("there is no fault `{other}`"))),
    }
    Ok(())
}

async fn break_streams(engine: &MockEngine, fault: StreamFault) {
    for rank in &engine.ranks {
        rank.publisher.inject(fault).await;
    }
}

fn delay(options: &FaultOptions) -> Result<Duration, ApiError> {
    let delay = Duration::from_millis(required("ms", options.ms)?);
    if delay <= limits::FAULT_DELAY {
        return Ok(delay);
    }
    Err(ApiError::bad_request(format!("`ms` must be at most {}", limits::FAULT_DELAY.as_millis())))
}

fn required<T>(name: &str, value: Option<T>) -> Result<T, ApiError> {
    value.ok_or_else(|| ApiError::bad_request(format!("`{name}` is missing")))
}

fn targets<'a>(site: &'a Site, worker: &str) -> Result<&'a [MockEngine], ApiError> {
    let engines = &site.fleet.engines;
    if worker == ALL {
        return Ok(engines);
    }
    let index = worker.parse::<usize>().ok().filter(|&index| index < engines.len());
    let index =
        index.ok_or_else(|| ApiError::not_found(format!("worker must be `all` or below {}, got `{worker}`", engines.len())))?;
    Ok(&engines[index..=index])
}

const ALL: &str = "all";
