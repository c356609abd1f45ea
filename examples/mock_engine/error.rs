//! What can go wrong when a fleet starts.

use zeromq::ZmqError;

/// Why a fleet did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MockError {
    /// A setting is out of range.
    #[error("mock engine: `{field}` must be {expected}, got {got}")]
    Config {
        /// The field of [`MockConfig`](super::MockConfig).
        field: &'static str,
        /// The values that it takes.
        expected: String,
        /// The value that came.
        got: String,
    },
    /// An address cannot be listened on.
    #[error("mock engine: cannot listen for {purpose} on {address}")]
    Listen {
        /// `HTTP`, `events` or `replay`
        purpose: &'static str,
        /// `host:port`; port 0 is one that the system chooses.
        address: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A ZeroMQ socket refused its listener.
    #[error("mock engine: cannot open the {purpose} socket")]
    Zmq {
        /// `events` or `replay`
        purpose: &'static str,
        /// The library's reason.
        source: ZmqError,
    },
    /// A calibration file cannot be used.
    #[error("mock engine: {path}: {reason}")]
    Calibration {
        /// The file.
        path: String,
        /// What is wrong with it, with line and column where known.
        reason: String,
    },
}
