//! A fleet under a production trace: what a router looks up and what the engines announce, generated once, in memory.

mod engine;
mod fleet;
mod trace;

pub use fleet::{Replay, Step};
pub use trace::{Row, folder, read};

/// Tokens of an engine's block: vLLM's usual size.
pub const BLOCK_TOKENS: u32 = 16;
/// Tokens behind one hash id of the trace.
pub const TRACE_BLOCK_TOKENS: u32 = 512;
