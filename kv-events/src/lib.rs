//! One event model for every engine's wire.
#![forbid(unsafe_code)]

#[cfg(feature = "zmq")]
pub mod adapter;
pub mod event;
pub mod limits;
pub mod loss;
pub mod wire;

pub use event::{Batch, Cleared, EngineHash, Event, ExtraKey, Layout, Removed, Stored, Tokens};
pub use loss::{Loss, Losses};
