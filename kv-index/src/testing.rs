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

mod plan;

use std::collections::BTreeSet;

use proptest::prelude::*;

pub use plan::{Job, Plan, Seats, with_replacements};

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
#[expect(clippy::large_enum_variant, reason = "one at a time, in tests")]
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

    /// A driver of an `index` that has workers already, one in each seat.
    pub fn with_workers(index: I, workers: impl IntoIterator<Item = I::Worker>) -> Self {
        Self { index, seats: workers.into_iter().map(Some).collect() }
    }

    /// The index, for lookups.
    pub fn index(&self) -> &I {
        &self.index
    }

    /// The workers that are seated, in the order of their seats.
    pub fn workers(&self) -> impl Iterator<Item = &I::Worker> {
        self.seats.iter().flatten()
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
    assert_same_under(left, right, |worker| worker);
}

/// Asserts the same of two indexes whose workers have different ids: `twin` is the id on the right of one on the left.
///
/// # Panics
/// When they differ.
pub fn assert_same_under(left: &impl Index, right: &impl Index, twin: impl Fn(WorkerId) -> WorkerId) {
    let mut twins: Vec<WorkerId> = left.workers().into_iter().map(&twin).collect();
    twins.sort_unstable();
    assert_eq!(twins, right.workers());
    for worker in left.workers() {
        let held = holdings(left, worker);
        assert_eq!(held, holdings(right, twin(worker)), "{worker}");
        for view in (0..crate::limits::VIEWS_MAX).map(View) {
            let mut expected = Digest::default();
            held.iter().filter(|holding| holding.view == view).for_each(|h| expected.add(h.position, h.content, h.name));
            assert_eq!(left.digest(worker, view), expected, "{worker} {view}");
            assert_eq!(right.digest(twin(worker), view), expected, "{worker} {view}");
        }
    }
}

/// A row that a lookup reports, for expectations.
pub const fn row(depth: u32, worker: WorkerId, view: View) -> Match {
    Match { depth, worker, view }
}

/// How the traffic of a fleet is drawn: prompts share heads, many workers hold one prompt, and most of them agree on names.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// Seats.
    pub workers: usize,
    /// Views of a worker, at most.
    pub views: u8,
    /// Different prompts alive at a time. One in forty stores brings a new one.
    pub prompts: usize,
    /// Blocks of a prompt, at most.
    pub blocks: usize,
    /// Of 10,000 blocks, how many are named otherwise than the fleet does.
    pub odd_names: u64,
    /// Of 100 workers, how many name every block in their own way.
    pub loners: u64,
    /// A worker is sent one in so many prompts and never any of the others.
    pub spread: usize,
}

impl Fleet {
    /// Workers that agree, as those of SGLang do.
    pub const AGREEING: Self = Self { workers: 12, views: 1, prompts: 12, blocks: 200, odd_names: 0, loners: 0, spread: 1 };
    /// A few names in conflict, several views.
    pub const MIXED: Self = Self { workers: 8, views: 3, prompts: 10, blocks: 150, odd_names: 50, loners: 30, spread: 1 };
    /// Every worker for itself, as with vLLM's random seeds.
    pub const LONERS: Self = Self { workers: 6, views: 1, prompts: 8, blocks: 150, odd_names: 0, loners: 100, spread: 1 };
    /// One prompt set for very many.
    pub const CROWD: Self = Self { workers: 300, views: 1, prompts: 3, blocks: 130, odd_names: 0, loners: 1, spread: 1 };
}

/// `count` operations of a fleet under one seed.
pub fn fleet_ops(seed: u64, count: usize, fleet: &Fleet) -> Vec<Op> {
    let mut traffic = Traffic::new(seed, *fleet);
    (0..count).map(|nth| traffic.op(nth)).collect()
}

struct Traffic {
    draw: Draw,
    fleet: Fleet,
    prompts: Vec<Vec<ContentHash>>,
}

impl Traffic {
    fn new(seed: u64, fleet: Fleet) -> Self {
        let mut traffic = Self { draw: Draw(seed), fleet, prompts: Vec::new() };
        for _ in 0..fleet.prompts {
            let prompt = traffic.prompt();
            traffic.prompts.push(prompt);
        }
        traffic
    }

