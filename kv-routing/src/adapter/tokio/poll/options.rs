//! How often an engine is asked, and how long for.

use std::time::Duration;

use crate::limits::{LOAD_POLL_EVERY, LOAD_POLL_MAX, LOAD_POLL_PAUSE_MIN, LOAD_RETRY_AFTER};

/// How often an engine is asked, and how long an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollOptions {
    /// From one question to the next, and how long a rank that pushes may be silent before it is asked.
    pub interval: Duration,
    /// How long an answer may take.
    pub deadline: Duration,
    /// After a question without an answer, the pause before the next; it doubles each time, up to the interval.
    pub retry: Duration,
}

impl PollOptions {
    /// The same, without pauses that would be no pauses.
    pub(super) fn bounded(self) -> Self {
        let interval = self.interval.max(LOAD_POLL_PAUSE_MIN);
        Self { interval, retry: self.retry.clamp(LOAD_POLL_PAUSE_MIN, interval), ..self }
    }
}

impl Default for PollOptions {
    fn default() -> Self {
        Self { interval: LOAD_POLL_EVERY, deadline: LOAD_POLL_MAX, retry: LOAD_RETRY_AFTER }
    }
}
