//! One vocabulary of operations for everybody who tests an index: property tests, fuzzing, stress and benches apply the
//! same [`Op`]s, and compare the same [`Answer`]s.
//!
//! ```
//! use kv_index::ReferenceIndex;
//! use kv_index::testing::{assert_same, random_ops, Driver, Mix};
//!
//! let ops = random_ops(7, 1_000, &Mix::DENSE);
//! let (mut left, mut right) = (Driver::new(ReferenceIndex::new()), Driver::new(ReferenceIndex::new()));
//! for op in &ops {
//!     assert_eq!(left.apply(op), right.apply(op));
//! }
//! assert_same(left.index(), right.index());
//! ```

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::{
    Block, BlockName, ContentHash, Digest, Holding, Index, Match, Matches, Removed, Runs, StoreError, Stored, View, Worker,
    WorkerId,
};

/// One call on an index or on one of its workers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Takes a worker in, in the lowest free seat, with so many views.
    Add {
        /// At least 1.
        views: u8,
    },
    /// Drops the worker in a seat.
    Drop {
        /// Which worker; a seat beyond the last wraps around.
        seat: usize,
    },
    /// Stores blocks.
    Store {
        /// Which worker.
        seat: usize,
        /// Which view; one beyond the last wraps around.
        view: u8,
        /// The parent's name.
        parent: Option<BlockName>,
        /// The blocks, in path order.
        blocks: Vec<Block>,
    },
    /// Removes names.
    Remove {
        /// Which worker.
        seat: usize,
        /// Which view.
        view: u8,
        /// The names.
        names: Vec<BlockName>,
    },
    /// Clears one view, or the whole worker.
    Clear {
        /// Which worker.
        seat: usize,
        /// Which view; none for all.
        view: Option<u8>,
    },
    /// Looks a request up, in every way there is.
    Find {
        /// The request.
        request: Vec<ContentHash>,
    },
}

/// What an [`Op`] answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing to compare: the seat was empty, or the call answers nothing.
    None,
    /// The worker's id.
    Added(WorkerId),
    /// What happened to each block, or why the store was refused.
    Stored(Result<Vec<Stored>, StoreError>),
    /// What happened to each name.
    Removed(Vec<Removed>),
    /// The matches, and the runs of every worker and view in order.
    Found(Matches, Vec<Runs>),
}

/// Applies operations to an index and keeps the workers' handles.
#[derive(Debug)]
pub struct Driver<I: Index> {
    index: I,
    seats: Vec<Option<I::Worker>>,
}

/// How random operations are drawn. Small alphabets make twins, moves and repeats ordinary.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Workers alive at a time, at most.
    pub workers: usize,
    /// Views of a worker, at most.
    pub views: u8,
    /// Different names.
    pub names: u64,
    /// Different contents.
    pub contents: u64,
    /// Blocks of one store, at most.
    pub blocks: usize,
}

impl Mix {
    /// Everything collides with everything.
    pub const DENSE: Self = Self { workers: 3, views: 3, names: 12, contents: 3, blocks: 5 };
    /// Long chains that seldom collide.
    pub const LONG: Self = Self { workers: 4, views: 2, names: 4_000, contents: 2, blocks: 150 };
}

impl<I: Index> Driver<I> {
    /// A driver of an empty `index`.
    pub fn new(index: I) -> Self {
        Self { index, seats: Vec::new() }
    }

    /// The index, for lookups.
    pub fn index(&self) -> &I {
        &self.index
    }

    /// Applies one operation.
    pub fn apply(&mut self, op: &Op) -> Answer {
        match op {
            Op::Add { views } => self.add(*views),
            Op::Drop { seat } => {
                if let Some(seat) = self.seat(*seat) {
                    self.seats[seat] = None;
                }
                Answer::None
            }
            Op::Store { seat, view, parent, blocks } => self.with(*seat, |worker| {
                let mut out = vec![Stored::Moved; 3];
                let view = View(view % worker.views());
                Answer::Stored(worker.store(view, *parent, blocks, &mut out).map(|()| out))
            }),
            Op::Remove { seat, view, names } => self.with(*seat, |worker| {
                let mut out = vec![Removed::Unknown; 3];
                worker.remove(View(view % worker.views()), names, &mut out);
                Answer::Removed(out)
            }),
            Op::Clear { seat, view } => self.with(*seat, |worker| {
                match view {
                    Some(view) => worker.clear_view(View(view % worker.views())),
                    None => worker.clear(),
                }
                Answer::None
            }),
            Op::Find { request } => self.find(request),
        }
    }

    fn add(&mut self, views: u8) -> Answer {
        let Ok(mut worker) = self.index.add_worker() else { return Answer::None };
        for _ in 1..views {
            worker.add_view().expect("the mix asks for few views");
        }
        let id = worker.id();
        match self.seats.iter().position(Option::is_none) {
            Some(seat) => self.seats[seat] = Some(worker),
            None => self.seats.push(Some(worker)),
        }
        Answer::Added(id)
    }

