//! What a worker's requests and the tracker share.

use std::time::Duration;

use super::work::{Work, WorkNow};
use super::{Task, Ticket, Veto};
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};

/// One worker, as its requests and the routing decision see it. Cheap to clone, and as long-lived as whoever holds it: requests of a
/// worker that was removed end as any other.
#[derive(Clone, Debug)]
pub struct Vitals(Arc<Pulse>);

#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// The latest progress that the tracker has not taken note of, in nanoseconds and one more; 0 for none.
    moved: AtomicU64,
    /// The veto's place in [`Veto::ALL`] and one more; 0 for none. Written by the tracker alone.
    veto: AtomicU8,
    pub(super) work: Mutex<Work>,
}

impl Vitals {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// The veto, if there is one: one atomic load.
    pub fn veto(&self) -> Option<Veto> {
        // Relaxed: nothing else is read by it, and a decision made a moment earlier would have seen the older value too.
        self.0.veto.load(Ordering::Relaxed).checked_sub(1).and_then(|place| Veto::ALL.get(usize::from(place)).copied())
    }

    /// A request was dispatched to the worker.
    pub fn begin(&self, now: Duration, task: Task) -> Ticket {
        Ticket::begin(Arc::clone(&self.0), now, task)
    }

    /// Requests under way that could show progress.
    pub fn tracked(&self) -> u32 {
        self.work_now(Duration::MAX).tracked
    }

    /// Prompt tokens of requests under way that have no first token yet.
    pub fn pending_prefill_tokens(&self) -> u64 {
        self.work_now(Duration::MAX).pending_tokens
    }

    /// Prompt tokens computed in a second, once measured over a second of prefill.
    pub fn prefill_tokens_per_s(&self) -> Option<f64> {
        self.work_now(Duration::MAX).measured
    }

    pub(super) fn set_veto(&self, veto: Option<Veto>) {
        // Relaxed: as where it is read.
        self.0.veto.store(veto.map_or(0, |veto| veto as u8 + 1), Ordering::Relaxed);
    }

    pub(super) fn work_now(&self, now: Duration) -> WorkNow {
        self.0.work.lock().now(now)
    }

    /// The latest progress since the last call.
    pub(super) fn take_progress(&self) -> Option<Duration> {
        // Relaxed: the moment itself is all that is handed over. Progress that comes beside the exchange is found by the next one.
        self.0.moved.swap(0, Ordering::Relaxed).checked_sub(1).map(Duration::from_nanos)
    }
}

impl Pulse {
    pub(super) fn moved(&self, now: Duration) {
        let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: see `take_progress`.
        self.moved.fetch_max(nanos.saturating_add(1), Ordering::Relaxed);
    }
}
