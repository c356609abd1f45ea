//! The bounds of the relay's program; those of what it keeps are in `kv_events::limits`.

use std::time::Duration;

/// How long readers' streams may take to end after Ctrl-C or SIGTERM.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// How long the engine may take to say how busy it is: as long as a router would wait.
pub(super) const POLL_MAX: Duration = Duration::from_secs(3);

/// Polls in a row that may fail before the last load that was told is not passed on any more.
pub(super) const FAILURES_MAX: u32 = 3;

/// How often a summary is logged.
pub(super) const SUMMARY_EVERY: Duration = Duration::from_mins(1);
