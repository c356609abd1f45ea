//! Why a question to a worker brought nothing.

use std::error::Error;
use std::fmt;

/// A question to a worker, for its loads or its health, that brought nothing. Which kind it is decides what liveness is told.
#[derive(Debug)]
pub struct PollError {
    failure: PollFailure,
    cause: Box<dyn Error + Send + Sync>,
}

/// How a question failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PollFailure {
    /// The connection was refused or reset; gRPC's unavailable, unknown, cancelled or aborted. Casts doubt on the worker.
    Transport,
    /// No answer in time. Casts none: an engine in a long prefill answers late.
    Late,
    /// An answer that is an error, or tells nothing. Casts none either.
    Engine,
    /// The worker has no such call. It is not asked again.
    Unsupported,
}

impl PollError {
    /// An error of this kind.
    pub fn new(failure: PollFailure, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { failure, cause: cause.into() }
    }

    /// The connection was refused or reset.
    pub fn transport(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(PollFailure::Transport, cause)
    }

    /// The answer was an error, or tells nothing.
    pub fn engine(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(PollFailure::Engine, cause)
    }

    /// How it failed.
    pub fn failure(&self) -> PollFailure {
        self.failure
    }
}

impl fmt::Display for PollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.failure {
            PollFailure::Transport => "the connection failed",
            PollFailure::Late => "no answer in time",
            PollFailure::Engine => "the answer is an error",
            PollFailure::Unsupported => "there is no such call",
        };
        write!(f, "{what}: {}", self.cause)
    }
}

impl Error for PollError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.cause)
    }
}
