//! Which worker of an LLM fleet holds which prefix of KV-cache blocks: exactly, and without asking the worker.
//!
//! Engines such as vLLM and SGLang keep the KV cache of prompts they have seen and announce, block by block, what enters
//! and leaves it. An index takes these announcements in, a [`Worker`] handle for each stream of them, and answers for a
//! new prompt how many of its first blocks each worker holds.
//!
//! ```
//! use kv_index::{Block, BlockName, ChainIndex, ContentHash, Index, Matches, View, Worker};
//!
//! let index = ChainIndex::new();
//! let mut worker = index.add_worker()?;
//! // The engine's names of two blocks beside our hashes of their content.
//! let blocks = [Block::named(BlockName(0xa1), ContentHash(1)), Block::named(BlockName(0xa2), ContentHash(2))];
//! worker.store(View::MAIN, None, &blocks, &mut Vec::new())?;
//!
//! let mut matches = Matches::new();
//! index.find(&[ContentHash(1), ContentHash(2), ContentHash(3)], &mut matches);
//! assert_eq!(matches.depth(worker.id(), View::MAIN), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Words
//! A *block* has a *name* (the engine's own hash, [`BlockName`]) and a *content hash* (ours, [`ContentHash`]). A *place* is
//! a path of content hashes from the root. A *worker* is one stream of events: a data-parallel rank of an engine. A
//! *view* is a storage tier or a cache group of a worker, scored apart. Names and places belong to the worker;
//! holdings belong to a view. A view *covers* a place while it holds at least one name there.
//!
//! # What it promises
//! The thirteen rules at the head of [`index`]. Holes, twins, moved names, names that disagree between workers, and
//! names that collide are ordinary input. [`ReferenceIndex`] is the rules written down as code; every other index is
//! tested against it with the operations of `testing` (feature `testing`).
//!
//! # The chain index
//! [`ChainIndex`] keeps every chain once, however many workers hold it, in segments of up to 64 places. A place costs 16 bytes
//! (content and name) and about 9 in the table of names; a worker that holds a segment costs it one to four bytes. So
//! `blocks x 27 + workers' segments x 4` bytes is a fair guess where engines agree on names (SGLang always does, and vLLM's SHA-256
//! with one seed); where they do not, each worker's own names take some 18 bytes a block more. Nothing ever splits: an eviction
//! clears a bit.
//!
//! A lookup takes no lock and writes nothing that others see. Beside running writers it counts only what was covered at some
//! moment of the lookup, and stops only where something was not; it looks again when a writer changed the structure under
//! it ([`Matches::retries`] says how often), which some writer's progress pays for. Writers of different workers meet at the lock
//! of one segment at a time. What a worker alone knows ([`Index::digest`], [`Index::for_each_holding`]) waits for that worker's
//! writer, and a budget ([`ChainOptions::budget_bytes`]) refuses a store before it begins.
//!
//! # Threads
//! None that the caller did not ask for. [`lanes`] applies many streams' events on a few threads, each stream's in order.
//!
//! # Several memory nodes
//! [`Sharded`] keeps one complete index for each memory node of the machine, and a worker in one of them. [`lanes`] says how
//! many threads should apply events, on which CPUs and to which shard: for this machine, or for one that you describe.
//!
//! # Across a restart
//! [`snapshot`] writes what an index holds, worker by worker beside running streams, and loads it whole or not at all: into the
//! same router's next life, or into its peer.
//!
//! # What it is not
//! It has no runtime, no clock, and no I/O but for reading the machine's layout when asked to, and for snapshots through what the
//! caller reads and writes with. It does not read engines'
//! events (`kv-events` does) and does not choose a worker (`kv-routing` does). It never guesses: what a worker's stream did
//! not say, the index does not know.
//!
//! # Features
//! `testing`: operations, generators and an equality check for whoever writes an index or embeds one. `hwloc`: the
//! machine's layout from the library hwloc, which must be there to build; without it, Linux's `/sys` is read.
#![deny(unsafe_code)]

#[expect(clippy::cast_possible_truncation, reason = "places, slots and offsets are packed into words by shifts")]
mod chain;
pub mod error;
pub mod hash;
pub mod index;
pub mod lanes;
pub mod limits;
mod matches;
#[expect(clippy::cast_possible_truncation, reason = "fields are packed into words by shifts")]
mod raw;
pub mod reference;
pub mod reuse;
mod sharded;
pub mod snapshot;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
mod words;

pub use chain::{ChainIndex, ChainOptions, ChainStats, ChainWorker};
pub use error::{ShardRefusal, ShardsOutOfRange, StoreError, ViewsExhausted, WorkersExhausted};
pub use hash::{Item, Namespace, Scheme};
pub use index::{Index, Worker};
pub use matches::{Level, Match, Matches, Runs};
pub use reference::{ReferenceIndex, ReferenceWorker};
pub use sharded::{Sharded, ShardedWorker};
pub use words::{Block, BlockName, ContentHash, Digest, Holding, Removed, Stored, View, WorkerId};
