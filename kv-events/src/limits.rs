//! Every bound of this crate, with its reason.

use std::time::Duration;

/// Longest payload that is decoded, in bytes. A vLLM step of 8,192 tokens is some 50 kB; 64 MiB is a thousand of them.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Bytes, at most, that decoding asks of the allocator at a time for each byte of a payload. The costliest are a list of
/// removals without hashes (104 bytes for 15), of stores without blocks (424 for 17), and in the same payload a list of extra
/// keys that nobody knows (33 for one); the decoder asserts these. TensorRT-LLM's JSON, whose lists grow by doubling, stays
/// below it too.
pub const ALLOCATION_FACTOR: usize = 64;

/// Most events in one batch. A step removes at most a pool's blocks, one event each; the largest pools hold a few hundred thousand.
pub const EVENTS_MAX: usize = 1 << 20;

/// Longest byte-string hash kept, in bytes. SHA-512 has 64; today's engines send at most 32.
pub const DIGEST_BYTES_MAX: usize = 64;

/// Longest text kept of a field, in bytes: names of adapters, salts and media. A longer one makes its field unreadable.
pub const TEXT_BYTES_MAX: usize = 4096;

/// Most cache groups of one stream: each may take two views (any tier, device), of the index's 32.
pub const GROUPS_MAX: usize = 16;

/// Most blocks that wait for their parents. A waiting block costs some 100 bytes, 6 MB in all; a rank that misses more
/// than this has missed a whole pool, and only a replay or a clear will help it.
pub const ORPHAN_BLOCKS_MAX: usize = 1 << 16;

/// Most batches that a gap may lose before what the stream holds is thrown away: each batch removes a few blocks of a
/// pool of thousands, so a small loss leaves the rest right.
pub const GAP_KEPT_MAX: u64 = 1024;

/// A sequence that lies so far below the last one is another publisher's, not a late duplicate.
pub const RESTART_DISTANCE: u64 = 1024;

/// Most blocks outside GPU memory that a TensorRT-LLM decoder remembers, so that a removal names the tier. Far more than a host
/// pool holds; beyond it, a removal is taken to be from GPU memory.
pub const OFF_DEVICE_BLOCKS_MAX: usize = 1 << 20;

/// Most of the last batches whose fingerprints are kept, 16 bytes each: all that lie nearer than [`RESTART_DISTANCE`], so that every number
/// that comes again is either compared or too far below to be of the same life.
pub const RECENT_BATCHES_MAX: usize = 1024;

/// Most live batches that wait for a replay to end: 40 s of an engine that makes 100 steps a second, longer than any replay may take.
pub const HELD_BATCHES_MAX: usize = 4096;

/// Most bytes of these batches' payloads: a thousand prefill steps of 8,192 tokens.
pub const HELD_BYTES_MAX: usize = 64 << 20;

/// How long a stream may be quiet before its replay socket is asked whether the last batches were lost.
pub const QUIET_MAX: Duration = Duration::from_secs(5);

/// How long a replay may stay silent. Publishers look at their replay socket every 0.1 s.
pub const REPLAY_SILENCE_MAX: Duration = Duration::from_secs(5);

/// How long a replay may take in all, from the question to the end marker.
pub const REPLAY_MAX: Duration = Duration::from_secs(30);

/// How often in a row a replay that breaks off is asked for again at once. A publisher's socket drops answers, and mostly the end
/// marker with them, when its reader is too slow: each further try begins where the last one stopped.
pub const REPLAY_TRIES_MAX: u8 = 8;

/// Shortest and longest pause before a replay socket that failed is asked again.
pub const REPLAY_PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// How many batches in a row a replay socket may not know of that its publisher sent before it was asked. Beyond, it may be another's:
/// it is left alone for the longest pause, and the stream says that its life cannot be verified.
pub const CONTRADICTIONS_MAX: u8 = 3;

/// Shortest and longest pause before a stream that its index had no room for, or whose events made it panic, is learned anew. What such
/// a stream held is unknown meanwhile, and a replay of thousands of batches is work for its engine.
pub const RELEARN_PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_mins(5));

