//! Every bound of the replay, with its reason.

use std::time::Duration;

/// Latest due time. A month of waiting is a wrong speedup or a trace whose unit is not milliseconds.
pub(super) const DUE: Duration = Duration::from_hours(24 * 31);

/// Requests in flight: one address has no more ports to connect from.
pub(super) const INFLIGHT: usize = 1 << 16;

/// Bytes of one line of a trace. The longest prompt of the published ones has 374 hash ids.
pub(super) const LINE_BYTES: usize = 1 << 20;

/// Bytes of one server-sent event; the largest ones are usage chunks of a few hundred bytes.
pub(super) const EVENT_BYTES: usize = 4 << 20;

/// How much of a refusal's body is kept to show.
pub(super) const REFUSAL_CHARS: usize = 200;

/// Entries asked of the request log at once.
pub(super) const LOG_PAGE: usize = 10_000;

/// How long a side question (models, workers, log pages) may take.
pub(super) const SIDE_CALL: Duration = Duration::from_secs(10);

/// Workers that the comparison simulates at most: each needs a cache of its own.
pub(super) const WORKERS: usize = 4_096;
