//! The time that this crate's state machines are told.

use std::time::Duration;

use tokio::time::Instant;

/// Time since a start, by tokio's clock. All that is told to one worker's tracker, ledger and predictions must be told by one clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begun: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { begun: Instant::now() }
    }

    /// The time since the start.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}
