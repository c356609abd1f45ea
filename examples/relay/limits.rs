//! The bounds of the relay's program; those of what it keeps are in `kv_events::limits`.

use std::time::Duration;

/// How long readers' streams may take to end after Ctrl-C or SIGTERM.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// How often a summary is logged.
pub(super) const SUMMARY_EVERY: Duration = Duration::from_mins(1);
