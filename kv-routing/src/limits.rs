//! Every bound and every default constant of this crate, with its reason.

use std::time::Duration;

// Costs and choosing.

/// Costs closer together than this are equal, in seconds. Far below anything that a request could notice, and far above the
/// rounding of sums of a few costs.
pub const TIE_S: f64 = 1e-6;

/// No part of a cost is further from 0, in seconds, so that sums stay numbers whatever stands in a configuration. Some thirty years.
pub const COST_MAX_S: f64 = 1e9;

/// Tokens that an engine prefills in a second at least, however little was measured: a fleet that is asked for little measures little.
/// Chosen low: too low a rate overrates reuse, which sends a request to a busier engine that has its prefix; too high a rate
/// ignores reuse.
pub const PREFILL_TOKENS_PER_S: f64 = 10_000.0;

/// The lowest rate that is believed: 0, a negative one or none at all would make costs that are no numbers, and a record that
/// holds one cannot be read back.
pub const TOKENS_PER_S_MIN: f64 = 1.0;

/// What a pass of an engine costs by itself, in prompt tokens. On the accelerator and the model that `examples/mock_engine/timing.rs` was
/// fitted to, 16.5 ms, in which 670 tokens are computed at the pace of passes of 2,048. Without it, `examples/simulate` has 74 % of the
/// requests of "one hot prefix, 15 % more" in time, with it all.
pub const PASS_TOKENS: f64 = 512.0;

/// How many times faster or slower than the fleet's mean a worker is believed to be. Two generations of accelerators differ by
/// less; what looks slower was asked for little.
pub const RATE_SPREAD: f64 = 2.0;

/// Uncached tokens of a request in the queue of an engine that counts requests only: a middling prompt that is half cached.
pub const WAITING_TOKENS: f64 = 1_024.0;

/// What a worker costs whose KV memory is half in use, in seconds; at 0.95 it is 19 times as much. Small, because a report of memory
/// is old when it matters, and everybody who trusts it goes to the same worker: with 0.15, `examples/simulate` has 78 % of requests in
/// time under memory pressure and reports that are 5 s old, with 0.01 it has 98 %.
pub const PRESSURE_S: f64 = 0.01;

/// The highest KV usage that is believed: the price of a full worker is a number, and differences between full ones say little.
pub const KV_USAGE_BELIEVED_MAX: f64 = 0.95;

/// How far a worker's requests in flight, over the fleet's mean, change the price of its memory.
pub const COMPANY_SPREAD: f64 = 4.0;

/// What one more running request adds to another's wait, in seconds: it lengthens each step of the batch a little.
pub const IN_FLIGHT_S: f64 = 0.002;

/// What a token that a request keeps in memory counts, over a token that must be computed.
pub const KEPT_WEIGHT: f64 = 0.4;

/// What a token in host memory saves of a token on the device: copying it in takes a fraction of computing it.
pub const HOST_WEIGHT: f64 = 0.8;

/// What a token on disk saves. Reading is slower than a copy, and still faster than computing on most machines.
pub const DISK_WEIGHT: f64 = 0.5;

/// How much of a prediction is believed: the request that it rests on may fail, or wait.
pub const PREDICTED_WEIGHT: f64 = 0.9;

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

/// First blocks of a placed prompt that siblings are compared with, 8 bytes each: 32,768 tokens at 16 a block. A full table of prompts
/// that long has 100 MB of them, one of the median of chat traffic (84 blocks) 5 MB.
pub const PREDICTION_BLOCKS_MAX: usize = 2_048;

/// How long a prediction holds whose request is never heard of again: as long as a client waits for its first token.
pub const PREDICTION_TTL: Duration = Duration::from_mins(1);

/// How long after a prompt's first token its cache events may take to come. Engines publish with the step; a relay adds milliseconds.
pub const SETTLE_AFTER: Duration = Duration::from_secs(1);

// What is known of each worker: overload and warm-up.

/// Waiting requests above which a worker has too much: about what an engine lets start with one step.
pub const OVERLOAD_WAITING: u32 = 8;

/// The share of the KV cache in use above which a worker has too much: beyond it, engines begin to preempt.
pub const OVERLOAD_KV_USAGE: f64 = 0.8;

/// How long an account of too much is believed where it only steers. Who is passed over has less to do soon, and the others, to whom
/// all goes, more: with an account that is 5 s old, `examples/simulate` has three of four requests in time under memory pressure.
pub const OVERLOAD_BELIEVED_FOR: Duration = Duration::from_secs(1);

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

/// Load is out of line above this many times the mean of requests in flight,
pub const BALANCE_REL: f64 = 1.5;

/// and this many above the mean. Routers in the field use 64; with that, four prompt heads stay on four of eight engines and every
/// other request is late (`examples/simulate`, "four hot prefixes"), and with 4 all are in time.
pub const BALANCE_ABS: f64 = 4.0;

