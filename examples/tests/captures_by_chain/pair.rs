//! The chain index and the reference as one index: what is written goes to both, and both must say the same of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kv_index::{
    Block, BlockName, ChainIndex, ChainWorker, ContentHash, Digest, Holding, Index, Matches, ReferenceIndex, ReferenceWorker,
    Removed, Runs, StoreError, Stored, View, ViewsExhausted, Worker, WorkerId, WorkersExhausted,
};

#[derive(Default)]
pub(crate) struct Pair {
    pub(crate) chain: ChainIndex,
    pub(crate) reference: ReferenceIndex,
    pub(crate) chains: Arc<Chains>,
}

/// Every path that was ever stored along, in the order in which they came.
#[derive(Default)]
pub(crate) struct Chains(Mutex<Vec<Vec<ContentHash>>>);

pub(crate) struct PairWorker {
    chain: ChainWorker,
    reference: ReferenceWorker,
    chains: Arc<Chains>,
    /// The path to each name's latest place.
    paths: HashMap<BlockName, Vec<ContentHash>>,
}

impl Chains {
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn at(&self, number: usize) -> Vec<ContentHash> {
        self.0.lock().unwrap()[number].clone()
    }
}

impl PairWorker {
    fn note(&mut self, parent: Option<BlockName>, blocks: &[Block]) {
        let mut path = parent.map(|parent| self.paths[&parent].clone()).unwrap_or_default();
        for block in blocks {
            path.push(block.content);
            if let Some(name) = block.name {
                self.paths.insert(name, path.clone());
            }
        }
        self.chains.0.lock().unwrap().push(path);
    }
}

impl Index for Pair {
    type Worker = PairWorker;

    fn add_worker(&self) -> Result<PairWorker, WorkersExhausted> {
        let (chain, reference) = (self.chain.add_worker()?, self.reference.add_worker()?);
        assert_eq!(chain.id(), reference.id());
        Ok(PairWorker { chain, reference, chains: self.chains.clone(), paths: HashMap::new() })
    }

    fn find(&self, request: &[ContentHash], out: &mut Matches) {
        self.chain.find(request, out);
    }

    fn coverage(&self, worker: WorkerId, view: View, request: &[ContentHash], out: &mut Runs) {
        self.chain.coverage(worker, view, request, out);
    }

    fn depth(&self, worker: WorkerId, view: View, request: &[ContentHash]) -> u32 {
        self.chain.depth(worker, view, request)
    }

    fn digest(&self, worker: WorkerId, view: View) -> Digest {
        self.chain.digest(worker, view)
    }

    fn for_each_holding(&self, worker: WorkerId, visit: &mut dyn FnMut(Holding)) {
        self.chain.for_each_holding(worker, visit);
    }

    fn workers(&self) -> Vec<WorkerId> {
        self.chain.workers()
    }
}

/// What both said, which is one thing.
fn agreed<T: PartialEq + std::fmt::Debug>(chain: T, reference: &T) -> T {
    assert_eq!(chain, *reference, "the chain index says the one, the reference the other");
    chain
}

impl Worker for PairWorker {
    fn id(&self) -> WorkerId {
        self.chain.id()
    }

    fn views(&self) -> u8 {
        agreed(self.chain.views(), &self.reference.views())
    }

    fn add_view(&mut self) -> Result<View, ViewsExhausted> {
        agreed(self.chain.add_view(), &self.reference.add_view())
    }

    fn store(
        &mut self,
        view: View,
        parent: Option<BlockName>,
        blocks: &[Block],
        out: &mut Vec<Stored>,
    ) -> Result<(), StoreError> {
        let mut expected = Vec::new();
        let reference = self.reference.store(view, parent, blocks, &mut expected);
        let result = agreed(self.chain.store(view, parent, blocks, out), &reference);
        assert_eq!(*out, expected, "{parent:?} {blocks:?}");
        if result.is_ok() {
            self.note(parent, blocks);
        }
        result
    }

    fn remove(&mut self, view: View, names: &[BlockName], out: &mut Vec<Removed>) {
        let mut expected = Vec::new();
        self.reference.remove(view, names, &mut expected);
        self.chain.remove(view, names, out);
        assert_eq!(*out, expected, "{names:?}");
    }

    fn holds(&self, view: View, name: BlockName) -> bool {
        agreed(self.chain.holds(view, name), &self.reference.holds(view, name))
    }

    fn knows(&self, name: BlockName) -> bool {
        agreed(self.chain.knows(name), &self.reference.knows(name))
    }

    fn clear_view(&mut self, view: View) {
        self.chain.clear_view(view);
        self.reference.clear_view(view);
    }

    fn clear(&mut self) {
        self.chain.clear();
        self.reference.clear();
        self.paths.clear();
    }
}