    /// A new prompt: now and then one of its own, mostly one that leaves an older one somewhere.
    fn prompt(&mut self) -> Vec<ContentHash> {
        let mut prompt = Vec::new();
        if !self.prompts.is_empty() && self.draw.below(5) > 0 {
            let older = self.pick();
            prompt.extend(&older[..self.draw.size(older.len())]);
        }
        let length = 1 + self.draw.size(self.fleet.blocks - 1);
        while prompt.len() < length {
            prompt.push(ContentHash(self.draw.next()));
        }
        prompt
    }

    fn pick(&mut self) -> Vec<ContentHash> {
        let nth = self.draw.size(self.prompts.len() - 1);
        self.prompts[nth].clone()
    }

    /// One of the prompts that the worker in `seat` is sent.
    fn pick_for(&mut self, seat: usize) -> Vec<ContentHash> {
        let nth = self.draw.size(self.prompts.len() - 1);
        let own = nth - nth % self.fleet.spread + seat % self.fleet.spread;
        self.prompts[own.min(self.prompts.len() - 1)].clone()
    }

    fn op(&mut self, nth: usize) -> Op {
        if nth < self.fleet.workers {
            return Op::Add { views: 1 + self.draw.small(self.fleet.views) };
        }
        let seat = self.draw.size(self.fleet.workers - 1);
        let view = self.draw.small(self.fleet.views);
        match self.draw.below(1_000) {
            0..2 => Op::Drop { seat },
            2..4 => Op::Add { views: 1 + self.draw.small(self.fleet.views) },
            4..8 => Op::Clear { seat, view: (self.draw.below(2) > 0).then_some(view) },
            8..400 => self.store(seat, view),
            400..750 => Op::Remove { seat, view, names: self.removal(seat) },
            _ => Op::Find { request: self.request() },
        }
    }

    fn store(&mut self, seat: usize, view: u8) -> Op {
        if self.draw.below(40) == 0 {
            let nth = self.draw.size(self.prompts.len() - 1);
            self.prompts[nth] = self.prompt();
        }
        let prompt = self.pick_for(seat);
        let from = if self.draw.below(2) == 0 { 0 } else { self.draw.size(prompt.len()) };
        let to = if self.draw.below(2) == 0 { prompt.len() } else { from + self.draw.size(prompt.len() - from) };
        let parent = from.checked_sub(1).map(|last| self.name(seat, &prompt[..=last]));
        let odd = self.fleet.odd_names;
        let blocks = (from..to).map(|at| {
            let name =
                if self.draw.below(10_000) < odd { BlockName(self.draw.below(50)) } else { self.name(seat, &prompt[..=at]) };
            Block { name: (odd == 0 || self.draw.below(50) > 0).then_some(name), content: prompt[at] }
        });
        Op::Store { seat, view, parent, blocks: blocks.collect() }
    }

    /// What the worker in `seat` calls the last block of a path.
    fn name(&self, seat: usize, path: &[ContentHash]) -> BlockName {
        let chain = path.iter().fold(0, |hash, content| Draw(hash ^ content.0).next());
        let loner = Draw(seat as u64).below(100) < self.fleet.loners;
        BlockName(if loner { Draw(chain ^ seat as u64).next() } else { chain })
    }

    /// Names of a part of a prompt: tail first, head first, or scattered.
    fn removal(&mut self, seat: usize) -> Vec<BlockName> {
        let prompt = self.pick_for(seat);
        let from = self.draw.size(prompt.len() - 1);
        let to = if self.draw.below(2) == 0 { prompt.len() } else { from + self.draw.size((prompt.len() - from).min(20)) };
        let mut names: Vec<BlockName> = (from..to).map(|at| self.name(seat, &prompt[..=at])).collect();
        match self.draw.below(3) {
            0 => names.reverse(),
            1 => names.retain(|_| self.draw.below(4) == 0),
            _ => {}
        }
        names
    }

    fn request(&mut self) -> Vec<ContentHash> {
        let mut prompt = self.pick();
        if self.draw.below(4) == 0 {
            prompt.truncate(self.draw.size(prompt.len()));
        }
        (0..self.draw.below(4)).for_each(|_| prompt.push(ContentHash(self.draw.below(3))));
        prompt
    }
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
