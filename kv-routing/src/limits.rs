//! Every bound and every default constant of this crate, with its reason.

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
