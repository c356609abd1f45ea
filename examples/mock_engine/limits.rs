//! Every bound of the mock engines, with its reason.

use std::time::Duration;

/// Engines of one fleet. Each costs three listeners and three tasks; the largest fleet that the field simulates has 128.
pub(super) const ENGINES: usize = 256;

/// Data-parallel ranks of one engine. One node has 8 or 16 accelerators.
pub(super) const RANKS: usize = 16;

/// Tokens of a block. Engines in the field go up to 256 (and 1,056 for hybrid models).
pub(super) const BLOCK_SIZE: usize = 4_096;

/// Bytes of a request body. The longest context of the defaults, 262,144 token ids at 11 characters each, is 2.9 MB.
pub(super) const BODY_BYTES: usize = 16 << 20;

/// Batches kept for the replay socket; vLLM's and SGLang's default of `buffer_steps`.
pub(super) const REPLAY_BATCHES: usize = 10_000;

/// How long the replay socket waits for a client that does not read before it gives that client up. Real engines
/// drop silently at their high-water mark.
pub(super) const REPLAY_STALL: Duration = Duration::from_secs(5);

/// Entries of the request log; the oldest go first. Half a million is 40 times the longest trace replayed here.
pub(super) const LOG_ENTRIES: usize = 500_000;

/// Entries of one page of the request log: about 2 MB of JSON.
pub(super) const LOG_PAGE: usize = 10_000;

/// Longest injected delay: a fault longer than a minute is better told as a pause or a drop.
pub(super) const FAULT_DELAY: Duration = Duration::from_mins(1);

/// How far behind its schedule an engine may start its next pass and still make up for it. Timers have a resolution of
/// 1 ms, and a wake-up may come one tick late; more than that is a starved machine, where catching up would turn one
/// stall into a burst.
pub(super) const PACING_SLACK: Duration = Duration::from_millis(2);

/// How often a run of neighbouring ports is looked for before giving up.
pub(super) const PORT_ATTEMPTS: usize = 32;

/// How long a shutdown waits for HTTP connections to end by themselves.
pub(super) const DRAIN: Duration = Duration::from_secs(2);
