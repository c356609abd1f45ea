//! Loading a snapshot: each worker's stretches are stored as its engine's events would have stored them.

use std::io::Read;

use super::error::LoadError;
use super::frames::FrameReader;
use super::parts::{Parts, Portable};
use super::record::{HeldRecord, Record, Records, Words};
use super::stretches::Stretches;
use crate::{Block, Index, Stored, View, Worker};

/// A worker that came out of a snapshot.
#[derive(Debug)]
pub struct Loaded<W> {
    /// What the caller gave with it when it was written.
    pub bytes: Vec<u8>,
    /// The writing end. Dropping it removes the worker, as ever.
    pub worker: W,
}

/// Takes the workers of a snapshot into `index`, beside those that are there, and gives them back in the order in which they were
/// written.
///
/// The snapshot is read once, from its first byte to its last and no further, so it may come through a pipe and something else may
/// follow. Each frame is checked before anything in it is looked at, and each worker's digests before the next worker begins. What is
/// being loaded can be found by lookups already, under ids that nobody knows yet. Then all workers come back, or an error does and
/// they are dropped again: the index holds what it held before.
///
/// Each worker's way from the root to what it holds is walked once, whatever holes are in it: a load is no more work than the stores
/// that led to the snapshot. It keeps 16 bytes for each block of the snapshot meanwhile (once, however many workers hold it), and
/// nothing that is longer than the stream has shown.
///
/// # Errors
/// [`LoadError`].
pub fn load<R: Read, I>(read: R, index: &I) -> Result<Vec<Loaded<I::Worker>>, LoadError>
where
    I: Index,
    I::Worker: Portable,
{
    let mut frames = FrameReader::begin(read)?;
    let mut loader = Loader::new(index);
    while !loader.ended {
        let payload = frames.read_frame()?;
        let mut records = Records::new(payload.bytes, payload.offset);
        while let Some((offset, record)) = records.read_record()? {
            loader.take(offset, &record)?;
        }
    }
    Ok(loader.workers)
}

/// What is known in the middle of a snapshot.
struct Loader<'a, I: Index<Worker: Portable>> {
    index: &'a I,
    workers: Vec<Loaded<I::Worker>>,
    /// Whether the last of the workers is not complete.
    open: bool,
    ended: bool,
    stretches: Stretches,
    /// For each stretch: where the last worker that reached it finds it.
    bases: Vec<Base<PlaceOf<I>>>,
    /// Stretches on the way from a known one to the next.
    climb: Vec<u32>,
    blocks: Vec<Block>,
    stored: Vec<Stored>,
}

type PlaceOf<I> = <<I as Index>::Worker as Parts>::Place;

/// The place before a stretch. Places are a worker's own.
#[derive(Clone, Copy, Debug)]
struct Base<P> {
    /// How many workers there were: 0 for a stretch that nobody has reached.
    worker: usize,
    place: Option<P>,
}

impl<'a, I: Index<Worker: Portable>> Loader<'a, I> {
    fn new(index: &'a I) -> Self {
        Self {
            index,
            workers: Vec::new(),
            open: false,
            ended: false,
            stretches: Stretches::default(),
            bases: Vec::new(),
            climb: Vec::new(),
            blocks: Vec::new(),
            stored: Vec::new(),
        }
    }

    fn take(&mut self, offset: u64, record: &Record<'_>) -> Result<(), LoadError> {
        let expected = match (self.ended, self.open) {
            (true, _) => Some("nothing behind the snapshot's end"),
            (false, true) if matches!(record, Record::Worker { .. } | Record::End) => Some("the open worker's end"),
            (false, false) if !matches!(record, Record::Worker { .. } | Record::End) => Some("a worker or the snapshot's end"),
            _ => None,
        };
        if let Some(expected) = expected {
            return Err(LoadError::Order { offset, expected, got: record.name() });
        }
        match record {
            Record::Worker { views, bytes } => self.open_worker(offset, *views, bytes),
            Record::Stretch(stretch) => {
                self.bases.push(Base { worker: 0, place: None });
                self.stretches.push(offset, stretch)
            }
            Record::Held(held) => self.hold(offset, held),
            Record::WorkerEnd { digests } => self.close_worker(offset, *digests),
            Record::End => {
                self.ended = true;
                Ok(())
            }
        }
    }

    fn open_worker(&mut self, offset: u64, views: u8, bytes: &[u8]) -> Result<(), LoadError> {
        let mut worker = self.index.add_worker().map_err(|source| LoadError::Workers { offset, source })?;
        for _ in 1..views {
            worker.add_view().expect("the record has at most VIEWS_MAX");
        }
        self.workers.push(Loaded { bytes: bytes.to_vec(), worker });
        self.open = true;
        Ok(())
    }

