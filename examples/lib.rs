//! What the example programs share.
#![forbid(unsafe_code)]

pub mod mock_engine;
pub mod replay;
