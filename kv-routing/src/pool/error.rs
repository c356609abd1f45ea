//! What a pool refuses.

use kv_index::WorkerId;
use thiserror::Error;

/// Why a pool did not do what was asked; it is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The pool has no such worker.
    #[error("the pool has no worker {}", worker.0)]
    UnknownWorker {
        /// Who was asked for.
        worker: WorkerId,
    },
    /// The pool has no such engine.
    #[error("the pool has no engine {engine}")]
    UnknownEngine {
        /// Which was asked for.
        engine: u32,
    },
    /// The engine has no such rank.
    #[error("engine {engine} has no rank {rank}; it has {ranks}")]
    UnknownRank {
        /// The engine.
        engine: u32,
        /// Which of its ranks was asked for.
        rank: u32,
        /// How many it has.
        ranks: u32,
    },
    /// The worker, or the engine's rank, is in the pool.
    #[error("worker {} or rank {rank} of engine {engine} is in the pool already", worker.0)]
    Present {
        /// The worker.
        worker: WorkerId,
        /// Its engine.
        engine: u32,
        /// Its rank.
        rank: u32,
    },
    /// The pool is full, or the worker's id too high for it.
    #[error("expected at most {limit} workers, with ids below that; got worker {} beside {workers}", worker.0)]
    Full {
        /// The worker.
        worker: WorkerId,
        /// How many are there.
        workers: usize,
        /// How many there may be.
        limit: usize,
    },
}
