//! `/debug/workers`: what the gateway knows of every engine.

mod standing;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use kv_events::doctor::Diagnosis;
use kv_events::{Dialect, HashCounts};
use kv_index::Digest;
use kv_routing::liveness::Veto;
use serde::Serialize;

pub(in crate::gateway) use self::standing::because;
use self::standing::{HealthReport, PollReport, Standing};
use crate::gateway::app::App;
use crate::gateway::fleet::{BatchCounts, Engine, Rank};

/// One engine.
#[derive(Serialize)]
pub(super) struct EngineReport {
    url: String,
    name: String,
    ready: bool,
    models: Vec<String>,
    last_error: Option<String>,
    /// The questions for its load.
    load_polls: PollReport,
    /// The questions for its health at its gRPC port, where it has one.
    grpc_health: Option<HealthReport>,
    ranks: Vec<RankReport>,
}

/// One data-parallel rank.
#[derive(Serialize)]
struct RankReport {
    rank: u32,
    /// The number that decisions' records use.
    worker: u32,
    blocks: u64,
    /// Of the index's holdings, for comparison with another index.
    digest: String,
    /// The last sequence number taken in.
    sequence: Option<u64>,
    trust: &'static str,
    /// Why it is passed over while others can serve.
    veto: Option<&'static str>,
    /// How it stands in decisions, and why.
    #[serde(flatten)]
    standing: Standing,
    /// Why it is degraded.
    degraded_by: Vec<&'static str>,
    /// Why predictions for some requests, or all, may differ from what the engine reports.
    caveats: Vec<&'static str>,
    dialect: Option<&'static str>,
    block_tokens: Option<u32>,
    lookahead_tokens: Option<u32>,
    groups: Vec<String>,
    batches: BatchCounts,
    missed_batches: u64,
    waiting_blocks: usize,
    losses: std::collections::BTreeMap<&'static str, u64>,
    /// What the check of the engine's hashes found, where it is switched on.
    hashes: Option<HashReport>,
    /// What may be wrong, the gravest first.
    diagnoses: Vec<DiagnosisReport>,
    requests: u64,
    failures: u64,
    hit_rate: Option<f64>,
    compared_answers: u64,
    equal_answers: u64,
    prompt_tokens: u64,
    predicted_tokens: u64,
    cached_tokens: u64,
    last_error: Option<String>,
}

/// How the names of announced blocks compare with the engine's hashes, recomputed.
#[derive(Serialize)]
struct HashReport {
    matched: u64,
    mismatched: u64,
    mismatched_roots: u64,
    unverifiable: u64,
    /// How the first block that differs is hashed instead, if that is a usual way.
    actual: Option<&'static str>,
}

/// One thing that may be wrong.
#[derive(Serialize)]
struct DiagnosisReport {
    cause: &'static str,
    because: String,
    advice: &'static str,
}

pub(super) async fn workers(State(app): State<Arc<App>>) -> Json<Vec<EngineReport>> {
    Json(app.fleet.engines().iter().map(|engine| engine_report(&app, engine)).collect())
}

fn engine_report(app: &App, engine: &Engine) -> EngineReport {
    EngineReport {
        url: engine.spec().url.clone(),
        name: engine.name().to_owned(),
        ready: engine.is_ready(),
        models: engine.models().iter().map(|model| model.id.clone()).collect(),
        last_error: engine.last_error(),
        load_polls: PollReport::of(engine),
        grpc_health: HealthReport::of(engine),
        ranks: engine.ranks().iter().map(|rank| rank_report(app, engine, rank)).collect(),
    }
}

fn rank_report(app: &App, engine: &Engine, rank: &Rank) -> RankReport {
    let (stream, tally) = (rank.stream(), &rank.tally);
    let (profile, scheme) = (&stream.profile, stream.profile.scheme);
    RankReport {
        rank: rank.number,
        worker: rank.worker,
        blocks: app.blocks(&stream),
        digest: digest_text(app.digest(&stream)),
        sequence: stream.sequence,
        trust: stream.trust().as_str(),
        veto: rank.pulse.veto().map(Veto::as_str),
        standing: Standing::of(app, engine, rank),
        caveats: profile.caveats.iter().map(|caveat| caveat.as_str()).collect(),
        dialect: profile.dialect.map(Dialect::as_str),
        block_tokens: scheme.map(|scheme| scheme.block_tokens.get()),
        lookahead_tokens: scheme.map(|scheme| scheme.lookahead_tokens),
        groups: profile.groups.iter().map(|views| format!("{:?}", views.group)).collect(),
        batches: stream.batches,
        degraded_by: stream.reasons(),
        missed_batches: stream.missed(),
        waiting_blocks: stream.findings.waiting_blocks,
        hashes: stream.hashes.as_ref().map(HashReport::from),
        diagnoses: engine.check_up(rank).into_iter().map(DiagnosisReport::from).collect(),
        losses: stream.counts.losses.iter().map(|(loss, count)| (loss.as_str(), count)).collect(),
        requests: tally.requests.value(),
        failures: tally.failures.value(),
        hit_rate: tally.hit_rate(),
        compared_answers: tally.compared.value(),
        equal_answers: tally.equal.value(),
        prompt_tokens: tally.prompt_tokens.value(),
        predicted_tokens: tally.predicted_tokens.value(),
        cached_tokens: tally.cached_tokens.value(),
        last_error: stream.last_error.clone(),
    }
}

impl From<&HashCounts> for HashReport {
    fn from(counts: &HashCounts) -> Self {
        let HashCounts { matched, mismatched, mismatched_roots, unverifiable, first } = *counts;
        Self { matched, mismatched, mismatched_roots, unverifiable, actual: first.and_then(|first| first.actual) }
    }
}

impl From<Diagnosis> for DiagnosisReport {
    fn from(Diagnosis { cause, because }: Diagnosis) -> Self {
        Self { cause: cause.as_str(), because, advice: cause.advice() }
    }
}

/// JSON's numbers have 53 bits; a digest's words have 64.
fn digest_text(digest: Digest) -> String {
    format!("{:016x}-{:016x}", digest.xor, digest.sum)
}
