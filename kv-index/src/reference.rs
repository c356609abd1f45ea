//! The contract, literally: slow, and obviously right.
//!
//! Each worker is a tree of its own. A node is a place (a path of content hashes from the root) and carries the
//! (view, name) pairs held there; a map finds a name's node. Nothing is shared between workers, so rule 12 of
//! [`crate::index`] cannot be broken, and a lookup walks every worker's tree.

use std::collections::BTreeMap;
use std::io::Write;
use std::slice;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;

use crate::limits::{VIEWS_MAX, WORKERS_MAX};
use crate::snapshot::{Held, Parts, Section, Stretch, WriteError};
use crate::{
    Block, BlockName, ContentHash, Digest, Holding, Index, Match, Matches, Removed, Runs, StoreError, Stored, View,
    ViewsExhausted, Worker, WorkerId, WorkersExhausted,
};

/// The reference model. Use it to test an index against, or where a fleet is small.
///
/// One lock guards everything: a writer makes readers wait.
#[derive(Clone, Debug)]
pub struct ReferenceIndex {
    shared: Arc<RwLock<Trees>>,
    workers_max: u32,
}

/// The writing end of one worker of a [`ReferenceIndex`]. Dropping it removes the worker.
#[derive(Debug)]
pub struct ReferenceWorker {
    id: WorkerId,
    shared: Arc<RwLock<Trees>>,
}

type Trees = BTreeMap<WorkerId, Tree>;

impl ReferenceIndex {
    /// An empty index for up to [`WORKERS_MAX`] workers.
    pub fn new() -> Self {
        Self::with_workers_max(WORKERS_MAX)
    }

    /// An empty index for up to `workers_max` workers.
    pub fn with_workers_max(workers_max: u32) -> Self {
        Self { shared: Arc::default(), workers_max }
    }
}

impl Default for ReferenceIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl Index for ReferenceIndex {
    type Worker = ReferenceWorker;

    fn add_worker(&self) -> Result<ReferenceWorker, WorkersExhausted> {
        let mut trees = self.shared.write();
        let id = (0..self.workers_max).map(WorkerId).find(|id| !trees.contains_key(id));
        let id = id.ok_or(WorkersExhausted { max: self.workers_max })?;
        trees.insert(id, Tree::new(1));
        Ok(ReferenceWorker { id, shared: Arc::clone(&self.shared) })
    }

    fn find(&self, request: &[ContentHash], out: &mut Matches) {
        out.clear();
        for (&worker, tree) in self.shared.read().iter() {
            for view in tree.views() {
                out.push(Match { depth: tree.depth(view, request), worker, view });
            }
        }
        out.finish();
    }

    fn coverage(&self, worker: WorkerId, view: View, request: &[ContentHash], out: &mut Runs) {
        out.clear();
        if let Some(tree) = self.shared.read().get(&worker) {
            for (position, node) in (0..).zip(tree.walk(request)) {
                if tree.covers(node, view) {
                    out.push(position, position + 1);
                }
            }
        }
    }

    fn depth(&self, worker: WorkerId, view: View, request: &[ContentHash]) -> u32 {
        self.shared.read().get(&worker).map_or(0, |tree| tree.depth(view, request))
    }

    fn digest(&self, worker: WorkerId, view: View) -> Digest {
        let trees = self.shared.read();
        trees.get(&worker).and_then(|tree| tree.digests.get(usize::from(view.0))).copied().unwrap_or_default()
    }

    fn for_each_holding(&self, worker: WorkerId, visit: &mut dyn FnMut(Holding)) {
        // Collected first: the caller may use the index in `visit`, and a lock held meanwhile would wait for itself.
        let holdings: Vec<Holding> = self.shared.read().get(&worker).into_iter().flat_map(Tree::holdings).collect();
        holdings.into_iter().for_each(visit);
    }

    fn workers(&self) -> Vec<WorkerId> {
        self.shared.read().keys().copied().collect()
    }
}

impl ReferenceWorker {
    fn read<T>(&self, read: impl FnOnce(&Tree) -> T) -> T {
        read(&self.shared.read()[&self.id])
    }

    fn write<T>(&mut self, write: impl FnOnce(&mut Tree) -> T) -> T {
        let mut trees = self.shared.write();
        write(trees.get_mut(&self.id).expect("a worker's tree lives as long as its handle"))
    }
}

impl Worker for ReferenceWorker {
    fn id(&self) -> WorkerId {
        self.id
    }

    fn views(&self) -> u8 {
        self.read(Tree::views_len)
    }