/// Most batches that a relay keeps of a rank by default: what publishers keep for replay.
pub const HISTORY_BATCHES: usize = 10_000;

/// Most bytes that a relay keeps of a rank's batches by default. Steps of 25 kB, which are long ones, fill it with 10,000.
pub const HISTORY_BYTES: usize = 256 << 20;

/// What a kept batch is charged for besides its payload: its slot, its counters and the allocator's share, rounded up. A lost
/// one is charged for it too, so that a window of holes has an end.
pub const HISTORY_ENTRY_BYTES: usize = 96;

/// Most blocks that a relay keeps of a rank by default, the steps to them among them: 1 GB and their tokens. The largest pools
/// hold a few hundred thousand on the device, and some millions on the host.
pub const LIVE_BLOCKS_MAX: usize = 8 << 20;

/// Numbers at and below the last one that are compared when the replay socket is asked. One would do; four also show a
/// publisher that repeats a message.
pub const COMPARED_MAX: u64 = 4;

/// Most ranks of one relay. The largest published deployments have some hundreds.
pub const RELAY_RANKS_MAX: u32 = 1024;

/// How often a replay that breaks off is asked for again while each try brings something new. A publisher's socket drops answers
/// whose reader is slow, 1,000 at a time, and keeps 10,000.
pub const RELAY_REPLAY_TRIES_MAX: u32 = 16;

/// Shortest and longest pause before a relay asks once more for batches that its publisher's replay socket left out.
pub const GIVEN_UP_PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(1));

/// Pause between questions to a replay socket that has not answered, while something is wanted of it.
pub const RELAY_RETRY_EVERY: Duration = Duration::from_secs(1);

/// Most subscribers of one relay. Each costs its place in every rank's window; a fleet has some gateways, not thousands.
pub const RELAY_SUBSCRIBERS_MAX: usize = 1024;

/// Most states of one rank that snapshots hold on to at a time. Subscribers that come while one is being read share it, so a
/// second one is needed only when a reader is so slow that the window has left it behind.
pub const RELAY_CUTS_MAX: usize = 2;

/// Copies that a chunk of a snapshot lists, by default.
pub const CHUNK_BLOCKS: u64 = 2048;

/// Steps and blocks together of a chunk, for each copy that it may list. It bounds a chunk whose blocks lie deep below what is no
/// longer held: 1 MB of tokens in blocks of 16.
pub const CHUNK_UNITS_A_BLOCK: u64 = 8;

/// How often a quiet stream's load is looked at.
pub const LOAD_TICK: Duration = Duration::from_millis(100);

/// After how long a silence a stream says that it lives, and after how long once it has nothing new to say.
pub const HEARTBEAT_AFTER: Duration = Duration::from_secs(1);
/// See [`HEARTBEAT_AFTER`].
pub const HEARTBEAT_AFTER_IDLE: Duration = Duration::from_secs(5);

/// What came from an engine's sockets and waits for the relay's task. Each rank brings one at a time, so that a flood of one keeps
/// another waiting for no longer than this many.
pub const HUB_INPUTS_MAX: usize = 16;

/// What a reader of a relay is handed at once: some hundred ordinary batches, or one that is larger than all of these.
pub const HUB_BATCH_ITEMS: usize = 64;
/// See [`HUB_BATCH_ITEMS`].
pub const HUB_BATCH_BYTES: usize = 1 << 20;

/// Most measures of one load record. Engines report some dozens.
pub const TELEMETRY_MAX: usize = 256;

/// Most digests that the check of a stream's hashes remembers, some 100 bytes each with their order: a pool of a quarter of a million
/// blocks. A block whose parent's has given way cannot be checked, and is counted as such.
pub const CHECKED_DIGESTS_MAX: usize = 1 << 18;

/// How often something must have been seen before it is called a sign of anything: one answer, or one late event, may be an accident.
pub const EVIDENCE_MIN: u64 = 8;

/// How long a rank that computes must have announced nothing before that is called a silence. Engines announce with every step.
pub const SILENCE_MIN: Duration = Duration::from_secs(30);
