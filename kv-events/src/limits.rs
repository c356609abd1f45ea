//! Every bound of this crate, with its reason.

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
