//! What a decision is made from.

use serde::{Deserialize, Serialize};

/// The request to place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Tokens of the prompt; 0 when they are not known, which leaves only load to decide.
    pub prompt_tokens: u64,
}

/// One worker that could serve it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The caller's number for the worker.
    pub worker: u32,
    /// Tokens of the prompt that the worker will reuse, as predicted.
    pub overlap_tokens: u64,
    /// The worker may not have all of it any more, as after a loss of its events: the overlap is discounted.
    pub degraded: bool,
    /// Whether it may be chosen: alive, not vetoed, not shed.
    pub ready: bool,
    /// How busy it is.
    pub load: Load,
}

/// How busy a worker is, as far as the caller knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Requests that it has not answered completely.
    pub in_flight: u32,
    /// Prompt tokens that it must still compute before it can start on a new prompt.
    pub queued_tokens: u64,
}

impl Default for Candidate {
    fn default() -> Self {
        Self { worker: 0, overlap_tokens: 0, degraded: false, ready: true, load: Load::default() }
    }
}
