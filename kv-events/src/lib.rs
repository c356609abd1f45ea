//! What LLM engines announce about their KV caches, from bytes to an index: exactly, and never silently wrong.
//!
//! ```
//! use kv_events::wire::decode_batch;
//! use kv_events::{Stream, StreamOptions};
//! use kv_index::{Index, ReferenceIndex, View};
//!
//! let index = ReferenceIndex::new();
//! let mut stream = Stream::new(index.add_worker()?, StreamOptions::default());
//! // [timestamp, [["BlockStored", hashes, parent, tokens, block size, LoRA, medium]], rank]
//! let payload = b"\x93\xca\0\0\0\0\x91\x97\xabBlockStored\x91\x07\xc0\x94\x01\x02\x03\x04\x04\xc0\xa3GPU\x00";
//! stream.apply(&decode_batch(payload));
//! assert_eq!(index.digest(stream.worker(), View::MAIN).count, 1);
//! # Ok::<(), kv_index::WorkersExhausted>(())
//! ```
//!
//! # The way of an event
//! | step | module | what it decides |
//! |---|---|---|
//! | decode | [`wire`] | what the bytes say, field by field; a bad field costs its event only |
//! | admit | [`admission`] | whether the batch is new and of the life that is followed, what is missing before it, and what the result is worth |
//! | normalize | [`normalize`] | tier, cache group, namespace, places and content; a reason for all that is left out |
//! | count | [`copies`] | when the last copy of a block is gone |
//! | apply | [`ingest`] | the change of the index worker; stores without their parent wait |
//! | check | [`hash_check`] | whether the engine hashes its blocks as it is believed to; on request |
//! | explain | [`doctor`] | why predictions are wrong, by what all of these count |
//! | relay | [`relay`] | what a reader that comes late, lags or returns must be told; runs beside the engine, before all of these |
//! | look up | [`profile`] | how a prompt must be cut for this stream, and how much of it will be reused |
//!
//! A [`Stream`] holds what belongs to one data-parallel rank and takes admitted batches; a [`Follower`] admits them. Neither
//! has a clock, a socket or a thread.
//!
//! # What it promises
//! * The index holds what the engine holds: duplicate copies, two tiers and cache groups are counted apart.
//! * What a wire cannot say is a [`Caveat`] of the stream's [`Profile`], and requests that it concerns are not called exact.
//! * Where it may not, because batches were lost or a publisher may have started again unseen, the stream's [`Trust`] says so.
//! * Every event that is not used is counted under a [`Loss`].
//! * Bytes of any kind neither panic nor allocate beyond [`limits`].
//!
//! # What it is not
//! It does not connect to anything in its default features (on tokio, `zmq` adds a subscriber and a replay client, `grpc` a relay's
//! server and client, and `tokio` alone a task that drives a relay), and it does not choose a worker: `kv-routing` does.
#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
pub mod adapter;
pub mod admission;
pub mod copies;
pub mod dialect;
pub mod doctor;
pub mod engine_hash;
pub mod event;
pub mod hash_check;
pub mod ingest;
pub mod limits;
pub mod loss;
pub mod namespace;
pub mod normalize;
mod orphans;
mod position;
pub mod profile;
pub mod relay;
mod sparse;
pub mod tier;
pub mod wire;

pub use admission::{Cursor, Delivery, Follower, ReplayOutcome, Source, Trust, Verdict};
pub use copies::CopyRule;
pub use dialect::{Caveat, Dialect};
pub use event::{Batch, Cleared, EngineHash, Event, ExtraKey, Layout, Removed, Stored, Tokens};
pub use hash_check::{HashCheck, HashCounts, Hashing};
pub use ingest::{Counts, Stream, StreamOptions};
pub use loss::{Loss, Losses};
pub use position::{Incarnation, Position};
pub use profile::{Prediction, Predictor, Profile};
pub use tier::{Tier, Tiers};
