//! The index that the settings name.

use kv_index::{ChainIndex, Digest, Index, ReferenceIndex, View, WorkerId};
use reqwest::Client;
use tokio::task::JoinSet;

use super::fleet::{Fleet, WatchError};
use super::settings::IndexKind;

/// Who holds what, in an index of one kind or the other. Whoever looks something up does so in the index itself: both are one
/// trait, and the kind is asked for once a request.
pub(crate) enum FleetIndex {
    Chain(ChainIndex),
    Reference(ReferenceIndex),
}

impl FleetIndex {
    pub(crate) fn new(kind: IndexKind) -> Self {
        match kind {
            IndexKind::Chain => Self::Chain(ChainIndex::new()),
            IndexKind::Reference => Self::Reference(ReferenceIndex::new()),
        }
    }

    /// Lets `fleet` write what its engines announce into the index.
    pub(crate) async fn watch(&self, fleet: &Fleet, client: &Client, tasks: &mut JoinSet<()>) -> Result<(), WatchError> {
        match self {
            Self::Chain(index) => fleet.watch(index, client, tasks).await,
            Self::Reference(index) => fleet.watch(index, client, tasks).await,
        }
    }

    /// The digest of what a worker's main view holds.
    pub(crate) fn digest(&self, worker: WorkerId) -> Digest {
        match self {
            Self::Chain(index) => index.digest(worker, View::MAIN),
            Self::Reference(index) => index.digest(worker, View::MAIN),
        }
    }
}
