//! The chain index.

mod compact;
mod core;
mod doubts;
mod hold;
mod lookup;
#[cfg(all(test, kv_loom))]
mod loom;
mod names_ahead;
mod naming;
mod own;
mod portable;
mod privacy;
mod private;
mod release;
mod remove;
mod roll;
#[cfg(all(test, kv_shuttle))]
mod shuttle;
mod state;
mod store;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, RandomState};

use self::core::Core;
use self::names_ahead::NamesAhead;
use self::state::{State, Writer};
pub(crate) use lookup::Active;

use crate::limits::{VIEWS_MAX, WORKERS_MAX};
use crate::raw::holders::Slot;
use crate::raw::place::Place;
use crate::raw::segments::SEGMENTS_MAX;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Mutex, RwLock};
use crate::{
    Block, BlockName, ContentHash, Digest, Holding, Index, Matches, Removed, Runs, StoreError, Stored, View, ViewsExhausted,
    Worker, WorkerId, WorkersExhausted,
};

/// The index: lock-free to read, written by one [`ChainWorker`] for each stream.
#[derive(Clone, Debug)]
pub struct ChainIndex {
    shared: Arc<Shared>,
}

/// The only writer of one worker of a [`ChainIndex`]. Dropping it removes the worker.
#[derive(Debug)]
pub struct ChainWorker {
    id: u32,
    shared: Arc<Shared>,
    state: Arc<Mutex<State>>,
}

/// How a [`ChainIndex`] is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChainOptions {
    /// Workers at a time, at most; [`WORKERS_MAX`] if none is given, and never more.
    pub workers_max: Option<u32>,
    /// Bytes that the index may take. A store that might pass it is refused with [`StoreError::OverBudget`].
    pub budget_bytes: Option<usize>,
    /// Two random words that key the tables, so that nobody can choose names or prompts that collide. From the standard
    /// library's `RandomState` if none are given.
    pub seed: Option<[u64; 2]>,
}

/// Sizes of a [`ChainIndex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainStats {
    /// Everything that the index keeps, in bytes.
    pub bytes: usize,
    /// Of these, bytes that come from the system without passing the allocator (on Linux).
    pub mapped_bytes: usize,
    /// Runs of up to 64 places.
    pub segments: usize,
    /// Workers in the index.
    pub workers: usize,
}

#[derive(Debug)]
struct Shared {
    core: Core,
    workers_max: u32,
    roster: RwLock<Roster>,
}

/// Who is in the index.
#[derive(Debug, Default)]
struct Roster {
    states: Vec<Option<Arc<Mutex<State>>>>,
    free: BinaryHeap<Reverse<u32>>,
}

impl ChainIndex {
    /// An empty index without a budget.
    pub fn new() -> Self {
        Self::with_options(&ChainOptions::default())
    }

    /// An empty index.
    pub fn with_options(options: &ChainOptions) -> Self {
        let seed = options.seed.unwrap_or_else(|| [0, 1].map(|word| RandomState::new().hash_one(word)));
        let workers_max = options.workers_max.unwrap_or(WORKERS_MAX).min(WORKERS_MAX);
        let core = Core::new(seed, options.budget_bytes);
        Self { shared: Arc::new(Shared { core, workers_max, roster: RwLock::default() }) }
    }

    /// How large the index is.
    pub fn stats(&self) -> ChainStats {
        let core = &self.shared.core;
        let workers = self.shared.roster.read().states.iter().flatten().count();
        ChainStats {
            bytes: core.bytes(),
            mapped_bytes: core.segments.mapped_bytes() + core.names.mapped_bytes(),
            segments: core.segments.count(),
            workers,
        }
    }

    fn state(&self, worker: WorkerId) -> Option<Arc<Mutex<State>>> {
        self.shared.roster.read().states.get(worker.0 as usize)?.clone()
    }
}

impl Default for ChainIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl Index for ChainIndex {
    type Worker = ChainWorker;

