//! Every bound of this crate, with its reason.

/// Workers that an index takes unless it is told otherwise. Fleets of a few thousand ranks are the largest that are known.
pub const WORKERS_MAX: u32 = 65_536;

/// Views of one worker. Hybrid models have up to five cache groups, each with up to two tiers scored apart; the rest is room.
pub const VIEWS_MAX: u8 = 32;

/// Shards of one index: one for each memory node, of which Linux knows at most 1,024 (`NODES_SHIFT` is at most 10). Times
/// [`WORKERS_MAX`] it is well inside a [`WorkerId`](crate::WorkerId).
pub const SHARDS_MAX: usize = 1_024;
