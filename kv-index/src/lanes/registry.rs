//! The streams of a pool, and what became of those that left.

use std::collections::BTreeMap;

use super::metrics::Counts;
use super::slot::Slot;
use super::stream::{Stream, StreamId};
use crate::sync::{Arc, Mutex};

/// Taken to add, remove or look over streams; never to queue or apply an event.
pub(super) struct Registry<S: Stream>(Mutex<Roll<S>>);

struct Roll<S: Stream> {
    next: u64,
    slots: BTreeMap<StreamId, Arc<Slot<S>>>,
    departed: Counts,
}

impl<S: Stream> Registry<S> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Roll { next: 0, slots: BTreeMap::new(), departed: Counts::default() }))
    }

    pub(super) fn enter(&self, slot: impl FnOnce(StreamId) -> Slot<S>) -> Arc<Slot<S>> {
        let mut roll = self.0.lock();
        let id = StreamId(roll.next);
        roll.next += 1;
        let slot = Arc::new(slot(id));
        roll.slots.insert(id, Arc::clone(&slot));
        slot
    }

    pub(super) fn depart(&self, id: StreamId, counts: Counts) {
        let mut roll = self.0.lock();
        let slot = roll.slots.remove(&id);
        roll.departed += counts;
        drop(roll);
        // Dropped without the lock: what is in it is the caller's.
        drop(slot);
    }

    pub(super) fn slots(&self) -> Vec<Arc<Slot<S>>> {
        self.0.lock().slots.values().cloned().collect()
    }

    pub(super) fn departed(&self) -> Counts {
        self.0.lock().departed
    }
}
