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
//! # An embedder, whole
//! ```
//! use kv_index::{Block, BlockName, ChainIndex, ContentHash, Index, Matches, Removed, StoreError, Stored, View, Worker, WorkerId};
//!
//! /// What an engine announced: its names of some blocks, and our hashes of their content.
//! fn blocks(announced: &[(u64, u64)]) -> Vec<Block> {
//!     announced.iter().map(|&(name, content)| Block::named(BlockName(name), ContentHash(content))).collect()
//! }
//!
//! /// Who holds most of the prompt, and how many of its blocks that is.
//! fn best(index: &ChainIndex, prompt: &[ContentHash], matches: &mut Matches) -> Option<(u32, Vec<WorkerId>)> {
//!     index.find(prompt, matches);
//!     // Levels come deepest first, and whoever reads one does not pay for the rest.
//!     let deepest = matches.levels().next()?;
//!     Some((deepest.depth, deepest.holders().map(|(worker, _view)| worker).collect()))
//! }
//!
//! let index = ChainIndex::new();
//! // One for each stream of events: it is that stream's only writer, and may go to the thread that applies it.
//! let (mut left, mut right) = (index.add_worker()?, index.add_worker()?);
//! // Used again for every event and every request.
//! let (mut stored, mut removed, mut matches) = (Vec::new(), Vec::new(), Matches::new());
//!
//! // Both engines hold a system prompt of two blocks. They need not agree on the names.
//! left.store(View::MAIN, None, &blocks(&[(0xa1, 1), (0xa2, 2)]), &mut stored)?;
//! right.store(View::MAIN, None, &blocks(&[(0xb1, 1), (0xb2, 2)]), &mut stored)?;
//! // One of them has read a question after it.
//! left.store(View::MAIN, Some(BlockName(0xa2)), &blocks(&[(0xa3, 3)]), &mut stored)?;
//! assert_eq!(stored, [Stored::New]);
//! // Whose parent was never announced has no place: keep the event until the parent comes, or learn the stream anew.
//! let orphan = right.store(View::MAIN, Some(BlockName(0xee)), &blocks(&[(0xb9, 9)]), &mut stored);
//! assert_eq!(orphan, Err(StoreError::ParentNotHeld { parent: BlockName(0xee) }));
//!
//! // A request for these blocks, from any number of threads at a time.
//! let prompt = [1, 2, 3, 4].map(ContentHash);
//! assert_eq!(best(&index, &prompt, &mut matches), Some((3, vec![left.id()])));
//! // The engine evicts the question, and says so twice.
//! left.remove(View::MAIN, &[BlockName(0xa3), BlockName(0xa3)], &mut removed);
//! assert_eq!(removed, [Removed::Removed, Removed::Unknown]);
//! assert_eq!(best(&index, &prompt, &mut matches), Some((2, vec![left.id(), right.id()])));
//! // It is shut down: what it held goes with its handle.
//! drop(left);
//! assert_eq!(best(&index, &prompt, &mut matches), Some((2, vec![right.id()])));
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
//! [`ChainIndex`] keeps every chain once, however many workers hold it, in segments of up to 64 places. What a worker holds of a
//! segment is one mask, so nothing ever splits: an eviction clears a bit, and a store that heals a hole sets it again. Where engines
//! agree on names (SGLang always, vLLM's SHA-256 with one seed), one table leads from a name to its place for all of them; a worker
//! that names blocks in its own way keeps its names for itself, and is as exact.
//!
//! # What a lookup beside a writer may see
//! A lookup takes no lock and writes nothing that others see. With no writer running it is exact. Beside running writers:
//! * Every place that it counted for a view was covered by that view at some moment of the lookup, and the place where it
//!   stopped was not at some moment; not all of them at one moment. A store of a hundred blocks may be seen by half.
//! * It never mixes workers: when the id of a worker that left goes to another, lookups that saw the change begin again.
//! * It never waits for a writer, not even one that stands still in the middle. When one changed the structure of what is being
//!   read it looks again, which takes that writer's progress; [`Matches::retries`] says how often.
//!
//! Writers of different workers meet at the lock of one segment at a time. What a worker alone knows ([`Index::digest`],
//! [`Index::for_each_holding`]) waits for that worker's writer.
//!
//! # What it takes
//! Measured on x86-64 with chains of 4 to 1,000 blocks and 1 to 128 holders, within some 20 % beyond a megabyte:
//!
//! ```text
//! bytes = 26 x blocks                                 content and name, 16, and about 10 in the table of names, which doubles
//!       + 100 x segments                              one for each 64 blocks of a chain, and for each chain's rest
//!       + 8 x segments that a worker holds            added up over the workers: not for each block
//!       + 18 x blocks that a worker names otherwise   likewise
//! ```
//!
//! So two million memberships take 3 MB where 128 workers share prompts of 70 blocks 20 at a time, and 43 MB where hardly anybody
//! shares anything. An empty index takes 36 kB, and memory goes back when content does. [`ChainIndex::stats`] tells the bytes; a
//! [budget](ChainOptions::budget_bytes) refuses a store before it begins. It is checked against what the store needs by itself:
//! the table of names, which is in two places while it grows, may pass it by up to two thirds meanwhile.
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
pub use matches::{Holders, Level, Match, Matches, Rows, Runs};
pub use reference::{ReferenceIndex, ReferenceWorker};
pub use sharded::{Sharded, ShardedWorker};
pub use words::{Block, BlockName, ContentHash, Digest, Holding, Removed, Stored, View, WorkerId};
