//! How long is too long.

use std::time::Duration;

use crate::limits::{STALE_AFTER, STALL_AFTER, WEDGE_AFTER};

/// How long is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A worker whose connection failed and that was not heard for so long is unreachable.
    pub stall: Duration,
    /// Streams without progress for so long, and no prefill to explain it, are wedged. `None` never calls anybody so.
    pub wedge: Option<Duration>,
    /// A worker that has pushed load records and was not heard on any channel for so long is unreachable. `None` never is by that.
    pub stale: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self { stall: STALL_AFTER, wedge: Some(WEDGE_AFTER), stale: Some(STALE_AFTER) }
    }
}
