//! Every bound and every default constant of this crate, with its reason.

/// Costs closer together than this are equal, in seconds. Far below anything that a request could notice, and far above the
/// rounding of sums of a few costs.
pub const TIE_S: f64 = 1e-6;

/// Tokens that an engine prefills in a second, until its own rate is known. Chosen low: too low a rate overrates
/// reuse, which sends a request to a busier engine that has its prefix; too high a rate ignores reuse.
pub const PREFILL_TOKENS_PER_S: f64 = 10_000.0;

/// What one more running request adds to another's wait, in seconds: some decode steps of a batch that is one longer.
pub const IN_FLIGHT_S: f64 = 0.005;

/// How much of a degraded worker's overlap is believed.
pub const DEGRADED_WEIGHT: f64 = 0.5;