    fn add_view(&mut self) -> Result<View, ViewsExhausted> {
        self.write(|tree| match tree.views_len() {
            VIEWS_MAX => Err(ViewsExhausted { max: VIEWS_MAX }),
            views => {
                tree.digests.push(Digest::default());
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
        self.write(|tree| tree.store(view, parent, blocks, out))
    }

    fn remove(&mut self, view: View, names: &[BlockName], out: &mut Vec<Removed>) {
        out.clear();
        self.write(|tree| out.extend(names.iter().map(|&name| tree.remove(view, name))));
    }

    fn holds(&self, view: View, name: BlockName) -> bool {
        self.read(|tree| tree.names.get(&name).is_some_and(|&place| tree.nodes[place].held.contains(&(view, name))))
    }

    fn knows(&self, name: BlockName) -> bool {
        self.read(|tree| tree.names.contains_key(&name))
    }

    fn clear_view(&mut self, view: View) {
        self.write(|tree| {
            let names: Vec<BlockName> =
                tree.nodes.iter().flat_map(|node| &node.held).filter(|held| held.0 == view).map(|held| held.1).collect();
            names.into_iter().for_each(|name| _ = tree.remove(view, name));
        });
    }

    fn clear(&mut self) {
        self.write(|tree| *tree = Tree::new(tree.views_len()));
    }
}

impl Parts for ReferenceWorker {
    type Place = NodeId;

    fn digest(&self, view: View) -> Digest {
        self.read(|tree| tree.digests[usize::from(view.0)])
    }

    /// With the index locked for writers.
    fn write_stretches<W: Write>(&self, section: &mut Section<'_, W>) -> Result<(), WriteError> {
        self.read(|tree| tree.write_stretches(section))
    }

    fn store_after(
        &mut self,
        view: View,
        parent: Option<NodeId>,
        blocks: &[Block],
        out: &mut Vec<Stored>,
    ) -> Result<(), StoreError> {
        out.clear();
        self.write(|tree| tree.store_at(view, parent.unwrap_or(ROOT), blocks, out));
        Ok(())
    }

    fn place_after(&self, parent: Option<NodeId>, path: &[ContentHash]) -> Option<NodeId> {
        self.read(|tree| {
            let mut path = path.iter();
            path.try_fold(parent.unwrap_or(ROOT), |node, &content| tree.children.get(&(node, content)).copied())
        })
    }
}

impl Drop for ReferenceWorker {
    fn drop(&mut self) {
        self.shared.write().remove(&self.id);
    }
}

/// A place, as an index into [`Tree::nodes`].
type NodeId = usize;

const ROOT: NodeId = 0;

/// Everything that one worker holds.
#[derive(Debug)]
struct Tree {
    nodes: Vec<Node>,
    /// Entries of `nodes` that stand for no place at the moment.
    free: Vec<NodeId>,
    children: HashMap<(NodeId, ContentHash), NodeId>,
    names: HashMap<BlockName, NodeId>,
    /// One for each view.
    digests: Vec<Digest>,
}

#[derive(Debug)]
struct Node {
    parent: NodeId,
    content: ContentHash,
    position: u32,
    child_count: usize,
    held: Vec<(View, BlockName)>,
}

impl Tree {
    fn new(views: u8) -> Self {
        let root = Node { parent: ROOT, content: ContentHash(0), position: 0, child_count: 0, held: Vec::new() };
        Self {
            nodes: vec![root],
            free: Vec::new(),
            children: HashMap::new(),
            names: HashMap::new(),
            digests: vec![Digest::default(); usize::from(views)],
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most VIEWS_MAX")]
    fn views_len(&self) -> u8 {
        self.digests.len() as u8
    }

    fn views(&self) -> impl Iterator<Item = View> + use<> {
        (0..self.views_len()).map(View)
    }

    fn holdings(&self) -> impl Iterator<Item = Holding> + '_ {
        self.nodes.iter().flat_map(|node| {
            let of = |&(view, name): &(View, BlockName)| Holding { view, position: node.position, content: node.content, name };
            node.held.iter().map(of)
        })
    }

    /// The places of `request`, as far as they exist.
    fn walk<'a>(&'a self, request: &'a [ContentHash]) -> impl Iterator<Item = NodeId> + 'a {
        request.iter().scan(ROOT, |node, &content| {
            *node = *self.children.get(&(*node, content))?;
            Some(*node)
        })
    }

    fn covers(&self, node: NodeId, view: View) -> bool {
        self.nodes[node].held.iter().any(|held| held.0 == view)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a request of 2^32 blocks does not fit in memory")]
    fn depth(&self, view: View, request: &[ContentHash]) -> u32 {
        self.walk(request).take_while(|&node| self.covers(node, view)).count() as u32
    }

    fn store(
        &mut self,
        view: View,
        parent: Option<BlockName>,
        blocks: &[Block],
        out: &mut Vec<Stored>,
    ) -> Result<(), StoreError> {
        if view.0 >= self.views_len() {
            return Err(StoreError::UnknownView { view, views: self.views_len() });
        }
        let place = match parent {
            None => ROOT,
            Some(parent) => *self.names.get(&parent).ok_or(StoreError::ParentNotHeld { parent })?,
        };
        self.store_at(view, place, blocks, out);
        Ok(())
    }

    fn store_at(&mut self, view: View, mut place: NodeId, blocks: &[Block], out: &mut Vec<Stored>) {
        for block in blocks {
            place = self.child(place, block.content);
            out.push(block.name.map_or(Stored::Step, |name| self.hold(view, name, place)));
        }
        self.prune(place);
    }

    /// Each place is a stretch of its own.
    fn write_stretches<W: Write>(&self, section: &mut Section<'_, W>) -> Result<(), WriteError> {
        let mut all: Vec<NodeId> = self.children.values().copied().collect();
        all.sort_unstable_by_key(|&place| (self.nodes[place].position, place));
        all.into_iter().try_for_each(|place| {
            let node = &self.nodes[place];
            let held: Vec<Held> = node.held.iter().map(|&(view, name)| Held { offset: 0, name, views: 1 << view.0 }).collect();
            section.tell(&Stretch {
                id: place as u64,
                lead: (node.parent != ROOT).then(|| (node.parent as u64, slice::from_ref(&self.nodes[node.parent].content))),
                contents: &[node.content],
                agreed: u64::from(!held.is_empty()),
                names: held.first().map(|held| held.name).as_slice(),
                held: &held,
            })
        })
    }

    fn remove(&mut self, view: View, name: BlockName) -> Removed {
        let Some(&place) = self.names.get(&name) else { return Removed::Unknown };
        if !self.nodes[place].held.contains(&(view, name)) {
            return Removed::Unknown;
        }
        self.release(place, |held| held == (view, name));
        if !self.nodes[place].held.iter().any(|held| held.1 == name) {
            self.names.remove(&name);
        }
        self.prune(place);
        Removed::Removed
    }

    /// Makes `view` hold `name` at `place`, and nowhere else.
    fn hold(&mut self, view: View, name: BlockName, place: NodeId) -> Stored {
        let old = self.names.insert(name, place);
        if old == Some(place) && self.nodes[place].held.contains(&(view, name)) {
            return Stored::AlreadyHeld;
        }
        let node = &mut self.nodes[place];
        node.held.push((view, name));
        self.digests[usize::from(view.0)].add(node.position, node.content, name);
        match old.filter(|&old| old != place) {
            None => Stored::New,
            Some(old) => {
                self.release(old, |held| held.1 == name);
                self.prune(old);
                Stored::Moved
            }
        }
    }

    /// Takes the holdings that `gone` says out of `place`.
    fn release(&mut self, place: NodeId, gone: impl Fn((View, BlockName)) -> bool) {
        let node = &mut self.nodes[place];
        let (position, content) = (node.position, node.content);
        for (view, name) in node.held.extract_if(.., |held| gone(*held)) {
            self.digests[usize::from(view.0)].subtract(position, content, name);
        }
    }

    /// The place one step below `parent`, made if it does not exist.
    fn child(&mut self, parent: NodeId, content: ContentHash) -> NodeId {
        if let Some(&child) = self.children.get(&(parent, content)) {
            return child;
        }
        let position = if parent == ROOT { 0 } else { self.nodes[parent].position + 1 };
        let node = Node { parent, content, position, child_count: 0, held: Vec::new() };
        let child = if let Some(free) = self.free.pop() {
            self.nodes[free] = node;
            free
        } else {
            self.nodes.push(node);
            self.nodes.len() - 1
        };
        self.children.insert((parent, content), child);
        self.nodes[parent].child_count += 1;
        child
    }

    /// Forgets `place` and the places above it as far as nothing is held there and no path leads on: no rule tells
    /// such a place from one that never was.
    fn prune(&mut self, mut place: NodeId) {
        while place != ROOT && self.nodes[place].child_count == 0 && self.nodes[place].held.is_empty() {
            let (parent, content) = (self.nodes[place].parent, self.nodes[place].content);
            self.children.remove(&(parent, content));
            self.nodes[parent].child_count -= 1;
            self.free.push(place);
            place = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: u64) -> Block {
        Block::named(BlockName(name), ContentHash(name))
    }

    /// Places that exist, the root left out.
    fn places(tree: &Tree) -> usize {
        assert_eq!(tree.children.len(), tree.nodes.len() - tree.free.len() - 1);
        tree.children.len()
    }

    #[test]
    fn places_go_with_the_last_that_needs_them() {
        let mut tree = Tree::new(1);
        let mut store = |parent: Option<u64>, blocks: &[Block]| {
            tree.store(View::MAIN, parent.map(BlockName), blocks, &mut Vec::new()).unwrap();
            places(&tree)
        };
        assert_eq!(store(None, &[named(1), named(2), Block::step(ContentHash(3))]), 2, "a step at the end leads nowhere");
        assert_eq!(store(Some(2), &[Block::step(ContentHash(3)), named(4)]), 4);
        assert_eq!(store(None, &[Block::named(BlockName(4), ContentHash(9))]), 3, "block 4 moved, and its step went");
        let mut remove = |name| {
            tree.remove(View::MAIN, BlockName(name));
            places(&tree)
        };
        assert_eq!([1, 2, 4].map(&mut remove), [3, 1, 0], "a place above a held one stays");
        let nodes = tree.nodes.len();
        tree.store(View::MAIN, None, &[named(1), named(2), named(3), named(4)], &mut Vec::new()).unwrap();
        assert_eq!(tree.nodes.len(), nodes, "room is used again");
    }
}
