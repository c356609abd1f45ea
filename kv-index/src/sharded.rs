//! One complete index for each memory node.
//!
//! A worker lives in one shard, with everything it holds: its lane writes memory of its own node only. A lookup asks
//! every shard and unites the answers, which is exact because no worker is in two of them.
//!
//! # Ids
//! Shard `s` of `n` has the ids `s`, `s + n`, `s + 2n`, ...: the shard's own id times `n`, plus `s`. So an id tells its
//! shard without a table, and a lookup beside a worker's replacement cannot take one worker for another through a
//! table that changed meanwhile. As long as workers are spread evenly, ids are dense; they are always below `n` times
//! the most workers that one shard has had at a time.

use std::cell::Cell;
use std::io::Write;

use crate::limits::SHARDS_MAX;
use crate::matches::WORKER_BITS;
use crate::snapshot::{Parts, Section, WriteError};
use crate::sync::{Arc, Mutex};
use crate::{
    Block, BlockName, ContentHash, Digest, Holding, Index, Match, Matches, Removed, Runs, ShardRefusal, ShardsOutOfRange,
    StoreError, Stored, View, ViewsExhausted, Worker, WorkerId, WorkersExhausted,
};

/// An index of shards, each of them a whole index of some of the workers.
///
/// ```
/// use kv_index::{Index, ReferenceIndex, Sharded, Worker};
///
/// let index = Sharded::new(vec![ReferenceIndex::new(), ReferenceIndex::new()])?;
/// let on_second_node = index.add_worker_in(1)?;
/// assert_eq!(index.shard_of(on_second_node.id()), 1);
/// let anywhere = index.add_worker()?;
/// assert_eq!(anywhere.shard(), 0, "the shard with the fewest workers");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A lookup costs one lookup in each shard and one pass over what they found. It takes no lock of its own, and
/// allocates only until the calling thread has seen its largest answer. With a writer running, each shard is seen at a
/// moment of its own; every one of them lies within the lookup, which is what rule 13 of [`crate::index`] asks for.
///
/// Memory lies where the thread runs that first touches it. Construct a shard on a thread that is pinned to the
/// shard's node, and let only such threads write to its workers.
#[derive(Debug)]
pub struct Sharded<I> {
    shards: Box<[I]>,
    ids: Ids,
    /// Workers of each shard. Locked to add or drop a worker, never by a lookup or a store.
    filled: Arc<Mutex<Box<[usize]>>>,
}

/// The writing end of one worker of a [`Sharded`] index. Dropping it removes the worker.
#[derive(Debug)]
pub struct ShardedWorker<W> {
    // Dropped in this order: a seat that is counted as free is free.
    inner: W,
    id: WorkerId,
    seat: Seat,
}

impl<I: Index> Sharded<I> {
    /// An index of the given shards, which nobody else may add workers to.
    ///
    /// # Errors
    /// [`ShardsOutOfRange`] without any, or with more than [`SHARDS_MAX`].
    pub fn new(shards: Vec<I>) -> Result<Self, ShardsOutOfRange> {
        let out_of_range = ShardsOutOfRange { shards: shards.len(), max: SHARDS_MAX };
        if !(1..=SHARDS_MAX).contains(&shards.len()) {
            return Err(out_of_range);
        }
        let ids = Ids { shards: u32::try_from(shards.len()).map_err(|_| out_of_range)? };
        let filled = vec![0; shards.len()].into_boxed_slice();
        Ok(Self { shards: shards.into_boxed_slice(), ids, filled: Arc::new(Mutex::new(filled)) })
    }

    /// The shards, in the order of their numbers.
    pub fn shards(&self) -> &[I] {
        &self.shards
    }

    /// The shard that a worker of this id lives in.
    pub fn shard_of(&self, worker: WorkerId) -> usize {
        self.ids.split(worker).0
    }