    fn add_worker(&self) -> Result<ChainWorker, WorkersExhausted> {
        let mut roster = self.shared.roster.write();
        let id = match roster.free.pop() {
            Some(Reverse(id)) => {
                // Release: a lookup that sees a word of the new owner sees that the number has changed hands.
                self.shared.core.epoch.fetch_add(1, Ordering::Release);
                id
            }
            None if roster.states.len() as u64 >= u64::from(self.shared.workers_max) => {
                return Err(WorkersExhausted { max: self.shared.workers_max });
            }
            None => {
                roster.states.push(None);
                self.shared.core.workers.store(roster.states.len(), Ordering::Relaxed);
                u32::try_from(roster.states.len() - 1).expect("below WORKERS_MAX")
            }
        };
        let state = Arc::new(Mutex::new(State::new(&self.shared.core, id)));
        roster.states[id as usize] = Some(Arc::clone(&state));
        Ok(ChainWorker { id, shared: Arc::clone(&self.shared), state })
    }

    fn find(&self, request: &[ContentHash], out: &mut Matches) {
        out.retries = self.shared.core.find(request, &mut out.active, &mut out.found);
    }

    fn coverage(&self, worker: WorkerId, view: View, request: &[ContentHash], out: &mut Runs) {
        out.clear();
        if let Some(slot) = slot(worker, view) {
            self.shared.core.coverage(slot, request, out);
        }
    }

    fn depth(&self, worker: WorkerId, view: View, request: &[ContentHash]) -> u32 {
        slot(worker, view).map_or(0, |slot| self.shared.core.depth(slot, request))
    }

    fn digest(&self, worker: WorkerId, view: View) -> Digest {
        let state = self.state(worker);
        state.and_then(|state| state.lock().digests.get(usize::from(view.0)).copied()).unwrap_or_default()
    }

    fn for_each_holding(&self, worker: WorkerId, visit: &mut dyn FnMut(Holding)) {
        let Some(state) = self.state(worker) else { return };
        let core = &self.shared.core;
        let holdings = Writer { core, state: &mut state.lock() }.holdings();
        holdings.into_iter().for_each(visit);
    }

    fn workers(&self) -> Vec<WorkerId> {
        let roster = self.shared.roster.read();
        (0..).map(WorkerId).zip(&roster.states).filter(|(_, state)| state.is_some()).map(|(id, _)| id).collect()
    }
}

impl ChainWorker {
    fn write<T>(&mut self, write: impl FnOnce(&mut Writer<'_>) -> T) -> T {
        let mut state = self.state.lock();
        let mut writer = Writer { core: &self.shared.core, state: &mut state };
        let answer = write(&mut writer);
        writer.report_bytes();
        answer
    }
}

impl Worker for ChainWorker {
    fn id(&self) -> WorkerId {
        WorkerId(self.id)
    }

    fn views(&self) -> u8 {
        self.state.lock().views()
    }

    fn add_view(&mut self) -> Result<View, ViewsExhausted> {
        self.write(|writer| match writer.state.views() {
            VIEWS_MAX => Err(ViewsExhausted { max: VIEWS_MAX }),
            views => {
                writer.state.digests.push(Digest::default());
                Ok(View(views))
            }
        })
    }

    fn store(
        &mut self,
        view: View,
        parent: Option<BlockName>,
        blocks: &[Block],
        out: &mut Vec<Stored>,
    ) -> Result<(), StoreError> {
        out.clear();
        self.write(|writer| {
            let views = writer.state.views();
            if view.0 >= views {
                return Err(StoreError::UnknownView { view, views });
            }
            let mut ahead = NamesAhead::of(writer, blocks);
            let place = match parent {
                None => None,
                Some(parent) => Some(writer.resolve(parent.0).ok_or(StoreError::ParentNotHeld { parent })?.0),
            };
            if let (Some(place), Some(block)) = (place, blocks.first()) {
                writer.core.prefetch_edge(place, block.content.0);
            }
            writer.check_budget(blocks.len())?;
            writer.store(view, place, blocks, &mut ahead, out);
            writer.core.compact(blocks.len());
            Ok(())
        })
    }

    fn remove(&mut self, view: View, names: &[BlockName], out: &mut Vec<Removed>) {
        out.clear();
        if view.0 >= self.views() {
            return out.resize(names.len(), Removed::Unknown);
        }
        self.write(|writer| {
            writer.fetch_names(names);
            writer.remove(view, names, out);
            writer.core.compact(names.len());
        });
    }

