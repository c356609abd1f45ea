//! What the example programs share.
#![forbid(unsafe_code)]

pub mod capture;
pub mod gateway;
pub mod mock_engine;
