//! What all workers of an index share.

use super::compact::Compaction;
use super::private::PrivateSlots;
use crate::raw::edges::Edges;
use crate::raw::names::Names;
use crate::raw::place::Place;
use crate::raw::record::{Link, Record};
use crate::raw::secret::Secret;
use crate::raw::segments::{Locked, SegmentId, Segments};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use hashbrown::HashMap;

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) secret: Secret,
    pub(crate) segments: Segments,
    pub(crate) edges: Edges,
    pub(crate) names: Names,
    pub(crate) private: PrivateSlots,
    /// Children beyond the first that leave a place other than the root; none is 0. Under the lock of the place's segment.
    siblings: Siblings,
    pub(super) compaction: Compaction,
    /// Rises when a worker's number is given to another worker.
    pub(crate) epoch: AtomicU64,
    /// One more than the largest worker's number that was ever given.
    pub(crate) workers: AtomicUsize,
    /// Bytes that workers keep for themselves.
    pub(crate) worker_bytes: AtomicUsize,
    pub(crate) budget: Option<usize>,
}

/// Counts by place, apart from each other for writers' sake.
#[derive(Debug)]
struct Siblings(Box<[Mutex<HashMap<Place, u32>>]>);

const SIBLING_SHARDS: usize = if cfg!(any(kv_loom, kv_shuttle)) { 1 } else { 16 };

impl Core {
    pub(crate) fn new(seed: [u64; 2], budget: Option<usize>) -> Self {
        let secret = Secret::new(seed);
        Self {
            secret,
            segments: Segments::new(),
            edges: Edges::new(),
            names: Names::new(secret),
            private: PrivateSlots::new(),
            siblings: Siblings((0..SIBLING_SHARDS).map(|_| Mutex::new(HashMap::new())).collect()),
            compaction: Compaction::new(),
            epoch: AtomicU64::new(0),
            workers: AtomicUsize::new(0),
            worker_bytes: AtomicUsize::new(0),
            budget,
        }
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        let shared = self.segments.bytes() + self.edges.bytes() + self.names.bytes() + self.siblings.bytes();
        size_of::<Self>() + shared + self.private.bytes() + self.worker_bytes.load(Ordering::Relaxed)
    }

    /// The hash of a child's edge.
    #[inline]
    pub(crate) fn edge(&self, parent: SegmentId, offset: usize, content: u64) -> u64 {
        self.secret.edge(parent, offset, content)
    }

    /// Fetches what leads to the child of a place, if no link does.
    #[inline]
    pub(crate) fn prefetch_edge(&self, place: Place, content: u64) {
        self.edges.prefetch(&self.segments.slabs, self.edge(place.segment(), place.offset() + 1, content));
    }

    /// The root's child that begins with `content`.
    #[inline]
    pub(crate) fn root_child(&self, content: u64) -> Option<SegmentId> {
        self.table_child(SegmentId::ROOT, 0, content)
    }

    /// The child that the edge table leads to.
    fn table_child(&self, parent: SegmentId, offset: usize, content: u64) -> Option<SegmentId> {
        let hash = self.edge(parent, offset, content);
        let segments = &self.segments;
        self.edges.find(&segments.slabs, hash, |child| segments.is_child(child, parent, offset, content).then_some(child))
    }

    /// The child that leaves a locked segment at `offset` with `content`.
    pub(crate) fn child(&self, parent: &Locked<'_>, offset: usize, content: u64) -> Option<SegmentId> {
        let record = parent.record();
        if !has_edge(record, offset) {
            return None;
        }
        let link = record.link();
        let linked = link.leads(offset, content) && self.segments.is_child(link.child(), parent.id, offset, content);
        if linked { Some(link.child()) } else { self.table_child(parent.id, offset, content) }
    }

    /// Lets `child`, which is whole, follow `offset` places of a locked segment.
    pub(crate) fn attach(&self, parent: &Locked<'_>, offset: usize, content: u64, child: SegmentId) {
        let record = parent.record();
        if has_edge(record, offset) {
            self.siblings.add(Place::new(parent.id, offset - 1));
        }
        if record.link().is_some() {
            self.edges.lock(&self.segments.slabs, self.edge(parent.id, offset, content)).insert(child);
        } else {
            record.set_link(Link::new(child, offset, content));
        }
        record.set_edges(record.edges() | 1 << (offset - 1));
    }

    /// Lets `child` follow its locked parent no longer.
    pub(crate) fn detach(&self, parent: &Locked<'_>, offset: usize, content: u64, child: SegmentId) {
        let record = parent.record();
        if record.link().child() == child {
            record.set_link(Link::default());
        } else {
            self.edges.lock(&self.segments.slabs, self.edge(parent.id, offset, content)).remove(child);
        }
        if !self.siblings.subtract(Place::new(parent.id, offset - 1)) {
            record.set_edges(record.edges() & !(1 << (offset - 1)));
        }
    }
}

/// Whether a child leaves at `offset`.
#[inline]
pub(crate) fn has_edge(record: Record<'_>, offset: usize) -> bool {
    record.edges() >> (offset - 1) & 1 == 1
}

impl Siblings {
    fn shard(&self, place: Place) -> &Mutex<HashMap<Place, u32>> {
        &self.0[place.segment().0 as usize % SIBLING_SHARDS]
    }

    fn add(&self, place: Place) {
        *self.shard(place).lock().entry(place).or_insert(0) += 1;
    }

    /// Counts one less; whether there was one to count.
    fn subtract(&self, place: Place) -> bool {
        let mut shard = self.shard(place).lock();
        let Some(count) = shard.get_mut(&place) else { return false };
        *count -= 1;
        if *count == 0 {
            shard.remove(&place);
            if shard.is_empty() {
                shard.shrink_to_fit();
            }
        }
        true
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|shard| shard.lock().capacity() * (size_of::<(Place, u32)>() + 1)).sum()
    }
}
