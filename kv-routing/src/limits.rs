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

/// The shortest prefill that says something of its rate, in tokens. Of a prompt that is all but cached, the time to the first token is
/// queueing and one step, and would pass for a prefill of a few tokens a second.
pub const TIMED_PROMPT_MIN: u64 = 512;

/// Most workers of one fleet: ten times the largest known.
pub const WORKERS_MAX: usize = 1 << 16;

/// Most transitions that wait to be polled: one for each worker.
pub const TRANSITIONS_MAX: usize = WORKERS_MAX;

// What is known of each worker: load.

/// How long a rank's sample counts: a poll's interval of ten seconds, and half of one more for an answer that is late.
pub const FRESH_FOR: Duration = Duration::from_secs(15);

/// What a pushed record takes from its making to its receipt, at least. Rather too much: a request that it does not know yet must not
/// count as known.
pub const TRANSIT: Duration = Duration::from_millis(20);

/// How far times may go back between two calls without the clock having gone back: threads look at the clock before they wait for
/// a lock, and a loaded machine may let them wait.
pub const CLOCK_JITTER: Duration = Duration::from_secs(1);

/// Most data-parallel ranks of one worker: the widest deployments have 256 or so.
pub const RANKS_MAX: usize = 1024;

/// Most requests that a rank can mean to have. Engines run a thousand at a time.
pub const REQUESTS_MAX: f64 = 1e6;

/// Most tokens that a queue can mean to hold: [`REQUESTS_MAX`] prompts of a million tokens.
pub const TOKENS_MAX: f64 = 1e12;

/// Above this, a share of the cache in use is no share (a percentage, perhaps). Somewhat above 1 a lone request overdraws it.
pub const KV_USAGE_MAX: f64 = 2.0;

/// Most tokens that a rank can mean to compute in a second: a hundred times the fastest prefill known.
pub const RATE_MAX_TOKENS_PER_S: f64 = 1e8;

/// Tokens of a waiting prompt that was not sent from here, where an engine tells only how many wait.
pub const QUEUED_PROMPT_TOKENS: u64 = 1_024;

/// Most prompts of one worker that are told apart until their first tokens. Beyond that, the oldest count together, and as known to the
/// worker.
pub const CREDITS_MAX: usize = 8_192;

/// The longest load endpoint's body that is read, in bytes. vLLM's and SGLang's `/metrics` have some 100 kB, a hundred ranks' ten times that.
pub const LOAD_BODY_BYTES_MAX: usize = 16 << 20;

// What is known of each worker: accounting.

/// Most prefixes with predicted placements: a prompt has some ten of them, so thousands of prompts without a first token, some 10 MB.
pub const PREDICTION_KEYS_MAX: usize = 1 << 16;

/// Most workers that one prefix is predicted at. Who would be the fifth replaces the one whose prediction ends first.
pub const PREDICTION_WORKERS_MAX: usize = 4;

/// How long a prediction holds whose request is never heard of again: as long as a client waits for its first token.
pub const PREDICTION_TTL: Duration = Duration::from_mins(1);

/// How long after a prompt's first token its cache events may take to come. Engines publish with the step; a relay adds milliseconds.
pub const SETTLE_AFTER: Duration = Duration::from_secs(1);

// What is known of each worker: overload and warm-up.

/// Waiting requests at which a worker has too much: about what an engine lets start with one step.
pub const OVERLOAD_WAITING: u32 = 8;

/// The share of the KV cache in use at which a worker has too much: beyond it, engines begin to preempt.
pub const OVERLOAD_KV_USAGE: f64 = 0.8;

/// What a request that is turned away is told to wait: the interval of load polls.
pub const RETRY_AFTER: Duration = Duration::from_secs(10);

/// How long a worker that has come, or returned, is young.
pub const YOUNG_FOR: Duration = Duration::from_mins(1);

/// The share of misses that goes to workers that are warmed: enough to fill one within minutes, and three of four misses still go where
/// load says.
pub const WARMUP_SHARE: f64 = 0.25;

/// A cache of so many blocks is one: 16,384 tokens at 16 a block, some long prompts.
pub const WARMUP_BLOCKS: u64 = 1_024;

/// Who has less than this share of what the others have is thin.
pub const WARMUP_THIN_RATIO: f64 = 0.5;

/// Hits from one diversion to the next: so rare that the fleet's reuse hardly suffers.
pub const WARMUP_DIVERT_EVERY: u32 = 8;

/// A request of which nobody holds more than this share is a miss: affinity would save little.
pub const MISS_SHARE: f64 = 0.3;

/// A request of which nobody holds more than so many blocks is a miss too, if they are less than half of it: a shared chat template is no
/// prefix of one's own.
pub const MISS_BLOCKS: u64 = 4;

/// How long a worker with requests under way takes no second diversion: until the first one's blocks show in the index.
pub const DIVERSION_REST: Duration = Duration::from_secs(2);

/// How often the index is asked for its workers' sizes.
pub const SIZES_EVERY: Duration = Duration::from_secs(1);
