//! From what engines send to [`Sample`]s. Pure functions of bytes: anything may come, and nothing panics.

pub mod metrics;
mod prometheus;
mod record;
pub mod sglang;

use thiserror::Error;

pub use record::{engine_silence, record, record_report};

use super::Sample;
use crate::limits::LOAD_BODY_BYTES_MAX;
use crate::liveness::Report;

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

impl Loads {
    /// What a poll's answer says of the worker's life, for [`Tracker::handle_load_report`](crate::liveness::Tracker::handle_load_report): the
    /// sum over ranks, without what is no number.
    pub fn report(&self) -> Report {
        let sum = |value: fn(&Sample) -> f64| {
            let values = self.ranks.iter().map(|(_, sample)| value(sample));
            values.filter(|value| value.is_finite()).map(|value| value.max(0.0)).sum::<f64>()
        };
        let (running, waiting) = (sum(|sample| sample.running), sum(|sample| sample.waiting));
        Report { running: count(running), waiting: count(waiting), pushed: false, engine: None }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` takes what is out of range for the nearest")]
fn count(value: f64) -> u32 {
    value as u32
}

fn within_bounds(body: &[u8]) -> Result<(), WireError> {
    let (limit, got) = (LOAD_BODY_BYTES_MAX, body.len());
    if got > limit { Err(WireError::TooLong { limit, got }) } else { Ok(()) }
}