    fn holds(&self, view: View, name: BlockName) -> bool {
        let mut state = self.state.lock();
        let writer = Writer { core: &self.shared.core, state: &mut state };
        view.0 < VIEWS_MAX && writer.resolve(name.0).is_some_and(|(_, views)| views >> view.0 & 1 == 1)
    }

    fn knows(&self, name: BlockName) -> bool {
        let mut state = self.state.lock();
        Writer { core: &self.shared.core, state: &mut state }.resolve(name.0).is_some()
    }

    fn clear_view(&mut self, view: View) {
        self.write(|writer| {
            if writer.state.views() == 1 && view == View::MAIN {
                return writer.clear();
            }
            let names: Vec<BlockName> =
                writer.holdings().into_iter().filter(|holding| holding.view == view).map(|holding| holding.name).collect();
            if !names.is_empty() {
                writer.remove(view, &names, &mut Vec::with_capacity(names.len()));
            }
        });
    }

    fn clear(&mut self) {
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method's lifetime is not general enough")]
        self.write(|writer| writer.clear());
    }
}

impl Drop for ChainWorker {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        Writer { core: &self.shared.core, state: &mut state }.clear();
        state.leave(&self.shared.core);
        drop(state);
        let mut roster = self.shared.roster.write();
        roster.states[self.id as usize] = None;
        roster.free.push(Reverse(self.id));
    }
}

impl Writer<'_> {
    /// Whether `blocks` more blocks, all of them new, are within the budget.
    fn check_budget(&self, blocks: usize) -> Result<(), StoreError> {
        let Some(budget_bytes) = self.core.budget else {
            let ids = self.core.segments.count() + blocks;
            let full = StoreError::OverBudget { budget_bytes: usize::MAX, needed_bytes: 0 };
            return if ids < SEGMENTS_MAX as usize / 2 { Ok(()) } else { Err(full) };
        };
        // 16 bytes of content and name, an entry of the name table at its emptiest, and a segment's header and growth.
        let wanted = self.core.bytes() + blocks * 32 + (blocks / 64 + 1) * 512;
        if wanted > budget_bytes {
            return Err(StoreError::OverBudget { budget_bytes, needed_bytes: wanted - budget_bytes });
        }
        Ok(())
    }

    /// Everything that the worker holds.
    fn holdings(&self) -> Vec<Holding> {
        let mut all = Vec::new();
        for id in self.state.roll.segments() {
            let Some(segment) = self.core.segments.lock(id) else { continue };
            self.segment_holdings(&segment, &mut all);
        }
        if self.state.naming.private {
            for (name, place) in self.state.naming.own.iter() {
                let segment = self.core.segments.lock(place.segment()).expect("a worker's places stay");
                let views = self.state.naming.views(place, name, self.covering_locked(&segment, place));
                push_holdings(&segment, place, name, views, &mut all);
            }
        }
        all
    }

    /// What an agreeing worker holds of a segment.
    fn segment_holdings(&self, segment: &crate::raw::segments::Locked<'_>, all: &mut Vec<Holding>) {
        if self.state.naming.private {
            return;
        }
        let record = segment.record();
        let meta = record.meta();
        let names = record.names(meta, meta.len);
        for place in (0..meta.len).map(|at| Place::new(segment.id, at)) {
            let covering = self.covering_locked(segment, place);
            if covering == 0 {
                continue;
            }
            let (default_views, others) = self.state.naming.at(place, covering);
            if default_views != 0 {
                push_holdings(segment, place, names[place.offset()].load(Ordering::Relaxed), default_views, all);
            }
            for &(name, views) in others {
                push_holdings(segment, place, name, views, all);
            }
        }
    }
}

fn push_holdings(segment: &crate::raw::segments::Locked<'_>, place: Place, name: u64, views: u32, all: &mut Vec<Holding>) {
    let (position, content) = state::position_and_content(segment, place.offset());
    all.extend(state::bits(views).map(|view| Holding { view: View(view as u8), position, content, name: BlockName(name) }));
}

/// The slot of a worker's view, if there can be such a one.
fn slot(worker: WorkerId, view: View) -> Option<Slot> {
    (worker.0 < WORKERS_MAX && view.0 < VIEWS_MAX).then(|| Slot::new(worker.0, view.0))
}
