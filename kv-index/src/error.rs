//! What can go wrong, as values with the numbers in them. An error leaves the index as it was before the call.

use thiserror::Error;

use crate::{BlockName, View};

/// No further worker fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("all {max} workers of the index are taken")]
pub struct WorkersExhausted {
    /// How many workers the index was made for.
    pub max: u32,
}

/// No further view fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("all {max} views of the worker are taken")]
pub struct ViewsExhausted {
    /// How many views a worker may have.
    pub max: u8,
}

/// Why a store was refused. Nothing of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The worker holds the parent's name in none of its views, so the blocks' places are unknown.
    #[error("the parent {parent} is not held by this worker")]
    ParentNotHeld {
        /// The parent's name.
        parent: BlockName,
    },
    /// The worker has no such view.
    #[error("{view} does not exist: the worker has {views}")]
    UnknownView {
        /// The view asked for.
        view: View,
        /// How many views the worker has.
        views: u8,
    },
    /// The store would pass the memory budget. Mark the stream degraded and resync it when there is room.
    #[error("the store needs {needed_bytes} bytes more than the budget of {budget_bytes}")]
    OverBudget {
        /// The budget.
        budget_bytes: usize,
        /// What is missing.
        needed_bytes: usize,
    },
}

/// An index cannot have so many shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{shards} shards were given: an index has 1 to {max}")]
pub struct ShardsOutOfRange {
    /// How many were given.
    pub shards: usize,
    /// How many an index may have.
    pub max: usize,
}

/// Why a worker did not get into the shard that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShardRefusal {
    /// There is no such shard.
    #[error("shard {shard} does not exist: the index has {shards}")]
    Unknown {
        /// The shard asked for.
        shard: usize,
        /// How many there are.
        shards: usize,
    },
    /// The shard is full, others may not be.
    #[error("shard {shard} is full")]
    Full {
        /// The shard asked for.
        shard: usize,
        /// How many workers it takes.
        source: WorkersExhausted,
    },
}
