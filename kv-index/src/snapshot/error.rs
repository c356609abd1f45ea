//! What can be wrong with a snapshot, and where. Offsets count bytes from the snapshot's first.

use std::io;

use thiserror::Error;

use crate::{Digest, StoreError, View, WorkersExhausted};

/// Why a snapshot could not be written. What was written of it is of no use, and whoever loads it will be told so.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The writer's reason.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    /// A worker comes with more bytes than a snapshot keeps for its caller. Nothing of this worker was written.
    #[error("a worker comes with {bytes} bytes: a snapshot keeps at most {max}")]
    WorkerBytes {
        /// How many they are.
        bytes: usize,
        /// How many they may be.
        max: usize,
    },
    /// The index changed so much meanwhile that the snapshot has no numbers left.
    #[error("all {max} stretches of the snapshot are taken")]
    Stretches {
        /// How many a snapshot has.
        max: u32,
    },
}

/// Why a snapshot was not loaded. The index holds what it held before.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The reader's reason.
    #[error("cannot read at byte {offset}: {source}")]
    Read {
        /// How far it was read.
        offset: u64,
        /// The reason.
        source: io::Error,
    },
    /// The stream ends before the snapshot does.
    #[error("the stream ends at byte {offset}, where at least {missing} more were expected")]
    Truncated {
        /// Where it ends.
        offset: u64,
        /// What is missing of the part that began last.
        missing: usize,
    },
    /// The stream is something else.
    #[error("the stream begins with {got:02x?}, a snapshot with {expected:02x?}")]
    NoSnapshot {
        /// A snapshot's first bytes.
        expected: [u8; 8],
        /// The stream's.
        got: [u8; 8],
    },
    /// A snapshot of a layout that this crate does not know.
    #[error("the snapshot is of version {got}, known is {known}")]
    Version {
        /// The version that is known.
        known: u32,
        /// The snapshot's.
        got: u32,
    },
    /// Bytes changed on their way, or frames are missing or in another order.
    #[error("the checksum at byte {offset} is {got:016x}, but {expected:016x} of what was read before")]
    Checksum {
        /// Where the checksum is. What it stands for begins after the one before.
        offset: u64,
        /// The checksum of what was read.
        expected: u64,
        /// The checksum in the stream.
        got: u64,
    },
    /// A number is not what it may be.
    #[error("{field} in the record at byte {offset} is {got}, expected {min} to {max}")]
    Range {
        /// Where the record, or the frame, begins.
        offset: u64,
        /// Which number.
        field: &'static str,
        /// What it may be at least.
        min: u64,
        /// What it may be at most.
        max: u64,
        /// What it is.
        got: u64,
    },
    /// A set of bits has none, or some that it may not have.
    #[error("{field} in the record at byte {offset} is {got:#x}, expected some of {allowed:#x} and no other bits")]
    Bits {
        /// Where the record begins.
        offset: u64,
        /// Which set.
        field: &'static str,
        /// The bits that it may have.
        allowed: u64,
        /// The bits that it has.
        got: u64,
    },
    /// A record speaks of a stretch that the snapshot has not told of before.
    #[error("the record at byte {offset} speaks of stretch {stretch}, where {known} are known")]
    UnknownStretch {
        /// Where the record begins.
        offset: u64,
        /// The stretch's number, from 0.
        stretch: u32,
        /// How many there are so far.
        known: usize,
    },
    /// A record is longer than its frame.
    #[error("{field} at byte {offset} takes {needed} bytes, of which the frame has {left}")]
    Short {
        /// Where it begins.
        offset: u64,
        /// Which part of the record.
        field: &'static str,
        /// What it takes.
        needed: usize,
        /// What there is.
        left: usize,
    },
    /// A record stands where it may not.
    #[error("{got} at byte {offset}, expected {expected}")]
    Order {
        /// Where it begins.
        offset: u64,
        /// What may come here.
        expected: &'static str,
        /// What came.
        got: &'static str,
    },
    /// A worker holds a name that it holds already, at this place or at another.
    #[error("the record at byte {offset} holds a name that the worker holds already")]
    HeldTwice {
        /// Where the record begins.
        offset: u64,
    },
    /// What a worker's view holds is not what it held.
    #[error("{view} of the worker that ends at byte {offset} holds {got:?}, expected {expected:?}")]
    Digest {
        /// Where the worker's end begins.
        offset: u64,
        /// The view.
        view: View,
        /// What it held.
        expected: Digest,
        /// What it holds.
        got: Digest,
    },
    /// The index has no room for the worker.
    #[error("the worker at byte {offset} does not fit: {source}")]
    Workers {
        /// Where the worker begins.
        offset: u64,
        /// The index's reason.
        source: WorkersExhausted,
    },
    /// The index has no room for what the worker holds.
    #[error("the record at byte {offset} does not fit: {source}")]
    Store {
        /// Where the record begins.
        offset: u64,
        /// The index's reason.
        source: StoreError,
    },
}
