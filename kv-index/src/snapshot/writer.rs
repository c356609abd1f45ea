//! Writing a snapshot: section after section.

use std::io::Write;

use super::encode;
use super::error::WriteError;
use super::frames::FrameWriter;
use super::parts::Portable;
use super::section::{Numbers, Section};
use crate::View;
use crate::limits::SNAPSHOT_WORKER_BYTES_MAX;

/// Writes a snapshot, worker by worker.
///
/// It keeps some 50 bytes for each stretch of up to 64 places that it has written. For the worker that is being written, it keeps some 80
/// for each stretch that this holds, and 16 for each block if the worker names blocks in its own way. Everything else is gone with its
/// frame of 64 KiB.
#[derive(Debug)]
pub struct Writer<W> {
    frames: FrameWriter<W>,
    numbers: Numbers,
}

impl<W: Write> Writer<W> {
    /// Begins a snapshot. Whole frames are written at a time, so a buffer in between is of no use.
    ///
    /// # Errors
    /// [`WriteError::Write`].
    pub fn new(write: W) -> Result<Self, WriteError> {
        Ok(Self { frames: FrameWriter::begin(write)?, numbers: Numbers::new() })
    }

    /// Writes everything that `worker` holds, and `bytes`, which come back with the worker: at most
    /// [`SNAPSHOT_WORKER_BYTES_MAX`]. When the call returns, the section has been written and can be checked without what follows.
    ///
    /// Meanwhile the worker is locked: lookups and other workers go on, and who asks for this worker's digest or holdings waits. So
    /// the inner writer must not ask for them.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn worker(&mut self, bytes: &[u8], worker: &impl Portable) -> Result<(), WriteError> {
        if bytes.len() > SNAPSHOT_WORKER_BYTES_MAX {
            return Err(WriteError::WorkerBytes { bytes: bytes.len(), max: SNAPSHOT_WORKER_BYTES_MAX });
        }
        let views = worker.views();
        self.put(|out| encode::worker(out, views, bytes))?;
        worker.write_stretches(&mut Section::new(&mut self.frames, &mut self.numbers))?;
        self.put(|out| encode::worker_end(out, (0..views).map(|view| worker.digest(View(view)))))?;
        Ok(self.frames.close_frame()?)
    }

    /// Ends the snapshot, and gives the writer back, flushed.
    ///
    /// # Errors
    /// [`WriteError::Write`].
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.put(encode::end)?;
        Ok(self.frames.end()?)
    }

    fn put(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), WriteError> {
        let mut record = Vec::new();
        encode(&mut record);
        Ok(self.frames.put(&record)?)
    }
}