    fn close_worker(&mut self, offset: u64, digests: Words<'_>) -> Result<(), LoadError> {
        let worker = self.worker();
        let (views, got) = (u64::from(worker.views()), digests.digests().count() as u64);
        if got != views {
            return Err(LoadError::Range { offset, field: "the number of views", min: views, max: views, got });
        }
        for (view, expected) in (0..).map(View).zip(digests.digests()) {
            let got = worker.digest(view);
            if got != expected {
                return Err(LoadError::Digest { offset, view, expected, got });
            }
        }
        self.open = false;
        Ok(())
    }

    fn hold(&mut self, offset: u64, held: &HeldRecord<'_>) -> Result<(), LoadError> {
        self.check(offset, held)?;
        let (mut base, mut steps) = self.approach(held.stretch);
        self.stretches.blocks(held.stretch, held.mask, held.names.map(Words::names), &mut self.blocks);
        for view in (0..self.worker().views()).filter(|view| held.views >> view & 1 == 1).map(View) {
            self.store(offset, view, base, steps)?;
            if steps > 0 {
                self.arrive();
                self.blocks.drain(..steps);
                (base, steps) = (self.base(held.stretch).expect("arrived there").place, 0);
            }
        }
        Ok(())
    }

    fn check(&self, offset: u64, held: &HeldRecord<'_>) -> Result<(), LoadError> {
        self.stretches.check(offset, held.stretch)?;
        let within = |field, allowed: u64, got: u64| {
            let is_good = got != 0 && got & !allowed == 0;
            if is_good { Ok(()) } else { Err(LoadError::Bits { offset, field, allowed, got }) }
        };
        let (places, agreed) = self.stretches.masks(held.stretch);
        within("the holding views", (1 << self.worker().views()) - 1, held.views.into())?;
        within("the held places", if held.names.is_some() { places } else { agreed }, held.mask)
    }

    /// Finds the nearest place that the worker has reached on the way to a stretch, and makes the steps from there to the
    /// stretch the first blocks of the next store. The place, and how many steps.
    fn approach(&mut self, number: u32) -> (Option<PlaceOf<I>>, usize) {
        self.climb.clear();
        let mut at = number;
        let base = loop {
            if let Some(base) = self.base(at) {
                break base.place;
            }
            self.climb.push(at);
            (at, _) = self.stretches.parent(at).expect("a stretch below the root is reached from the start");
        };
        self.blocks.clear();
        for &next in self.climb.iter().rev() {
            let (parent, after) = self.stretches.parent(next).expect("it was climbed from");
            self.blocks.extend(self.stretches.contents(parent)[..after].iter().copied().map(Block::step));
        }
        (base, self.blocks.len())
    }

    /// Notes where the stretches are that were on the way: the worker holds something behind them now.
    fn arrive(&mut self) {
        while let Some(next) = self.climb.pop() {
            let (parent, after) = self.stretches.parent(next).expect("it was climbed from");
            let base = self.base(parent).expect("it was reached before");
            let place = self.worker().place_after(base.place, &self.stretches.contents(parent)[..after]);
            self.bases[next as usize] = Base { worker: self.workers.len(), place };
        }
    }

    /// The place before a stretch, if the worker has reached it: for one below the root, the root.
    fn base(&self, number: u32) -> Option<Base<PlaceOf<I>>> {
        let below_root = Base { worker: self.workers.len(), place: None };
        let base = if self.stretches.parent(number).is_none() { below_root } else { self.bases[number as usize] };
        (base.worker == self.workers.len()).then_some(base)
    }

    /// Stores the blocks, of which the first `steps` are only steps. Every other that has a name is new, or the snapshot is wrong.
    fn store(&mut self, offset: u64, view: View, base: Option<PlaceOf<I>>, steps: usize) -> Result<(), LoadError> {
        let worker = &mut self.workers.last_mut().expect("a worker is open").worker;
        let stored = worker.store_after(view, base, &self.blocks, &mut self.stored);
        stored.map_err(|source| LoadError::Store { offset, source })?;
        let is_new = |&stored: &Stored| matches!(stored, Stored::New | Stored::Step);
        if self.stored[steps..].iter().all(is_new) { Ok(()) } else { Err(LoadError::HeldTwice { offset }) }
    }

    fn worker(&self) -> &I::Worker {
        &self.workers.last().expect("a worker is open").worker
    }
}
