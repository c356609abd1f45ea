//! Every bound of this crate, with its reason.

/// Workers that an index takes unless it is told otherwise. Fleets of a few thousand ranks are the largest that are known.
pub const WORKERS_MAX: u32 = 65_536;

/// Views of one worker. Hybrid models have up to five cache groups, each with up to two tiers scored apart; the rest is room.
pub const VIEWS_MAX: u8 = 32;

/// Most lanes of a pool: one word tells which are idle, and one bit of it is the pool's own.
pub const LANES_MAX: usize = 63;

/// Most events that wait for one stream of a lane pool unless it is told otherwise. An engine publishes a batch a step, 10 to
/// 100 a second: at the least 40 seconds in which no lane comes to it.
pub const LANE_QUEUE_EVENTS_MAX: usize = 4096;

/// Most that these events cost unless it is told otherwise: 16 MiB, if cost is bytes. A step of 8,192 tokens is some 50 kB.
pub const LANE_QUEUE_COST_MAX: u64 = 16 << 20;

/// Events after which a lane turns to its next stream unless it is told otherwise. A small event is applied in about a
/// microsecond, and a change of streams costs a tenth of that.
pub const LANE_TURN_EVENTS: usize = 32;

/// Cost after which a lane turns to its next stream unless it is told otherwise. 64 KiB of events are about a thousand
/// blocks: a tenth of a millisecond.
pub const LANE_TURN_COST: u64 = 64 << 10;

/// Most tasks that wait for one stream. They are for those who operate a router (clear, dump, look), a few at a time.
pub const LANE_TASKS_MAX: usize = 64;

/// One turn in this many goes to another lane's list first, whichever is next, so that no stream waits for ever on the list of
/// a lane that nobody runs while all others are busy.
pub const LANE_LOOK_AROUND_TURNS: usize = 64;

/// Places of a queue that stay allocated while it is empty. A burst's memory is given back, a few steps' is not.
pub const LANE_QUEUE_KEPT: usize = 64;
