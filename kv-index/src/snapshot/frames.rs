//! Frames: what is written, read and checked at a time.
//!
//! Each checksum is seeded with the one before, so that a frame which is missing, doubled or moved is as wrong as a changed one, and
//! the last checksum stands for everything. Nothing of a frame is looked at before it has been checked.

use std::io::{self, ErrorKind, Read, Write};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::error::LoadError;
use crate::limits::SNAPSHOT_FRAME_BYTES_MAX;

/// Writes frames, each when the next record would not fit any more.
#[derive(Debug)]
pub(super) struct FrameWriter<W> {
    inner: W,
    /// Room for the length, and the payload so far.
    frame: Vec<u8>,
    checksum: u64,
}

/// Reads frames, and no byte beyond the last that was asked for.
#[derive(Debug)]
pub(super) struct FrameReader<R> {
    inner: R,
    /// Bytes read.
    offset: u64,
    checksum: u64,
    /// Length, payload and checksum of one frame.
    frame: Box<[u8]>,
}

/// The payload of a frame whose checksum is right, and where it begins in the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) offset: u64,
}

impl<W: Write> FrameWriter<W> {
    pub(super) fn begin(mut inner: W) -> io::Result<Self> {
        let mut header = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        let checksum = xxh3_64(&header);
        header.extend(checksum.to_le_bytes());
        inner.write_all(&header)?;
        Ok(Self { inner, frame: vec![0; LENGTH_BYTES], checksum })
    }

    /// Adds a record, at most as long as a frame.
    pub(super) fn put(&mut self, record: &[u8]) -> io::Result<()> {
        debug_assert!(record.len() <= SNAPSHOT_FRAME_BYTES_MAX);
        if self.frame.len() - LENGTH_BYTES + record.len() > SNAPSHOT_FRAME_BYTES_MAX {
            self.close_frame()?;
        }
        self.frame.extend_from_slice(record);
        Ok(())
    }

    /// Writes what was added since the last frame, if anything.
    pub(super) fn close_frame(&mut self) -> io::Result<()> {
        let length = self.frame.len() - LENGTH_BYTES;
        if length == 0 {
            return Ok(());
        }
        let length = u32::try_from(length).expect("at most SNAPSHOT_FRAME_BYTES_MAX");
        self.frame[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        self.checksum = xxh3_64_with_seed(&self.frame, self.checksum);
        self.frame.extend(self.checksum.to_le_bytes());
        let written = self.inner.write_all(&self.frame);
        self.frame.truncate(LENGTH_BYTES);
        written
    }

    /// Writes the last frame and gives the writer back, flushed.
    pub(super) fn end(mut self) -> io::Result<W> {
        self.close_frame()?;
        self.inner.flush()?;
        Ok(self.inner)
    }
}

impl<R: Read> FrameReader<R> {
    pub(super) fn begin(inner: R) -> Result<Self, LoadError> {
        let frame = vec![0; LENGTH_BYTES + SNAPSHOT_FRAME_BYTES_MAX + CHECKSUM_BYTES].into_boxed_slice();
        let mut reader = Self { inner, offset: 0, checksum: 0, frame };
        let magic = reader.read_part(0)?;
        if magic != *MAGIC {
            return Err(LoadError::NoSnapshot { expected: *MAGIC, got: magic });
        }
        let version = u32::from_le_bytes(reader.read_part(MAGIC.len())?);
        if version != VERSION {
            return Err(LoadError::Version { known: VERSION, got: version });
        }
        let end = MAGIC.len() + size_of_val(&version);
        let expected = xxh3_64(&reader.frame[..end]);
        reader.check(end, expected)?;
        Ok(reader)
    }

    /// The next frame.
    pub(super) fn read_frame(&mut self) -> Result<Payload<'_>, LoadError> {
        let start = self.offset;
        let length = u32::from_le_bytes(self.read_part(0)?) as usize;
        if !(1..=SNAPSHOT_FRAME_BYTES_MAX).contains(&length) {
            let (max, got) = (SNAPSHOT_FRAME_BYTES_MAX as u64, length as u64);
            return Err(LoadError::Range { offset: start, field: "a frame's length", min: 1, max, got });
        }
        let end = LENGTH_BYTES + length;
        self.fill(LENGTH_BYTES, end)?;
        self.check(end, xxh3_64_with_seed(&self.frame[..end], self.checksum))?;
        Ok(Payload { bytes: &self.frame[LENGTH_BYTES..end], offset: start + LENGTH_BYTES as u64 })
    }

    /// Reads a checksum to `at` of the buffer and compares it with what it should be.
    fn check(&mut self, at: usize, expected: u64) -> Result<(), LoadError> {
        let offset = self.offset;
        let got = u64::from_le_bytes(self.read_part(at)?);
        if got != expected {
            return Err(LoadError::Checksum { offset, expected, got });
        }
        self.checksum = expected;
        Ok(())
    }

    /// Reads a few bytes to `at` of the buffer.
    fn read_part<const N: usize>(&mut self, at: usize) -> Result<[u8; N], LoadError> {
        self.fill(at, at + N)?;
        Ok(self.frame[at..at + N].try_into().expect("as long as asked for"))
    }

    /// Reads to the buffer's bytes from `start` to `end`.
    fn fill(&mut self, start: usize, end: usize) -> Result<(), LoadError> {
        let mut at = start;
        while at < end {
            match self.inner.read(&mut self.frame[at..end]) {
                Ok(0) => return Err(LoadError::Truncated { offset: self.offset, missing: end - at }),
                Ok(more) => {
                    at += more;
                    self.offset += more as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(LoadError::Read { offset: self.offset, source }),
            }
        }
        Ok(())
    }
}

/// A byte that is no ASCII, so that a transfer that spares only seven bits is found out, and a word.
const MAGIC: &[u8; 8] = b"\x89kvindex";
const VERSION: u32 = 1;
const LENGTH_BYTES: usize = size_of::<u32>();
const CHECKSUM_BYTES: usize = size_of::<u64>();
