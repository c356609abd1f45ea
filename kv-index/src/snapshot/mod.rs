//! What the index holds, as bytes: what a router hands to its peer, or keeps across its own restart.
//!
//! ```
//! use kv_index::snapshot::{Loaded, Writer, load};
//! use kv_index::{Block, BlockName, ChainIndex, ContentHash, Index, View, Worker};
//!
//! let index = ChainIndex::new();
//! let mut worker = index.add_worker()?;
//! let block = Block::named(BlockName(0xa1), ContentHash(1));
//! worker.store(View::MAIN, None, &[block], &mut Vec::new())?;
//! let cursor = "http://10.0.0.1:8000 rank 0, next event 18";
//!
//! let mut snapshot = Writer::new(Vec::new())?;
//! snapshot.worker(cursor.as_bytes(), &worker)?;
//! let bytes = snapshot.finish()?;
//!
//! let peer = ChainIndex::new();
//! let mut loaded = load(&bytes[..], &peer)?;
//! let Loaded { bytes, worker } = loaded.remove(0);
//! assert_eq!(bytes, cursor.as_bytes());
//! assert!(worker.holds(View::MAIN, BlockName(0xa1)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What belongs together
//! Workers know nothing of each other (rule 12 of [`crate::index`]), so a snapshot is a sequence of sections, one for each worker and
//! each consistent in itself; it is no picture of the whole fleet at one moment, and need not be. With each worker go some bytes of
//! its caller's: which engine it is, and up to which event of its stream it has been applied.
//!
//! For the cursor to belong to exactly the state that is written, no event may be applied in between. That is why a section is written
//! from the *writing end*: [`Writer::worker`] borrows the worker, and whoever applies its stream needs it whole (`&mut`). So the
//! one that owns both, the worker and the cursor, writes the section between two events, and this is all there is to it. Where
//! threads take turns at a worker, the lock that guards it guards its cursor too. While a section is written its worker waits, and
//! so does who asks for its digest; lookups and all other workers go on. After a load the stream goes on behind the cursor: replayed from there if the
//! engine can, or announced as lost if it cannot.
//!
//! # What a load promises
//! All or nothing. [`load`] reads a stream once, because what comes from a peer cannot be read twice; it checks each frame before it
//! looks at it, and drops the workers that it made if a later frame is wrong, with which everything they held is gone.
//! A lookup beside a load may find workers whose ids nobody knows yet: leave them out, as any id that you do not know. Stored
//! again, block after block, the content takes the memory that it takes in an index that saw the events, whatever
//! index it came from: every index of this crate loads what every other wrote.
//!
//! Checksums find accidents, not forgers. A snapshot that somebody made up, with checksums that are right, is refused or
//! loaded as what it says; it cannot break the index, nor ask for memory that the stream does not pay for: a few bytes of it may hold
//! one stretch in all 32 views, and no more than that. Take snapshots from whom you would take events.
//!
//! # Layout
//! All numbers are little-endian and of fixed width. A snapshot is a header and frames; frames are filled with whole records.
//!
//! | header | |
//! |---|---|
//! | 8 bytes | `89 6b 76 69 6e 64 65 78`: a byte that is no ASCII, and `kvindex` |
//! | u32 | version: 1 |
//! | u64 | XXH3-64 of the 12 bytes before, seed 0 |
//!
//! | frame | |
//! |---|---|
//! | u32 | length of the payload, 1 to [`SNAPSHOT_FRAME_BYTES_MAX`](crate::limits::SNAPSHOT_FRAME_BYTES_MAX) |
//! | payload | records |
//! | u64 | XXH3-64 of length and payload, seeded with the checksum before (the header's, for the first frame) |
//!
//! So a frame's checksum stands for the frame and for everything before it, and a frame that is missing, doubled or moved is found
//! out. A frame holds records of one worker, and a worker begins and ends with a frame of its own: a section can be checked without
//! what follows. The payload of the last frame is the record of kind 6.
//!
//! A *stretch* is 1 to 64 places, one behind the other. It is told of once, where it is first needed, by a record between the records
//! of that worker. It gets the next number, from 0, under which it is known from there to the end of the snapshot. *Agreed* names
//! are those that most workers may hold its places by. What twenty workers hold by the same names is twenty records of 17 bytes,
//! and one stretch.
//!
//! | record | kind | then |
//! |---|---|---|
//! | a worker begins | u8: 1 | u8: views, 1 to 32; u32: length of the caller's bytes, at most [`SNAPSHOT_WORKER_BYTES_MAX`](crate::limits::SNAPSHOT_WORKER_BYTES_MAX); the bytes |
//! | a stretch | u8: 2 | u32: parent, 0 for the root or the parent's number and 1; u8: places of the parent before it, 0 for the root or 1 to the parent's length; u8: length, 1 to 64; u64: bit `k` if place `k` has an agreed name; a u64 for each place, its content; a u64 for each bit, the name |
//! | it holds agreed names | u8: 3 | u32: stretch; u32: bit `v` if view `v` holds them; u64: bit `k` if place `k` is held |
//! | it holds other names | u8: 4 | the same, and a u64 for each bit, the name |
//! | the worker ends | u8: 5 | u8: views; for each, count, xor and sum of its [`Digest`](crate::Digest), a u64 each |
//! | the snapshot ends | u8: 6 | nothing |
//!
//! A worker may have several records for a stretch: views that differ, names that differ, twins. Places that it does not hold stand in
//! the stretch as any other. No record may hold what the worker holds already, or a name at two places; the digests must be those of
//! what was loaded.

mod encode;
mod error;
mod frames;
mod load;
mod parts;
mod record;
mod section;
mod stretches;
mod writer;

pub use error::{LoadError, WriteError};
pub use load::{Loaded, load};
pub use parts::Portable;
pub(crate) use parts::{Held, Parts, Stretch};
pub(crate) use section::Section;
pub use writer::Writer;

/// Places of a stretch, at most: as many as a mask has bits.
pub(crate) const STRETCH_PLACES: u8 = 64;
const WORD_BYTES: usize = size_of::<u64>();
