//! A piece of a snapshot, and how it fills.

use super::language::Language;
use super::run::Run;
use crate::relay::live::block::Shelf;
use crate::relay::load::LoadSample;
use crate::{Batch, EngineHash, Event, Incarnation, Stored};

/// A piece of a snapshot. Its batch is applied as any other; the first one begins with a clear.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Whose blocks it lists: chunks never mix ranks.
    pub rank: u32,
    /// The life of the rank's publisher.
    pub incarnation: Incarnation,
    /// Its place among the chunks of its snapshot, from 0.
    pub index: u64,
    /// How many chunks there are. Never more than [`through`](Self::through) + 1.
    pub count: u64,
    /// The last batch that the whole snapshot covers. Batches from the next one on follow it.
    pub through: u64,
    /// Physical copies in the whole snapshot.
    pub total: u64,
    /// Batches that were published before what the relay knows, and that nobody has any more: they hide blocks. And stores that
    /// the relay could not keep or tell.
    pub unknown_before: u64,
    /// Batches lost since: what is told may be gone.
    pub lost: u64,
    /// It is not known whether the publisher is the one whose blocks these are.
    pub doubted: bool,
    /// The rank's load.
    pub load: Option<LoadSample>,
    /// What it tells.
    pub batch: Batch,
}

impl Chunk {
    /// A number of its own for wires that have one number for each message: consecutive, the last one is
    /// [`through`](Self::through).
    pub fn sequence(&self) -> u64 {
        self.through - (self.count - 1 - self.index)
    }

    /// Whether nothing of the snapshot follows.
    pub fn is_last(&self) -> bool {
        self.index + 1 == self.count
    }
}

/// The events of one chunk in the making; or, for whoever only counts, how full it is.
#[derive(Debug)]
pub(super) struct Filling<'a> {
    /// Nothing for whoever only counts.
    language: Option<&'a Language>,
    events: Vec<Event>,
    run: Option<Run>,
    /// Further copies of listed blocks.
    further: Option<(Shelf, Vec<EngineHash>)>,
    listed: u64,
    units: u64,
    limits: (u64, u64),
}

impl<'a> Filling<'a> {
    pub(super) fn new(language: Option<&'a Language>, limits: (u64, u64)) -> Self {
        Self { language, events: Vec::new(), run: None, further: None, listed: 0, units: 0, limits }
    }

    pub(super) fn writes(&self) -> bool {
        self.language.is_some()
    }

    pub(super) fn begin_with(&mut self, events: Vec<Event>) {
        self.events = events;
    }

    pub(super) fn is_full(&self) -> bool {
        self.listed >= self.limits.0 || self.units >= self.limits.1
    }

    /// How many more copies it takes: at least 1, unless it is full.
    pub(super) fn room(&self) -> u64 {
        self.limits.0 - self.listed.min(self.limits.0)
    }

    pub(super) fn count(&mut self, listed: u64, units: u64) {
        self.listed += listed;
        self.units += units;
    }

    /// The open run.
    pub(super) fn run(&mut self) -> &mut Option<Run> {
        &mut self.run
    }

    /// Ends the open run and opens another.
    pub(super) fn open(&mut self, run: Run) -> &mut Run {
        let shelf = run.shelf;
        self.close_run();
        if self.further.as_ref().is_some_and(|further| further.0 != shelf) {
            self.close_further();
        }
        self.run.insert(run)
    }

    /// `count` further copies on `shelf`, of a block that is listed by now.
    pub(super) fn further(&mut self, shelf: Shelf, name: EngineHash, count: usize) {
        if self.further.as_ref().is_some_and(|further| further.0 != shelf) {
            self.close_run();
            self.close_further();
        }
        let further = self.further.get_or_insert_with(|| (shelf, Vec::new()));
        further.1.extend(std::iter::repeat_n(name, count));
    }

    pub(super) fn finish(mut self) -> Vec<Event> {
        self.close_run();
        self.close_further();
        self.events
    }

    fn close_run(&mut self) {
        if let (Some(run), Some(language)) = (self.run.take(), self.language) {
            self.events.extend(run.into_event(language));
        }
    }

    /// Copies are told by name alone, as an engine tells copies on its host.
    fn close_further(&mut self) {
        if let (Some((shelf, hashes)), Some(language)) = (self.further.take(), self.language) {
            let store = language.store(shelf.group(), shelf.tier());
            self.events.push(Stored { hashes, block_size: 0, kind: None, window: None, ..store }.into());
        }
    }
}
