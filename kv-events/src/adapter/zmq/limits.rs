//! The bounds of the ZeroMQ adapter, each with its reason.

use std::time::Duration;

use crate::limits::PAYLOAD_BYTES_MAX;
pub use crate::limits::{REPLAY_MAX, REPLAY_SILENCE_MAX};

/// Most bytes of one message, all frames together: a payload that the decoder would take, and room for the small ones beside.
pub const MESSAGE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 4096;

/// Most frames of one message. The longest that an engine sends is a replay answer's four (five with a ROUTER's identity).
pub const FRAMES_MAX: usize = 16;

/// Longest ZMTP command, in bytes. READY with a 255-byte identity needs some 320; PING and SUBSCRIBE less.
pub const COMMAND_BYTES_MAX: usize = 4096;

/// Bytes asked of the kernel in one read: a whole vLLM step most of the time, and no more than that for an idle connection.
pub const READ_BYTES: usize = 64 << 10;

/// Messages that a [`Subscriber`](super::Subscriber) keeps for its reader: 80 s of an engine that makes 100 steps a second.
pub const QUEUE_MESSAGES_MAX: usize = 8192;

/// Bytes that a [`Subscriber`](super::Subscriber) keeps for its reader: four of the largest messages, thousands of ordinary ones.
pub const QUEUE_BYTES_MAX: usize = 256 << 20;

/// Messages that one replay may bring: ten times the `buffer_steps` that engines have by default (10,000).
pub const REPLAY_MESSAGES_MAX: usize = 100_000;

/// Bytes that one replay may bring. 10,000 batches of 100 kB, twenty times a full prefill step of 8,192 tokens, are 1 GB.
pub const REPLAY_BYTES_MAX: usize = 1 << 30;

/// How long a connection may take, name lookup, TCP and ZMTP handshake together. libzmq answers at once, even if Python is busy.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// How long a peer may take to read the few bytes that we send it.
pub const WRITE_MAX: Duration = Duration::from_secs(5);

/// Connections that may be in their handshake at once on a bound endpoint; more wait in the kernel's backlog.
pub const HANDSHAKES_MAX: usize = 8;

/// First pause before connecting again.
pub const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// Longest pause before connecting again: a restarted engine takes 30 s to load, so 5 s more does not matter.
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Silence after which a peer that knows ZMTP 3.1 is asked for a sign of life.
pub const PING_AFTER: Duration = Duration::from_secs(5);

/// Pings without any answer after which the link counts as broken: 20 s of silence with [`PING_AFTER`].
pub const PINGS_UNANSWERED_MAX: u32 = 3;