/// What a second of waiting counts against a second of computing, for short waits. Far below 1: computing what another worker
/// has takes that time from everybody who comes after, and evicts as much; a short wait costs one request its own time.
/// Measured on Mooncake's conversation trace (`benches/records/2026-11-29-queue-weight.md`) and by `examples/simulate`.
pub const WAIT_WEIGHT: f64 = 0.1;

/// Waits are long from about this many times the computing that they save.
pub const PATIENCE_SAVINGS: f64 = 5.0;

/// And this beside, in seconds, where nothing is saved: a few steps of a batch.
pub const PATIENCE_S: f64 = 0.05;

// Large pools.

/// Up to so many workers, all are looked at.
pub const POOL_SCAN_MAX: usize = 32;

/// Workers that are drawn from a larger pool beside those that hold most of the prompt. The least loaded of 16 is among the least
/// loaded sixteenth of the pool with a probability of 64 %, and in the less loaded half all but surely.
pub const POOL_SAMPLE: usize = 16;

/// Draws until the sample is given up: draws of one worker twice are of no use.
pub const POOL_DRAWS_MAX: usize = 32;

/// Holders of one depth that are looked at: more of them differ by load only, and the least loaded of 8 is good enough. Looking at twice
/// as many takes a decision half as long again.
pub const LEVEL_HOLDERS_MAX: usize = 8;

/// Holders that are looked at altogether, deepest first: those of two full levels.
pub const HOLDERS_MAX: usize = 16;

/// Candidates of a hybrid model whose other cache groups are looked up, deepest first. Each takes one lookup for each group.
pub const REFINED_MAX: usize = 8;

/// Workers of one pool. The index has room for more; a decision has been measured up to here.
pub const POOL_WORKERS_MAX: usize = 65_536;

// Sessions.

/// Sessions whose worker is remembered: some 4 MB.
pub const SESSIONS_MAX: usize = 65_536;

// Confirmation.

/// Answers of a worker that are weighed against what was predicted for them. Few enough to notice a change within seconds.
pub const AUDIT_WINDOW: usize = 32;

/// Answers in the window that must disagree in one direction before anything is concluded: one may be a race between an event
/// and an answer.
pub const AUDIT_DISAGREE_MIN: u32 = 3;

/// The share of the tokens in the window that must disagree.
pub const AUDIT_SHARE: f64 = 0.1;

/// Workers that are audited.
pub const AUDIT_WORKERS_MAX: usize = POOL_WORKERS_MAX;

/// The first pause between two demands to learn a worker anew, in seconds; it doubles each time that learning did not help,
pub const RESYNC_PAUSE_S: u64 = 30;

/// and stays below this: learning anew costs a snapshot, and a worker that stays wrong will not become right by it.
pub const RESYNC_PAUSE_MAX_S: u64 = 1_800;

/// Demands that wait for the caller to take them. Beyond, a worker is asked for again when its next answer disagrees.
pub const AUDIT_OUTPUTS_MAX: usize = 1_024;

// Adapters.

/// How often an engine that pushes no loads is asked for them. [`FRESH_FOR`] rests on it.
pub const LOAD_POLL_EVERY: Duration = Duration::from_secs(10);

/// How long an engine may take to tell its loads: beyond, what it tells is too old to be worth the wait.
pub const LOAD_POLL_MAX: Duration = Duration::from_secs(3);

/// The first pause after a poll without an answer; it doubles up to the interval. Short, because for a worker that is passed over an
/// answered poll may be all that ends it.
pub const LOAD_RETRY_AFTER: Duration = Duration::from_millis(500);

/// The shortest pause between two polls of one engine, whatever the options say.
pub const LOAD_POLL_PAUSE_MIN: Duration = Duration::from_millis(100);

/// How long an engine may take to accept a connection: less than a question's deadline, so that a machine that is gone is called that.
pub const GRPC_CONNECT_MAX: Duration = Duration::from_secs(2);

/// HTTP/2 pings on a connection, and how long their answer may take. Servers built on grpc-core end connections with faster ones.
pub const GRPC_KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// The longest answer to `GetLoads` that is read, in bytes: [`RANKS_MAX`] ranks, each with a kB of telemetry. Decoded, an answer of
/// empty entries takes some 40 times as much for a moment.
pub const LOADS_MESSAGE_BYTES_MAX: usize = 1 << 20;

/// How often a server is asked for its health, and
pub const HEALTH_CHECK_EVERY: Duration = Duration::from_mins(1);

/// how long its answer may take: rather long, as a server that computes answers late, and traffic knows sooner.
pub const HEALTH_CHECK_MAX: Duration = Duration::from_secs(30);

/// The longest health answer that is read, in bytes. It has two.
pub const HEALTH_MESSAGE_BYTES_MAX: usize = 1 << 10;