    fn find(&self, request: &[ContentHash]) -> Answer {
        let mut matches = Matches::new();
        self.index.find(request, &mut matches);
        let mut all = Vec::new();
        for worker in self.seats.iter().flatten() {
            for view in (0..worker.views()).map(View) {
                let mut runs = Runs::new();
                self.index.coverage(worker.id(), view, request, &mut runs);
                let depth = self.index.depth(worker.id(), view, request);
                assert_eq!((runs.depth(), matches.depth(worker.id(), view)), (depth, depth), "{} {view}", worker.id());
                all.push(runs);
            }
        }
        Answer::Found(matches, all)
    }

    fn seat(&self, seat: usize) -> Option<usize> {
        seat.checked_rem(self.seats.len())
    }

    fn with(&mut self, seat: usize, call: impl FnOnce(&mut I::Worker) -> Answer) -> Answer {
        let seat = self.seat(seat);
        seat.and_then(|seat| self.seats[seat].as_mut()).map_or(Answer::None, call)
    }
}

/// Everything that `worker` holds.
///
/// # Panics
/// When the index visits one holding twice.
pub fn holdings(index: &impl Index, worker: WorkerId) -> BTreeSet<Holding> {
    let mut all = BTreeSet::new();
    index.for_each_holding(worker, &mut |holding| assert!(all.insert(holding), "{holding:?} is visited twice"));
    all
}

/// Asserts that two indexes hold the same, and that each digest is that of the holdings.
///
/// # Panics
/// When they differ.
pub fn assert_same(left: &impl Index, right: &impl Index) {
    assert_eq!(left.workers(), right.workers());
    for worker in left.workers() {
        let held = holdings(left, worker);
        assert_eq!(held, holdings(right, worker), "{worker}");
        for view in (0..crate::limits::VIEWS_MAX).map(View) {
            let mut expected = Digest::default();
            held.iter().filter(|holding| holding.view == view).for_each(|h| expected.add(h.position, h.content, h.name));
            assert_eq!(left.digest(worker, view), expected, "{worker} {view}");
            assert_eq!(right.digest(worker, view), expected, "{worker} {view}");
        }
    }
}

/// A row that a lookup reports, for expectations.
pub const fn row(depth: u32, worker: WorkerId, view: View) -> Match {
    Match { depth, worker, view }
}

/// Draws any one operation of a mix.
pub fn any_op(mix: Mix) -> impl Strategy<Value = Op> {
    any::<u64>().prop_map(move |seed| Draw(seed).op(&mix))
}

/// Draws a sequence of operations that shrinks by leaving operations out.
pub fn any_ops(mix: Mix, most: usize) -> impl Strategy<Value = Vec<Op>> {
    proptest::collection::vec(any_op(mix), 0..most)
}

/// `count` operations under one seed.
pub fn random_ops(seed: u64, count: usize, mix: &Mix) -> Vec<Op> {
    let mut draw = Draw(seed);
    (0..count).map(|_| draw.op(mix)).collect()
}

/// `SplitMix64` (Steele, Lea, Flood 2014): small, seedable, and the same everywhere.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn size(&mut self, most: usize) -> usize {
        usize::try_from(self.below(most as u64 + 1)).expect("below a usize")
    }

    fn small(&mut self, bound: u8) -> u8 {
        u8::try_from(self.below(u64::from(bound))).expect("below a u8")
    }

    fn op(&mut self, mix: &Mix) -> Op {
        let seat = self.size(mix.workers - 1);
        let view = self.small(mix.views);
        match self.below(100) {
            0..5 => Op::Add { views: 1 + self.small(mix.views) },
            5..7 => Op::Drop { seat },
            7..50 => self.store(seat, view, mix),
            50..72 => Op::Remove { seat, view, names: self.names(mix) },
            72..75 => Op::Clear { seat, view: (self.below(3) > 0).then_some(view) },
            _ => Op::Find { request: self.contents(mix) },
        }
    }

    fn store(&mut self, seat: usize, view: u8, mix: &Mix) -> Op {
        let parent = (self.below(4) > 0).then(|| self.name(mix));
        let named = |draw: &mut Self| (draw.below(5) > 0).then(|| draw.name(mix));
        let blocks = self.contents(mix).into_iter().map(|content| Block { name: named(self), content }).collect();
        Op::Store { seat, view, parent, blocks }
    }

    fn name(&mut self, mix: &Mix) -> BlockName {
        BlockName(self.below(mix.names))
    }

    fn names(&mut self, mix: &Mix) -> Vec<BlockName> {
        (0..self.size(mix.blocks)).map(|_| self.name(mix)).collect()
    }

    fn contents(&mut self, mix: &Mix) -> Vec<ContentHash> {
        (0..self.size(mix.blocks)).map(|_| ContentHash(self.below(mix.contents))).collect()
    }
}
