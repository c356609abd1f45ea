//! An index, and the lanes that write what the engines announce into it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroUsize;
use std::sync::Arc;

use kv_events::{CopyRule, Stream, StreamOptions};
use kv_index::lanes::{
    self, Drain, PlacementOptions, Pool, PoolError, PoolMetrics, StreamHandle, StreamOptions as QueueOptions, Topology, Wanted,
};
use kv_index::{Index, WorkersExhausted};

use super::applier::Applier;
use super::engine::Engine;
use super::reserved::Reserved;
use crate::gateway::settings::EngineSpec;

/// An index of what the engines hold, written by lanes: a few threads that apply all streams' events, each stream's in order.
///
/// The lanes are not kept on CPUs of their own: the runtime's threads, which serve and look up, are not either.
#[derive(Debug)]
pub(crate) struct Laned<I: Index>
where
    I::Worker: 'static,
{
    pub(crate) index: I,
    pool: Pool<Applier<I::Worker>>,
    /// Of each stream.
    pub(super) queue: QueueOptions,
    /// Names this process in the lives of publishers that it watches.
    pub(super) watcher: u64,
    pub(super) reserved: Arc<Reserved>,
}

/// The feeding end of a rank's stream.
pub(super) type Lane<W> = StreamHandle<Applier<W>>;

impl<I: Index> Laned<I>
where
    I::Worker: 'static,
{
    /// # Errors
    /// [`PoolError`] when there cannot be so many lanes.
    pub(crate) fn new(index: I, lanes: usize) -> Result<Self, PoolError> {
        Ok(Self {
            index,
            pool: Pool::spawn(lanes, |_| ())?,
            queue: QueueOptions::default(),
            watcher: random(),
            reserved: Arc::default(),
        })
    }

    /// Gives the rank at the place `rank` of `engine` a worker of its own, which holds nothing.
    ///
    /// # Errors
    /// [`WorkersExhausted`].
    pub(super) fn enlist(&self, engine: &Arc<Engine>, rank: usize) -> Result<Lane<I::Worker>, WorkersExhausted> {
        let stream = Stream::new(self.index.add_worker()?, stream_options(engine.spec()));
        Ok(self.pool.add(Applier::new(stream, engine.clone(), rank), self.queue))
    }

    /// Ready when everything that the lanes have taken by now is applied.
    pub(crate) fn drain(&self) -> Drain {
        self.pool.drain()
    }

    pub(crate) fn metrics(&self) -> PoolMetrics {
        self.pool.metrics()
    }
}

/// As many lanes as this machine has use for: half of its cores, at most what one index can use.
pub(crate) fn sensible_lanes() -> usize {
    let one_index = PlacementOptions { shards_max: NonZeroUsize::MIN, ..PlacementOptions::default() };
    lanes::place(&Topology::detect(), Wanted::Sensible, &one_index).map_or(1, |plan| plan.lanes.len())
}

/// A number that no other process draws: the seed of the standard library's hash tables is random.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn stream_options(spec: &EngineSpec) -> StreamOptions {
    StreamOptions {
        copies: if spec.set_copies { CopyRule::Reannounced } else { CopyRule::Counted },
        block_tokens: spec.block_size,
        drops_last_block: spec.drops_last_block,
        hashing: spec.hash_check,
        ..StreamOptions::default()
    }
}
