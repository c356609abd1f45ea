//! The pool itself: lanes, streams, and their end.

use std::fmt;
use std::io;

use thiserror::Error;

use super::drain::Drain;
use super::handle::StreamHandle;
use super::inbox::Task;
use super::lane::Lane;
use super::metrics::PoolMetrics;
use super::reply::Reply;
use super::shared::Shared;
use super::slot::{Slot, panic_text};
use super::stream::{Failure, Retired, Stream, StreamOptions, StreamState};
use crate::limits::LANES_MAX;
use crate::sync::{Arc, atomic, thread};

/// Lanes, and the streams whose events they apply.
///
/// Dropping it shuts it down without draining it: what is not applied by then is dropped.
pub struct Pool<S: Stream> {
    pub(super) shared: Arc<Shared<S>>,
    threads: Vec<thread::JoinHandle<()>>,
    /// Where the next stream starts.
    next_home: atomic::AtomicUsize,
}

/// Why there is no pool.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Not a number of lanes.
    #[error("a pool has 1 to {max} lanes, not {asked}")]
    Lanes {
        /// The lanes asked for.
        asked: usize,
        /// [`LANES_MAX`].
        max: usize,
    },
    /// The system gave no thread for a lane. Those that had started have ended.
    #[error("no thread for lane {lane}: {source}")]
    Thread {
        /// The lane.
        lane: usize,
        /// What the system said.
        source: io::Error,
    },
}

/// What a shutdown does with events that are queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Apply them first.
    Drain,
    /// Give them back with their streams.
    Stop,
}

/// What a pool leaves behind.
#[derive(Debug)]
pub struct Remains<S: Stream> {
    /// Every stream whose handle was still there, by id.
    pub streams: Vec<Retired<S>>,
    /// Lanes of the pool's own threads that had ended before, with what their panic said: `on_start`'s.
    pub lost_lanes: Vec<(usize, String)>,
}

impl<S: Stream> Pool<S> {
    /// A pool with `lanes` lanes (1 to [`LANES_MAX`]) for threads of the caller's.
    ///
    /// # Errors
    /// [`PoolError::Lanes`].
    pub fn new(lanes: usize) -> Result<(Self, Vec<Lane<S>>), PoolError> {
        if !(1..=LANES_MAX).contains(&lanes) {
            return Err(PoolError::Lanes { asked: lanes, max: LANES_MAX });
        }
        // The last one is for the shutdown.
        let shared = Arc::new(Shared::new(lanes + 1));
        let of_callers = (0..lanes).map(|index| Lane::new(Arc::clone(&shared), index)).collect();
        Ok((Self { shared, threads: Vec::new(), next_home: atomic::AtomicUsize::new(0) }, of_callers))
    }

    /// A pool with `lanes` lanes (1 to [`LANES_MAX`]) on threads of its own, `kv-lane-0` and so on. Each first calls `on_start`
    /// with its number: to pin itself, for one.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn spawn(lanes: usize, on_start: impl Fn(usize) + Send + Sync + 'static) -> Result<Self, PoolError> {
        let (mut pool, of_callers) = Self::new(lanes)?;
        let on_start = Arc::new(on_start);
        for mut lane in of_callers {
            let (index, on_start) = (lane.index(), Arc::clone(&on_start));
            let work = move || {
                on_start(index);
                lane.run();
            };
            let thread = thread::Builder::new().name(format!("kv-lane-{index}")).spawn(work);
            pool.threads.push(thread.map_err(|source| PoolError::Thread { lane: index, source })?);
        }
        Ok(pool)
    }

    /// Takes `stream` in.
    pub fn add(&self, stream: S, options: StreamOptions) -> StreamHandle<S> {
        let lanes = self.shared.schedule.lanes() - 1;
        // Relaxed: any order of lanes will do.
        let home = self.next_home.fetch_add(1, atomic::Ordering::Relaxed) % lanes;
        let slot = self.shared.registry.enter(|id| Slot::new(id, stream, home, options));
        StreamHandle::new(Arc::clone(&self.shared), slot)
    }

    /// Ready when every event that was queued before this call is applied. Events that come later do not prolong it.
    pub fn drain(&self) -> Drain {
        let slots = self.shared.registry.slots();
        let (drain, marks) = Drain::new(slots.len());
        for (slot, mark) in slots.iter().zip(marks) {
            let task: Task<S> = Box::new(move |_| mark.reach());
            let pushed = slot.inbox().push_mark(task);
            if let Ok(pushed) = pushed {
                self.shared.place(slot, pushed);
            }
        }
        drain
    }

    /// How the pool stands. Looks at every stream.
    pub fn metrics(&self) -> PoolMetrics {
        let schedule = &self.shared.schedule;
        let lanes = (0..schedule.lanes()).map(|lane| schedule.metrics(lane)).collect();
        let mut metrics = PoolMetrics { counts: self.shared.registry.departed(), lanes, ..PoolMetrics::default() };
        for slot in self.shared.registry.slots() {
            let inbox = slot.inbox();
            metrics.streams += 1;
            metrics.failed += usize::from(inbox.state() == StreamState::Failed);
            metrics.held.events += inbox.held().events;
            metrics.held.cost += inbox.held().cost;
            metrics.counts += inbox.counts();
        }
        metrics
    }

    /// The streams that a panic ended and that are not removed yet. Looks at every stream.
    pub fn failures(&self) -> Vec<Failure> {
        self.shared.registry.slots().iter().filter_map(|slot| slot.inbox().failure(slot.id)).collect()
    }

    /// Takes no more events, ends the lanes and gives the streams back. A drain goes on on the calling thread as well, so it
    /// ends even if no lane runs. Waits for what lanes of the caller's are applying; not for them to return.
    ///
    /// Not from a lane's thread: it would wait for itself.
    pub fn shutdown(mut self, ending: Ending) -> Remains<S> {
        self.end(ending)
    }

    fn end(&mut self, ending: Ending) -> Remains<S> {
        let slots = self.shared.registry.slots();
        for slot in &slots {
            slot.inbox().close();
            slot.wake_waiting();
        }
        if ending == Ending::Drain {
            Lane::new(Arc::clone(&self.shared), self.shared.schedule.lanes() - 1).run_until(self.drain());
        }
        let leaving: Vec<Reply<_>> = slots.iter().map(|slot| self.shared.remove(slot)).collect();
        self.shared.schedule.stop();
        let lost_lanes = self.join();
        Remains { streams: leaving.into_iter().filter_map(|reply| reply.wait().ok()).collect(), lost_lanes }
    }

    fn join(&mut self) -> Vec<(usize, String)> {
        let ended = self.threads.drain(..).map(thread::JoinHandle::join).enumerate();
        ended.filter_map(|(lane, ended)| Some((lane, panic_text(ended.err()?.as_ref())))).collect()
    }
}

impl<S: Stream> Drop for Pool<S> {
    fn drop(&mut self) {
        self.end(Ending::Stop);
    }
}

impl<S: Stream> fmt::Debug for Pool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("lanes", &(self.shared.schedule.lanes() - 1)).finish_non_exhaustive()
    }
}
