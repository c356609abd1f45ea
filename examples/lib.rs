//! What the example programs share.
#![forbid(unsafe_code)]

pub mod capture;
pub mod client;
pub mod gateway;
pub mod mock_engine;
pub mod relay;
pub mod replay;
mod signals;
pub mod simulate;

/// The README, whose code is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
