//! The chain index and the reference on one stage: what is done is done to both, and every answer and everything held is compared.

use kv_index::testing::{Answer, Driver, Op, assert_same};
use kv_index::{
    Block, BlockName, ChainIndex, ChainOptions, ContentHash, Index, ReferenceIndex, Removed, StoreError, Stored, View, WorkerId,
};

/// Fixed, so that a failure comes again.
const SEED: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

/// Workers sit in seats, the first in seat 0.
pub(crate) struct Scene {
    pub(crate) chain: Driver<ChainIndex>,
    reference: Driver<ReferenceIndex>,
}

/// Blocks that are named `names` and hold the contents of `contents`.
pub(crate) fn blocks(names: impl IntoIterator<Item = u64>, contents: impl IntoIterator<Item = u64>) -> Vec<Block> {
    let pairs = names.into_iter().zip(contents);
    pairs.map(|(name, content)| Block::named(BlockName(name), ContentHash(content))).collect()
}

/// Blocks whose names are as the fleet agrees on them.
pub(crate) fn agreed(contents: impl IntoIterator<Item = u64> + Clone) -> Vec<Block> {
    blocks(contents.clone().into_iter().map(|content| content + 1_000_000_000), contents)
}

pub(crate) fn request(contents: impl IntoIterator<Item = u64>) -> Vec<ContentHash> {
    contents.into_iter().map(ContentHash).collect()
}

pub(crate) fn seeded() -> ChainOptions {
    ChainOptions { seed: Some(SEED), ..ChainOptions::default() }
}

#[allow(dead_code, reason = "each test binary uses its part")]
impl Scene {
    /// `workers` workers with one view.
    pub(crate) fn new(workers: usize) -> Self {
        Self::with_views(workers, 1)
    }

    pub(crate) fn with_views(workers: usize, views: u8) -> Self {
        let chain = Driver::new(ChainIndex::with_options(&seeded()));
        let mut scene = Self { chain, reference: Driver::new(ReferenceIndex::new()) };
        (0..workers).for_each(|_| _ = scene.add_with(views));
        scene
    }

    pub(crate) fn add(&mut self) -> WorkerId {
        self.add_with(1)
    }

    fn add_with(&mut self, views: u8) -> WorkerId {
        match self.both(&Op::Add { views }) {
            Answer::Added(worker) => worker,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn leave(&mut self, seat: usize) {
        self.both(&Op::Drop { seat });
        self.compare();
    }

    pub(crate) fn store(&mut self, seat: usize, parent: Option<u64>, blocks: &[Block]) -> Vec<Stored> {
        self.store_in(0, seat, parent, blocks)
    }

    pub(crate) fn store_in(&mut self, view: u8, seat: usize, parent: Option<u64>, blocks: &[Block]) -> Vec<Stored> {
        self.offer(view, seat, parent, blocks).unwrap()
    }

    pub(crate) fn offer(
        &mut self,
        view: u8,
        seat: usize,
        parent: Option<u64>,
        blocks: &[Block],
    ) -> Result<Vec<Stored>, StoreError> {
        match self.both(&Op::Store { seat, view, parent: parent.map(BlockName), blocks: blocks.to_vec() }) {
            Answer::Stored(stored) => stored,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn remove(&mut self, seat: usize, names: impl IntoIterator<Item = u64>) -> Vec<Removed> {
        self.remove_in(0, seat, names)
    }

    pub(crate) fn remove_in(&mut self, view: u8, seat: usize, names: impl IntoIterator<Item = u64>) -> Vec<Removed> {
        match self.both(&Op::Remove { seat, view, names: names.into_iter().map(BlockName).collect() }) {
            Answer::Removed(removed) => removed,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn clear(&mut self, seat: usize, view: Option<u8>) {
        self.both(&Op::Clear { seat, view });
        self.compare();
    }

    /// How much of the request each worker that holds its first block holds of it in its first view, by id; all other answers
    /// about it are compared as well.
    pub(crate) fn depths(&mut self, contents: impl IntoIterator<Item = u64>) -> Vec<(u32, u64)> {
        let Answer::Found(matches, _) = self.both(&Op::Find { request: request(contents) }) else {
            panic!("nothing was found out")
        };
        let mut depths: Vec<_> =
            matches.iter().filter(|row| row.view == View::MAIN).map(|row| (row.worker.0, u64::from(row.depth))).collect();
        depths.sort_unstable();
        depths
    }

    /// Compares everything that is held.
    pub(crate) fn compare(&self) {
        assert_same(self.chain.index(), self.reference.index());
    }

    pub(crate) fn segments(&self) -> usize {
        self.chain.index().stats().segments
    }

    pub(crate) fn count(&self, worker: WorkerId) -> u64 {
        self.chain.index().digest(worker, View::MAIN).count
    }

    fn both(&mut self, op: &Op) -> Answer {
        let (chain, reference) = (self.chain.apply(op), self.reference.apply(op));
        assert_eq!(chain, reference, "{op:?}");
        chain
    }
}
