//! The chain index.
#![forbid(unsafe_code)]

mod words;

pub use words::BlockName;
