//! What a snapshot asks of a worker.

use std::io::Write;

use super::error::WriteError;
use super::section::Section;
use crate::{Block, BlockName, ContentHash, Digest, StoreError, Stored, View, Worker};

/// Workers that can be written into a snapshot and come back from one: those of this crate's indexes.
#[expect(private_bounds, reason = "what a snapshot asks of a worker is a matter between the two")]
pub trait Portable: Worker + Parts {}

impl<W: Worker + Parts> Portable for W {}

/// The worker's part of writing and loading.
pub(crate) trait Parts {
    /// A place that this worker reached. Good as long as some view of the worker holds it, or a place behind it.
    type Place: Copy;

    /// The summary of what `view` holds.
    fn digest(&self, view: View) -> Digest;

    /// Tells `section` of every stretch where the worker holds something and of those before it, each after its parent.
    fn write_stretches<W: Write>(&self, section: &mut Section<'_, W>) -> Result<(), WriteError>;

    /// What [`Worker::store`] does, after a place (or from the root) instead of a name.
    fn store_after(
        &mut self,
        view: View,
        parent: Option<Self::Place>,
        blocks: &[Block],
        out: &mut Vec<Stored>,
    ) -> Result<(), StoreError>;

    /// The place at the end of `path`, behind `parent` or from the root; none if it does not exist. An empty path ends at `parent`.
    fn place_after(&self, parent: Option<Self::Place>, path: &[ContentHash]) -> Option<Self::Place>;
}

/// Up to 64 places, one behind the other, and what a worker holds there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch<'a> {
    /// What the worker calls the stretch while it is written.
    pub(crate) id: u64,
    /// The stretch that it leaves, and the contents of this from its start to where it leaves, 1 to 64; none below the root.
    pub(crate) lead: Option<(u64, &'a [ContentHash])>,
    pub(crate) contents: &'a [ContentHash],
    /// Which places have an agreed name, one that many workers may hold them by.
    pub(crate) agreed: u64,
    /// The agreed name of each place; if it has none, anything. May end after the last that has one.
    pub(crate) names: &'a [BlockName],
    /// In the order of their offsets.
    pub(crate) held: &'a [Held],
}

/// A name that some views hold at a place of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The place.
    pub(crate) offset: usize,
    pub(crate) name: BlockName,
    /// Bit `v` is view `v`. Not empty.
    pub(crate) views: u32,
}
