//! Every bound and every default constant of this crate, with its reason.

use std::time::Duration;

/// Costs closer together than this are equal, in seconds. Far below anything that a request could notice, and far above the
/// rounding of sums of a few costs.
pub const TIE_S: f64 = 1e-6;

/// Tokens that an engine prefills in a second, until its own rate is known. Chosen low: too low a rate overrates
/// reuse, which sends a request to a busier engine that has its prefix; too high a rate ignores reuse.
pub const PREFILL_TOKENS_PER_S: f64 = 10_000.0;

/// The lowest rate that is believed: 0, a negative one or none at all would make costs that are no numbers, and a record that
/// holds one cannot be read back.
pub const TOKENS_PER_S_MIN: f64 = 1.0;

/// What one more running request adds to another's wait, in seconds: some decode steps of a batch that is one longer.
pub const IN_FLIGHT_S: f64 = 0.005;

/// What a second of waiting counts against a second of prefill that is saved. Far below 1, because saved prefill shortens every
/// queue behind it and waiting is only this request's. On 2,000 rows of Mooncake's conversation trace over 8 mock engines, 0.1
/// gave a mean TTFT of 41 ms and 98.9 % of the best possible reuse; 1 gave 46 ms and 94.1 %.
pub const QUEUE_WEIGHT: f64 = 0.1;

/// How much of a degraded worker's overlap is believed.
pub const DEGRADED_WEIGHT: f64 = 0.5;

// What is known of each worker: liveness.

/// A worker whose connection failed and that was not heard for so long is unreachable: longer than a reconnection takes, shorter than
/// a client waits.
pub const STALL_AFTER: Duration = Duration::from_secs(2);

/// Streams without progress for so long are wedged, if no prefill explains it: a hundred decode steps.
pub const WEDGE_AFTER: Duration = Duration::from_secs(3);

/// A worker that pushed load records and was not heard for so long is unreachable: three times the five seconds after which an
/// idle stream says something.
pub const STALE_AFTER: Duration = Duration::from_secs(15);

/// The longest silence that prefill can explain. A worker that computes longer is of no use to the next request either.
pub const WEDGE_BOUND_MAX: Duration = Duration::from_mins(2);

/// How often workers are swept. Far below [`STALL_AFTER`], and for 4,096 workers still less than a thousandth of a core.
pub const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// So many streams without progress are a pile; fewer, if more come. One that is slow proves nothing.
pub const PILE_MIN: u32 = 4;

/// The least time of prefill over which its rate is measured: long enough for some prompts.
pub const RATE_WINDOW_MIN: Duration = Duration::from_secs(1);

/// Most workers of one fleet: ten times the largest known.
pub const WORKERS_MAX: usize = 1 << 16;

/// Most transitions that wait to be polled: one for each worker.
pub const TRANSITIONS_MAX: usize = WORKERS_MAX;
