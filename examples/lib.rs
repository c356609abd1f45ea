//! What the example programs share.
#![forbid(unsafe_code)]

pub mod capture;
pub mod mock_engine;
