//! From what engines send to [`Sample`]s. Pure functions of bytes: anything may come, and nothing panics.

pub mod metrics;
mod prometheus;
mod record;
pub mod sglang;

use thiserror::Error;

pub use record::{engine_silence, record};

use super::Sample;
use crate::limits::LOAD_BODY_BYTES_MAX;

/// The ranks that a body tells of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loads {
    /// Each rank once, ascending.
    pub ranks: Vec<(u16, Sample)>,
    /// Lines or entries that tell of load, but not of which rank, or not what.
    pub unreadable: u64,
}

/// A body that tells nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// It is too long to be read.
    #[error("a load body of at most {limit} bytes was expected, got {got}")]
    TooLong {
        /// The most that is read.
        limit: usize,
        /// What came.
        got: usize,
    },
    /// It is not JSON.
    #[error("JSON was expected: {0}")]
    NotJson(String),
    /// Nothing of it is known.
    #[error("{0} was expected, and is not there")]
    NoLoad(&'static str),
}

fn within_bounds(body: &[u8]) -> Result<(), WireError> {
    let (limit, got) = (LOAD_BODY_BYTES_MAX, body.len());
    if got > limit { Err(WireError::TooLong { limit, got }) } else { Ok(()) }
}
