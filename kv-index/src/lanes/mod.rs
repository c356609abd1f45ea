//! Threads that apply many streams' events, each stream's in order and by one thread at a time.
//!
//! A router follows hundreds of engines, and each of their ranks is a stream: a few events a second, or a burst of
//! thousands after a restart. A thread for each would be too many, and one for all too slow. A [`Pool`] has a few *lanes*;
//! every stream has a queue of its own, and whichever lane is free applies what is queued.
//!
//! ```
//! use kv_index::lanes::{Ending, Pool, Stream, StreamOptions};
//! use kv_index::{Block, BlockName, ContentHash, Index, ReferenceIndex, ReferenceWorker, View, Worker};
//!
//! /// All that one rank's events change. `kv-events` adds a normalizer, copy counts and waiting orphans.
//! struct Rank {
//!     worker: ReferenceWorker,
//!     refused: u64,
//! }
//!
//! struct Stored {
//!     parent: Option<BlockName>,
//!     blocks: Vec<Block>,
//! }
//!
//! impl Stream for Rank {
//!     type Event = Stored;
//!
//!     fn apply(&mut self, event: Stored) -> Option<Stored> {
//!         let stored = self.worker.store(View::MAIN, event.parent, &event.blocks, &mut Vec::new());
//!         self.refused += u64::from(stored.is_err());
//!         None // Nothing is left of the event.
//!     }
//!
//!     fn cost(event: &Stored) -> u64 {
//!         size_of_val(event.blocks.as_slice()) as u64
//!     }
//! }
//!
//! let index = ReferenceIndex::new();
//! let pool = Pool::spawn(2, |_lane| { /* pin the thread, say */ })?;
//! let rank = Rank { worker: index.add_worker()?, refused: 0 };
//! let handle = pool.add(rank, StreamOptions::default());
//!
//! let block = Block::named(BlockName(0xa1), ContentHash(1));
//! // At the bound the event comes back: keep it, and offer it again when `handle.room()` is ready.
//! handle.enqueue(Stored { parent: None, blocks: vec![block] })?;
//! // What is no event runs in its turn with them: here, a look at what was counted.
//! assert_eq!(handle.with(|rank| rank.refused)?.wait()?, 0);
//!
//! let remains = pool.shutdown(Ending::Drain);
//! let worker = remains.streams[0].stream.worker.id();
//! assert_eq!(index.depth(worker, View::MAIN, &[ContentHash(1)]), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//! * *Order.* A stream's events and tasks are done in the order in which they were queued, whichever lanes do them.
//! * *One thread at a time*, by type: a lane has the stream's value, or nobody has.
//! * *Nothing is lost silently.* [`enqueue`](StreamHandle::enqueue) never waits for a lane and never drops: an event is taken,
//!   or it comes back. One that was taken is applied, or comes back with its stream from [`remove`](StreamHandle::remove) or
//!   [`shutdown`](Pool::shutdown), or was the one that panicked; [`Counts`] has each.
//! * *One stream's trouble is its own.* A panic in a stream's code [fails](Failure) that stream; its lane goes on with the
//!   others. (Not if the program is built with `panic = "abort"`.) A long queue keeps a lane for a turn, then the next stream
//!   has one; a long event keeps it for as much as [`apply`](Stream::apply) chooses to do at a time.
//! * *No clock, no random source, and no thread but those of [`Pool::spawn`].* Lanes that find nothing to do sleep.
//!
//! # What it costs
//! Queuing an event takes the stream's lock, and if the stream was idle the lock of one lane's list; no lock of all streams. On
//! the machine that this was written on that is 20 to 80 ns, depending on what is in its caches; a turn costs a lane some
//! 80 ns, and each further event in it 30. Where a sleeping lane must be woken, that system call is the feeder's: 10 us there. A stream at rest keeps 64 places of its
//! queue; its bounds ([`StreamOptions`]) limit what it may keep otherwise.
//!
//! # Threads
//! [`Pool::spawn`] has threads of its own; [`Pool::new`] gives out [`Lane`]s to be run, or stepped, on threads of the caller's.
//! A stream is queued for the lane that had it last. A lane without work takes a whole stream from another's list, busy or
//! not run at all, and keeps it. Whatever waits is a future without a runtime, with a `wait` for threads: [`Reply`],
//! [`Drain`], [`Room`]. A lane's own thread must not `wait` for what lanes do, but may [`run_until`](Lane::run_until) it.
//!
//! Which lanes on which CPUs, and for which shard of an index: [`machine`].
//!
//! # How a stream stands
//! Every move is made under the stream's own lock, by the one whom the table names.
//!
//! | state | the value | becomes | by |
//! |---|---|---|---|
//! | idle | in its inbox; nothing is queued | queued | who queues an event or a task, and then lists the stream |
//! | | | removed | who removes it |
//! | queued | in its inbox; on one ready list, or on its way there | running | the lane that took it off the list |
//! | | | removed | who removes it; the lane that finds the list's entry drops it |
//! | running | with a lane; the queue is empty | running with more | who queues: nobody lists it |
//! | | | idle | the lane, when the event in hand is done |
//! | running with more | with a lane | running | the lane, with the last event |
//! | | | queued | the lane at the end of its turn; it lists the stream |
//! | running, with or without more | | failed | the lane, after a panic |
//! | | | leaving | who removes it |
//! | leaving | with a lane | removed | the lane, when the event in hand is done or has panicked |
//! | failed | in its inbox, as the panic left it | removed | who removes it |
//! | removed | with who removed it | | |
//!
//! So a stream that is queued stands on exactly one list, and one that is not stands on none. There are three kinds of lock: each
//! stream's, each list's, and the registry's, which only adding, removing and looking over streams take. No thread holds two
//! of them, nor any while it runs code of a stream, a task or a waker. How lanes sleep without missing anything is said in
//! `schedule.rs`. `loom.rs` tries every interleaving of small scenes, `shuttle.rs` many of the whole pool, `random.rs`
//! every step's place in one thread's schedules, and `tests/lanes.rs` 16 lanes with thousands of streams.
//!
//! # What it is not
//! No executor: a stream's code runs to the end of its slice. No supervisor: a stream that failed stays so until it is removed,
//! and what its engine holds is then to be learned anew. No channel to the feeder: what an apply found out (refused, orphaned,
//! over budget) is the stream's to keep, for a task to read or a channel of its own to carry.

mod drain;
mod handle;
mod idle;
mod inbox;
mod lane;
pub mod machine;
mod metrics;
mod parker;
mod pool;
mod registry;
mod reply;
mod schedule;
mod shared;
mod slot;
mod stream;

#[cfg(all(test, kv_loom))]
mod loom;
#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod random;
#[cfg(test)]
mod scene;
#[cfg(all(test, kv_shuttle))]
mod shuttle;
#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests;

pub use drain::{Drain, Drained};
pub use handle::{Room, StreamHandle};
pub use lane::Lane;
pub use machine::{
    Core, CpuQuota, CpuSet, CpuSetError, LanePlan, Limit, NodeId, Note, PlacementError, PlacementOptions, Plan, ShardPlan,
    Source, Topology, TopologyError, Unused, Wanted, pin, place, topology,
};
pub use metrics::{Counts, LaneMetrics, PoolMetrics, StreamMetrics};
pub use pool::{Ending, Pool, PoolError, Remains};
pub use reply::{Lost, Reply};
pub use stream::{Failure, Load, Refusal, Refused, Retired, Stream, StreamId, StreamOptions, StreamState};
