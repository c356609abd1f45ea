//! One engine: its ranks, and what its health and model list last said.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kv_events::Dialect;
use kv_routing::adapter::grpc::Health;
use kv_routing::adapter::tokio::PollError;
use kv_routing::liveness::WorkersExhausted;
use parking_lot::RwLock;
use tokio::sync::Notify;

use super::books::Common;
use super::health::Checks;
use super::loads::Polls;
use super::models::ModelCard;
use super::rank::Rank;
use crate::gateway::settings::EngineSpec;

/// An engine that requests can be routed to.
#[derive(Debug)]
pub(crate) struct Engine {
    spec: EngineSpec,
    ranks: Vec<Rank>,
    pub(crate) polls: Polls,
    pub(crate) checks: Checks,
    state: RwLock<EngineState>,
    /// An answer of this engine has told its cached tokens. Engines that tell them leave a zero out.
    tells_cached: AtomicBool,
    /// Its `/tokenize` answers, as far as is known.
    tokenizes: AtomicBool,
    /// Somebody has reason to doubt the engine's health.
    doubted: Notify,
}

#[derive(Debug, Default)]
struct EngineState {
    /// By its HTTP server.
    ready: bool,
    /// Its gRPC health says that it does not serve.
    withdrawn: bool,
    models: Arc<[ModelCard]>,
    last_error: Option<String>,
}

impl Engine {
    /// An engine whose first rank is the fleet's worker `first_worker`.
    ///
    /// # Errors
    /// [`WorkersExhausted`] when no more ranks can be watched.
    pub(super) fn new(spec: EngineSpec, first_worker: u32, common: &Common) -> Result<Self, WorkersExhausted> {
        let rank = |rank| {
            let (pulse, worker) = (common.watch.enlist()?, first_worker + rank);
            let books = common.books(worker, rank, &spec, &pulse);
            Ok(Rank::new(rank, worker, pulse, books))
        };
        let ranks = (0..spec.ranks).map(rank).collect::<Result<_, _>>()?;
        Ok(Self {
            spec,
            ranks,
            polls: Polls::default(),
            checks: Checks::default(),
            state: RwLock::default(),
            tells_cached: AtomicBool::new(false),
            tokenizes: AtomicBool::new(true),
            doubted: Notify::new(),
        })
    }

    /// An engine without a fleet.
    #[cfg(test)]
    pub(super) fn alone() -> Self {
        Self::of("http://h:1")
    }

    /// The engine of `spec`, without a fleet.
    #[cfg(test)]
    pub(super) fn of(spec: &str) -> Self {
        let watch = kv_routing::adapter::tokio::Watch::new(kv_routing::liveness::Options::default());
        let common = Common::new(watch, &crate::gateway::settings::DecisionSettings::default());
        Self::new(spec.parse().expect("it is a specification"), 0, &common).expect("its ranks can be watched")
    }

    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    pub(crate) fn spec(&self) -> &EngineSpec {
        &self.spec
    }

    pub(crate) fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// The URL of `path`, which starts with a slash.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.spec.url)
    }

    /// Whether its last poll said that it serves, and its gRPC health nothing against it.
    pub(crate) fn is_ready(&self) -> bool {
        self.absence().is_none()
    }

    /// Why it is not ready, in a word.
    pub(crate) fn absence(&self) -> Option<&'static str> {
        let state = self.state.read();
        match (state.ready, state.withdrawn) {
            (false, _) => Some("down"),
            (true, true) => Some("not serving"),
            (true, false) => None,
        }
    }

    /// Whether every rank that has events is subscribed to.
    pub(crate) fn streams_connected(&self) -> bool {
        self.spec.events.is_none() || self.ranks.iter().all(|rank| rank.stream().connected)
    }

    /// What it serves, or served when it last answered.
    pub(crate) fn models(&self) -> Arc<[ModelCard]> {
        self.state.read().models.clone()
    }

    /// The latest failure, kept until the engine answers well.
    pub(crate) fn last_error(&self) -> Option<String> {
        let state = self.state.read();
        state.last_error.clone().or_else(|| state.withdrawn.then(|| WITHDRAWN.to_owned()))
    }

    /// Requests in flight on all ranks.
    pub(crate) fn in_flight(&self) -> u64 {
        self.ranks.iter().map(|rank| u64::from(rank.books.view().in_flight)).sum()
    }

    /// Whose events they are, as far as these have told.
    pub(super) fn dialect(&self) -> Option<Dialect> {
        self.ranks.iter().find_map(|rank| rank.stream().profile.dialect)
    }

    pub(crate) fn tells_cached(&self) -> bool {
        self.tells_cached.load(Ordering::Relaxed)
    }

    pub(super) fn has_told_cached(&self) {
        self.tells_cached.store(true, Ordering::Relaxed);
    }

    pub(crate) fn tokenizes(&self) -> bool {
        self.tokenizes.load(Ordering::Relaxed)
    }

    /// Its `/tokenize` is no route of it. Asked again when the engine comes back.
    pub(crate) fn cannot_tokenize(&self) {
        self.tokenizes.store(false, Ordering::Relaxed);
    }

    /// A request failed: ask for its health now.
    pub(crate) fn doubt(&self, reason: String) {
        self.state.write().last_error = Some(reason);
        self.doubted.notify_one();
    }

    /// Waits until somebody doubts its health.
    pub(super) async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// It serves `models`.
    pub(super) fn is_up(&self, models: Vec<ModelCard>) {
        self.ranks.iter().for_each(|rank| rank.pulse.probed());
        let mut state = self.state.write();
        if !state.ready {
            tracing::info!(engine = self.name(), models = %names(&models), "ready");
            self.tokenizes.store(true, Ordering::Relaxed);
        }
        *state = EngineState { ready: true, models: models.into(), last_error: None, ..*state };
    }

    /// It does not serve. What it served stays known, for the difference between 503 and 404.
    pub(super) fn is_down(&self, reason: String) {
        let mut state = self.state.write();
        if state.ready || state.last_error.as_ref() != Some(&reason) {
            tracing::warn!(engine = self.name(), url = self.spec.url, reason, "not ready, retrying");
        }
        (state.ready, state.last_error) = (false, Some(reason));
    }

    /// Its gRPC port answered for its health, or did not.
    pub(super) fn hears_of_health(&self, answer: &Result<Health, PollError>) {
        let withdrawn = self.checks.note(answer);
        if std::mem::replace(&mut self.state.write().withdrawn, withdrawn) != withdrawn {
            let engine = self.name();
            if withdrawn {
                tracing::warn!(engine, "{WITHDRAWN}, no requests for it");
            } else {
                tracing::info!(engine, "its gRPC health says NOT_SERVING no more");
            }
        }
    }
}

const WITHDRAWN: &str = "its gRPC health says NOT_SERVING";

fn names(models: &[ModelCard]) -> String {
    models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>().join(", ")
}
