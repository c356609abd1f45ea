//! Why a rank is or is not chosen.

use std::collections::BTreeMap;

use kv_routing::load::Refusal;
use serde::Serialize;

use crate::gateway::app::App;
use crate::gateway::fleet::{Engine, Rank};

/// How one rank stands in decisions.
#[derive(Serialize)]
pub(super) struct Standing {
    /// What speaks against choosing it, or for it, in a word each; nothing if it is like any other.
    pub(super) because: Vec<&'static str>,
    in_flight: u32,
    /// By its own account, if that is fresh.
    running: Option<u32>,
    waiting: Option<u32>,
    kv_usage: Option<f64>,
    /// Prompt tokens before a new prompt: its account, and what was sent since.
    queued_tokens: u64,
    /// How old its account is, in seconds.
    load_age_s: Option<f64>,
    /// Loads that were taken, and those that were refused by reason.
    loads_accepted: u64,
    loads_refused: BTreeMap<&'static str, u64>,
    /// What the audit of its answers says: `sound`, `holds-more`, `holds-less`.
    index_drift: kv_routing::audit::State,
}

/// What became of the questions for an engine's load.
#[derive(Serialize)]
pub(super) struct PollReport {
    outcomes: BTreeMap<&'static str, u64>,
    path: Option<&'static str>,
    last_error: Option<String>,
}

/// What an engine's gRPC port says of its health, and what became of the questions.
#[derive(Serialize)]
pub(super) struct HealthReport {
    /// Its last answer, for as long as it counts.
    says: Option<&'static str>,
    outcomes: BTreeMap<&'static str, u64>,
    last_error: Option<String>,
}

impl Standing {
    pub(super) fn of(app: &App, engine: &Engine, rank: &Rank) -> Self {
        let (view, counts) = (rank.books.view(), rank.books.load_counts());
        let age = view.sampled_at.map(|at| rank.books.now().saturating_sub(at));
        Self {
            because: because(app, engine, rank),
            in_flight: view.in_flight,
            running: age.map(|_| view.running),
            waiting: age.map(|_| view.waiting),
            kv_usage: view.kv_usage,
            queued_tokens: view.queued_tokens,
            load_age_s: age.map(|age| age.as_secs_f64()),
            loads_accepted: counts.accepted,
            loads_refused: Refusal::ALL
                .into_iter()
                .map(|refusal| (refusal.as_str(), counts.refused(refusal)))
                .filter(|told| told.1 > 0)
                .collect(),
            index_drift: rank.books.drift(),
        }
    }
}

impl PollReport {
    pub(super) fn of(engine: &Engine) -> Self {
        let polled = engine.polls.get();
        Self { outcomes: polled.counts, path: polled.path, last_error: polled.last_error }
    }
}

impl HealthReport {
    pub(super) fn of(engine: &Engine) -> Option<Self> {
        engine.spec().grpc.as_ref()?;
        let checked = engine.checks.get();
        Some(Self { says: checked.says(), outcomes: checked.counts, last_error: checked.last_error })
    }
}

/// What sets the rank apart from others.
pub(in crate::gateway) fn because(app: &App, engine: &Engine, rank: &Rank) -> Vec<&'static str> {
    let drift = rank.books.drift();
    let mut words = Vec::from_iter(engine.absence());
    let mut say = |holds: bool, word| words.extend(holds.then_some(word));
    say(engine.checks.get().is_unheard(), "gRPC health unheard");
    if let Some(veto) = rank.pulse.veto() {
        say(true, veto.as_str());
    }
    say(rank.books.is_overloaded(&rank.books.view()), "overloaded");
    say(rank.stream().may_overstate(), "overlap discounted: events were lost");
    say(drift == kv_routing::audit::State::HoldsLess, "overlap discounted: answers reuse less");
    say(drift == kv_routing::audit::State::HoldsMore, "credited: answers reuse more");
    if let Some(warmth) = app.decider.steering.warmth() {
        words.extend(warmth.lock().word(rank.books.now(), rank.worker));
    }
    words
}
