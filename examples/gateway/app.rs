//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kv_index::Digest;

use super::decide::Decider;
use super::fleet::{Fleet, StreamState};
use super::index::FleetIndex;
use super::metrics::Metrics;
use super::proxy::Proxy;
use super::settings::Settings;
use super::tokens::Tokens;

/// The state of one gateway.
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) fleet: Fleet,
    pub(crate) index: FleetIndex,
    pub(crate) decider: Decider,
    pub(crate) tokens: Tokens,
    pub(crate) proxy: Proxy,
    pub(crate) metrics: Arc<Metrics>,
    /// Requests decided so far.
    decided: AtomicU64,
}

impl App {
    pub(crate) fn new(settings: Settings, fleet: Fleet, index: FleetIndex, tokens: Tokens, proxy: Proxy) -> Self {
        let decider = Decider::new(&settings);
        Self { settings, fleet, index, decider, tokens, proxy, metrics: Arc::default(), decided: AtomicU64::new(0) }
    }

    /// The state of a gateway that serves nobody.
    #[cfg(test)]
    pub(crate) fn alone(settings: Settings) -> Self {
        let proxy = Proxy::new(settings.max_wait, None, tokio_util::sync::CancellationToken::new());
        let tokens = Tokens::open(None, None, proxy.questions().clone()).expect("there is no file to read");
        let index = FleetIndex::new(settings.kv_index, 1).expect("one lane can be");
        let fleet = Fleet::new(&settings.engines, settings.liveness, &settings.decision).expect("they can be watched");
        Self::new(settings, fleet, index, tokens, proxy)
    }

    /// A seed for the next decision: the settings' and the request's number, so that turns count up.
    pub(crate) fn next_seed(&self) -> u64 {
        self.settings.seed.wrapping_add(self.decided.fetch_add(1, Ordering::Relaxed))
    }

    /// How many blocks the index holds for a rank.
    pub(crate) fn blocks(&self, stream: &StreamState) -> u64 {
        self.digest(stream).count
    }

    /// The digest of what the index holds for a rank, of its main view.
    pub(crate) fn digest(&self, stream: &StreamState) -> Digest {
        stream.worker.map_or_else(Digest::default, |worker| self.index.digest(worker))
    }
}
