//! Every bound of this crate, with its reason.

/// Workers that an index takes unless it is told otherwise. Fleets of a few thousand ranks are the largest that are known.
pub const WORKERS_MAX: u32 = 65_536;

/// Views of one worker. Hybrid models have up to five cache groups, each with up to two tiers scored apart; the rest is room.
pub const VIEWS_MAX: u8 = 32;

/// Shards of one index: one for each memory node, of which Linux knows at most 1,024 (`NODES_SHIFT` is at most 10). Times
/// [`WORKERS_MAX`] that is 2^26 ids; a row of [`Matches`](crate::Matches) has room for 2^27.
pub const SHARDS_MAX: usize = 1_024;

/// CPU and memory-node numbers end below this. Linux is built for at most 8,192 CPUs (`NR_CPUS` with `MAXSMP` on x86-64); the
/// rest is room. It keeps a wrong file under `/sys` from asking for memory.
pub const CPUS_MAX: u32 = 16_384;

/// Bytes of one file that describes the machine. Those of `/sys` are a page; the list of mounts grows with containers
/// and is a few hundred kilobytes on crowded hosts.
pub const MACHINE_FILE_BYTES_MAX: u64 = 4 << 20;

/// Cache descriptions of one CPU under `/sys`. Machines have three to five.
pub const CACHES_MAX: u32 = 16;

/// Lanes of one shard where the caller leaves the number open. The design is measured up to eight writers of one index; more
/// of them meet at its locks, and a fleet's events seldom ask for them.
pub const LANES_PER_SHARD_SENSIBLE: usize = 8;

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

/// Bytes of one frame of a snapshot: all that a reader keeps of a stream before it has been checked. Large enough that frames
/// cost nothing, small enough to lie in the cache while they are checked, decoded and applied.
pub const SNAPSHOT_FRAME_BYTES_MAX: usize = 64 << 10;

/// Bytes that a snapshot keeps for its caller with each worker. A URL, a rank and a cursor are a few hundred; half a frame is
/// room, and leaves room for the record around them.
pub const SNAPSHOT_WORKER_BYTES_MAX: usize = SNAPSHOT_FRAME_BYTES_MAX / 2;

/// Stretches of one snapshot. Four times as many as an index has segments: those that change while it is written come again.
pub const SNAPSHOT_STRETCHES_MAX: u32 = 1 << 28;
