//! Why a replay cannot start or end properly. Failed requests are not errors, they are counted.

use std::path::PathBuf;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A row of a trace is not one.
    #[error("{}:{line}: {reason}", path.display())]
    Row {
        /// The trace.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What was expected and what came.
        reason: String,
    },
    /// Nothing is left to send.
    #[error("{}: no rows are left of {rows} after skipping {skip}", path.display())]
    NoRows {
        /// The trace.
        path: PathBuf,
        /// Rows in the trace.
        rows: usize,
        /// Rows that were to be skipped.
        skip: usize,
    },
    /// An option is out of range.
    #[error("--{option} must be {expected}, got {got}")]
    Option {
        /// Its long name.
        option: &'static str,
        /// The values that it takes.
        expected: &'static str,
        /// The value that came.
        got: String,
    },
    /// The gateway does not answer the question for its models.
    #[error("{url} does not say which model it serves ({reason}); is it running? --model sets one")]
    NoModel {
        /// What was asked.
        url: String,
        /// What came instead.
        reason: String,
    },
    /// An address given with `--admin` has no request log.
    #[error("{url} has no request log of mock engines: {reason}")]
    NoLog {
        /// What was asked.
        url: String,
        /// What came instead.
        reason: String,
    },
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client: {0}")]
    Client(#[from] reqwest::Error),
}
