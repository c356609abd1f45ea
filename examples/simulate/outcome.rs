//! What became of one request.

use std::time::Duration;

/// One request's times and tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Which engine served it.
    pub engine: usize,
    /// From its arrival to its first token; none if that never came.
    pub ttft: Option<Duration>,
    /// From its first token to its last; none if that never came.
    pub rest: Option<Duration>,
    /// Tokens of its prompt.
    pub prompt_tokens: usize,
    /// Of those, what the engine had.
    pub cached_tokens: usize,
    /// What the best engine had when it arrived.
    pub oracle_tokens: usize,
    /// Tokens of its answer.
    pub output_tokens: usize,
}
