//! One fleet's tracker, in time.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::{Clock, Pulse};
use crate::liveness::{Options, Tracker, TrackerCounts, Transition, Veto, WorkersExhausted};
use crate::sync::{Arc, Mutex};

/// The [`Tracker`] of one fleet, with a lock around it and a clock. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Watch(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    tracker: Mutex<Tracker>,
    /// There is something to tell, or to sweep for the first time.
    stirred: Notify,
}

impl Watch {
    /// A watch over nobody. Its clock starts now.
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Shared { clock: Clock::start(), tracker: Mutex::new(Tracker::new(options)), stirred: Notify::new() }))
    }

    /// What all times are told by.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// A further worker.
    ///
    /// # Errors
    /// [`WorkersExhausted`] beyond [`WORKERS_MAX`](crate::limits::WORKERS_MAX).
    #[expect(clippy::missing_panics_doc, reason = "who was added has vitals")]
    pub fn enlist(&self) -> Result<Pulse, WorkersExhausted> {
        let mut tracker = self.0.tracker.lock();
        let handle = tracker.add_worker(self.clock().now())?;
        let vitals = tracker.vitals(handle).expect("it was added just now");
        drop(tracker);
        self.0.stirred.notify_one();
        Ok(Pulse::new(self.clone(), handle, vitals))
    }

    /// Sweeps whenever it is time, and tells of every veto that is set or ended, in order: at once if a channel's news did it, with the
    /// next sweep if time or a request's progress did. Until it is dropped; one of them is enough.
    pub async fn keep_swept(self, mut tell: impl FnMut(&Transition)) {
        loop {
            self.until_stirred().await;
            // Collected first: whoever is told may want the tracker.
            self.sweep().iter().for_each(&mut tell);
        }
    }

    /// How many workers are under a veto now.
    pub fn vetoed(&self, veto: Veto) -> usize {
        self.0.tracker.lock().vetoed(veto)
    }

    /// What was counted.
    pub fn counts(&self) -> TrackerCounts {
        *self.0.tracker.lock().counts()
    }

    /// Gives the tracker something, with the time. Under the lock, so that no input is older than the one before it.
    pub(super) fn tell<T>(&self, input: impl FnOnce(&mut Tracker, Duration) -> T) -> T {
        let mut tracker = self.0.tracker.lock();
        let answer = input(&mut tracker, self.clock().now());
        let has_news = tracker.has_transition();
        drop(tracker);
        if has_news {
            self.0.stirred.notify_one();
        }
        answer
    }

    async fn until_stirred(&self) {
        let due = self.0.tracker.lock().next_timeout();
        // Nobody to sweep: until somebody comes.
        let pause = due.map_or(Duration::MAX, |due| due.saturating_sub(self.clock().now()));
        tokio::select! {
            () = sleep(pause) => {}
            () = self.0.stirred.notified() => {}
        }
    }

    fn sweep(&self) -> Vec<Transition> {
        let mut tracker = self.0.tracker.lock();
        tracker.handle_timeout(self.clock().now());
        std::iter::from_fn(|| tracker.poll_transition()).collect()
    }
}
