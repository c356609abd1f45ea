//! One event model for every engine's wire.
#![forbid(unsafe_code)]

#[cfg(feature = "zmq")]
pub mod adapter;
pub mod admission;
pub mod copies;
pub mod dialect;
pub mod engine_hash;
pub mod event;
pub mod ingest;
pub mod limits;
pub mod loss;
pub mod namespace;
pub mod normalize;
mod orphans;
pub mod profile;
pub mod tier;
pub mod wire;

pub use admission::{Cursor, Verdict};
pub use copies::CopyRule;
pub use dialect::{Caveat, Dialect};
pub use event::{Batch, Cleared, EngineHash, Event, ExtraKey, Layout, Removed, Stored, Tokens};
pub use ingest::{Counts, Stream, StreamOptions};
pub use loss::{Loss, Losses};
pub use profile::{Prediction, Predictor, Profile};
pub use tier::{Tier, Tiers};