    /// Takes a worker into one shard, where its lane runs. [`add_worker`](Index::add_worker) chooses the one with the
    /// fewest workers.
    ///
    /// # Errors
    /// [`ShardRefusal`]: there is no such shard, or it is full.
    pub fn add_worker_in(&self, shard: usize) -> Result<ShardedWorker<I::Worker>, ShardRefusal> {
        if shard >= self.shards.len() {
            return Err(ShardRefusal::Unknown { shard, shards: self.shards.len() });
        }
        self.seat(shard, &mut self.filled.lock()).map_err(|source| ShardRefusal::Full { shard, source })
    }

    fn seat(&self, shard: usize, filled: &mut [usize]) -> Result<ShardedWorker<I::Worker>, WorkersExhausted> {
        let inner = self.shards[shard].add_worker()?;
        // Only a shard with ids beyond every bound of this crate comes here without one.
        let id = self.ids.join(shard, inner.id()).ok_or(WorkersExhausted { max: inner.id().0 })?;
        filled[shard] += 1;
        Ok(ShardedWorker { inner, id, seat: Seat { shard, filled: Arc::clone(&self.filled) } })
    }
}

impl<I: Index> Index for Sharded<I> {
    type Worker = ShardedWorker<I::Worker>;

    fn add_worker(&self) -> Result<Self::Worker, WorkersExhausted> {
        let mut filled = self.filled.lock();
        let mut shards: Vec<usize> = (0..self.shards.len()).collect();
        shards.sort_by_key(|&shard| filled[shard]);
        let mut max = 0_u32;
        for shard in shards {
            match self.seat(shard, &mut filled) {
                Ok(worker) => return Ok(worker),
                Err(full) => max = max.saturating_add(full.max),
            }
        }
        Err(WorkersExhausted { max })
    }

    fn find(&self, request: &[ContentHash], out: &mut Matches) {
        if let [only] = &*self.shards {
            return only.find(request, out);
        }
        out.clear();
        out.retries = 0;
        let mut found = SCRATCH.try_with(Cell::take).unwrap_or_default();
        for (shard, index) in self.shards.iter().enumerate() {
            index.find(request, &mut found);
            unite(&found, |local| self.ids.join(shard, local), out);
        }
        out.finish();
        // A thread that is about to end has no place for it any more.
        _ = SCRATCH.try_with(|scratch| scratch.set(found));
    }

    fn coverage(&self, worker: WorkerId, view: View, request: &[ContentHash], out: &mut Runs) {
        let (shard, local) = self.ids.split(worker);
        self.shards[shard].coverage(local, view, request, out);
    }

    fn depth(&self, worker: WorkerId, view: View, request: &[ContentHash]) -> u32 {
        let (shard, local) = self.ids.split(worker);
        self.shards[shard].depth(local, view, request)
    }

    fn digest(&self, worker: WorkerId, view: View) -> Digest {
        let (shard, local) = self.ids.split(worker);
        self.shards[shard].digest(local, view)
    }

    fn for_each_holding(&self, worker: WorkerId, visit: &mut dyn FnMut(Holding)) {
        let (shard, local) = self.ids.split(worker);
        self.shards[shard].for_each_holding(local, visit);
    }

    fn workers(&self) -> Vec<WorkerId> {
        let of = |(shard, index): (usize, &I)| {
            index.workers().into_iter().filter_map(move |local| self.ids.join(shard, local)).collect::<Vec<_>>()
        };
        let mut all: Vec<WorkerId> = self.shards.iter().enumerate().flat_map(of).collect();
        all.sort_unstable();
        all
    }
}

impl<W> ShardedWorker<W> {
    /// The shard that the worker lives in.
    pub fn shard(&self) -> usize {
        self.seat.shard
    }
}

impl<W: Worker> Worker for ShardedWorker<W> {
    fn id(&self) -> WorkerId {
        self.id
    }

    fn views(&self) -> u8 {
        self.inner.views()
    }

    fn add_view(&mut self) -> Result<View, ViewsExhausted> {
        self.inner.add_view()
    }

    fn store(
        &mut self,
        view: View,
        parent: Option<BlockName>,
        blocks: &[Block],
        out: &mut Vec<Stored>,
    ) -> Result<(), StoreError> {
        self.inner.store(view, parent, blocks, out)
    }

