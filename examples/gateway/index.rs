//! The index that the settings name, with its lanes.

use std::sync::Arc;

use kv_index::lanes::{Drain, PoolError, PoolMetrics};
use kv_index::{ChainIndex, Digest, Index, ReferenceIndex, View, WorkerId};
use reqwest::Client;
use tokio::task::JoinSet;

use super::fleet::{Fleet, Laned, WatchError};
use super::settings::IndexKind;

/// Who holds what, in an index of one kind or the other. Whoever looks something up does so in the index itself: both are one
/// trait, and the kind is asked for once a request.
pub(crate) enum FleetIndex {
    Chain(Arc<Laned<ChainIndex>>),
    Reference(Arc<Laned<ReferenceIndex>>),
}

impl FleetIndex {
    /// An empty index that `lanes` lanes write.
    ///
    /// # Errors
    /// [`PoolError`] when there cannot be so many.
    pub(crate) fn new(kind: IndexKind, lanes: usize) -> Result<Self, PoolError> {
        Ok(match kind {
            IndexKind::Chain => Self::Chain(Arc::new(Laned::new(ChainIndex::new(), lanes)?)),
            IndexKind::Reference => Self::Reference(Arc::new(Laned::new(ReferenceIndex::new(), lanes)?)),
        })
    }

    /// Lets `fleet` write what its engines announce into the index.
    pub(crate) async fn watch(&self, fleet: &Fleet, client: &Client, tasks: &mut JoinSet<()>) -> Result<(), WatchError> {
        match self {
            Self::Chain(laned) => fleet.watch(laned, client, tasks).await,
            Self::Reference(laned) => fleet.watch(laned, client, tasks).await,
        }
    }

    /// The digest of what a worker's main view holds.
    pub(crate) fn digest(&self, worker: WorkerId) -> Digest {
        match self {
            Self::Chain(laned) => laned.index.digest(worker, View::MAIN),
            Self::Reference(laned) => laned.index.digest(worker, View::MAIN),
        }
    }

    /// How the lanes stand.
    pub(crate) fn lanes(&self) -> PoolMetrics {
        match self {
            Self::Chain(laned) => laned.metrics(),
            Self::Reference(laned) => laned.metrics(),
        }
    }

    /// Ready when all that the lanes have taken by now is applied.
    pub(crate) fn drain(&self) -> Drain {
        match self {
            Self::Chain(laned) => laned.drain(),
            Self::Reference(laned) => laned.drain(),
        }
    }
}