    fn remove(&mut self, view: View, names: &[BlockName], out: &mut Vec<Removed>) {
        self.inner.remove(view, names, out);
    }

    fn holds(&self, view: View, name: BlockName) -> bool {
        self.inner.holds(view, name)
    }

    fn knows(&self, name: BlockName) -> bool {
        self.inner.knows(name)
    }

    fn clear_view(&mut self, view: View) {
        self.inner.clear_view(view);
    }

    fn clear(&mut self) {
        self.inner.clear();
    }
}

impl<W: Parts> Parts for ShardedWorker<W> {
    type Place = W::Place;

    fn digest(&self, view: View) -> Digest {
        self.inner.digest(view)
    }

    fn write_stretches<T: Write>(&self, section: &mut Section<'_, T>) -> Result<(), WriteError> {
        self.inner.write_stretches(section)
    }

    fn store_after(
        &mut self,
        view: View,
        parent: Option<W::Place>,
        blocks: &[Block],
        out: &mut Vec<Stored>,
    ) -> Result<(), StoreError> {
        self.inner.store_after(view, parent, blocks, out)
    }

    fn place_after(&self, parent: Option<W::Place>, path: &[ContentHash]) -> Option<W::Place> {
        self.inner.place_after(parent, path)
    }
}

/// A worker's place in the count of its shard.
#[derive(Debug)]
struct Seat {
    shard: usize,
    filled: Arc<Mutex<Box<[usize]>>>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.filled.lock()[self.shard] -= 1;
    }
}

/// Between an id of the whole, and a shard with an id there.
#[derive(Clone, Copy, Debug)]
struct Ids {
    /// From 1 to [`SHARDS_MAX`].
    shards: u32,
}

impl Ids {
    /// None where the id is more than a row of [`Matches`] has room for.
    fn join(self, shard: usize, local: WorkerId) -> Option<WorkerId> {
        let shard = u32::try_from(shard).ok()?;
        let id = local.0.checked_mul(self.shards)?.checked_add(shard)?;
        (id >> WORKER_BITS == 0).then_some(WorkerId(id))
    }

    fn split(self, worker: WorkerId) -> (usize, WorkerId) {
        ((worker.0 % self.shards) as usize, WorkerId(worker.0 / self.shards))
    }
}

/// Adds what one shard found to `out`, under the ids of the whole. [`Matches::finish`] must follow.
fn unite(found: &Matches, outer: impl Fn(WorkerId) -> Option<WorkerId>, out: &mut Matches) {
    out.retries += found.retries();
    for row in found {
        if let Some(worker) = outer(row.worker) {
            out.push(Match { worker, ..row });
        }
    }
}

thread_local! {
    /// Where a shard's answer stands until it is united: one for each thread, so that lookups share nothing they write.
    /// It is taken out while in use, so a lookup inside a lookup is merely slower.
    static SCRATCH: Cell<Matches> = Cell::default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_its_shard_and_the_id_there() {
        let ids = Ids { shards: 3 };
        for shard in 0..3 {
            for local in [0, 1, 2, 65_535, 44_739_241].map(WorkerId) {
                assert_eq!(ids.split(ids.join(shard, local).unwrap()), (shard, local));
            }
        }
        let last = (1 << WORKER_BITS) - 1;
        assert_eq!(ids.join(1, WorkerId(last / 3)), Some(WorkerId(last)));
        for (shard, local) in [(2, last / 3), (0, last / 3 + 1), (1, u32::MAX / 3), (0, u32::MAX)] {
            assert_eq!(ids.join(shard, WorkerId(local)), None, "an id that does not fit is none, not another's");
        }
    }

    #[test]
    fn every_bound_fits_in_an_id() {
        let ids = Ids { shards: u32::try_from(SHARDS_MAX).unwrap() };
        assert!(ids.join(SHARDS_MAX - 1, WorkerId(crate::limits::WORKERS_MAX - 1)).is_some());
    }
}
