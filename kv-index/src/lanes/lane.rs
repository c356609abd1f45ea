//! A lane on a thread of the caller's.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

use super::shared::Shared;
use super::slot::Slot;
use super::stream::Stream;
use crate::limits::LANE_LOOK_AROUND_TURNS;
use crate::sync::Arc;

/// Applies the events of whatever stream is ready, on the thread that calls it. Streams move between a pool's lanes; what
/// stands on the list of a lane that nobody runs, or whose `Lane` was dropped, is taken by the others.
pub struct Lane<S: Stream> {
    shared: Arc<Shared<S>>,
    index: usize,
    turns: usize,
}

impl<S: Stream> Lane<S> {
    pub(super) fn new(shared: Arc<Shared<S>>, index: usize) -> Self {
        Self { shared, index, turns: 0 }
    }

    /// Which lane of its pool it is, from 0 on.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Gives one stream a turn. Whether one was ready.
    pub fn step(&mut self) -> bool {
        let found = self.turn();
        // The caller may not come back for long, and what it put back on its list need not wait for it.
        self.shared.schedule.pass_own(self.index);
        found
    }

    /// Works until no stream of the pool is ready. How many turns it gave.
    pub fn run_until_idle(&mut self) -> usize {
        std::iter::from_fn(|| self.turn().then_some(())).count()
    }

    /// Works until the pool is shut down or dropped, and sleeps while no stream of the pool is ready.
    pub fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        self.work_until(|_| if shared.schedule.is_stopped() { Poll::Ready(()) } else { Poll::Pending });
    }

    /// Works until `future` is ready, and sleeps while neither it nor a stream is. So a lane's own thread can wait for a
    /// [`Drain`](super::Drain) or a [`Reply`](super::Reply).
    pub fn run_until<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        self.work_until(|context| future.as_mut().poll(context))
    }

    fn work_until<T>(&mut self, mut ready: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        let waker = self.shared.schedule.waker(self.index);
        loop {
            if let Poll::Ready(output) = ready(&mut Context::from_waker(&waker)) {
                self.shared.schedule.pass_on(self.index);
                return output;
            }
            if !self.turn()
                && let Some(slot) = self.shared.schedule.take_or_park(self.index)
            {
                self.shared.serve(self.index, slot);
            }
        }
    }

    fn turn(&mut self) -> bool {
        let Some(slot) = self.next() else { return false };
        self.shared.serve(self.index, slot);
        true
    }

    fn next(&mut self) -> Option<Arc<Slot<S>>> {
        self.turns = self.turns.wrapping_add(1);
        self.look_around().or_else(|| self.shared.schedule.take(self.index))
    }

    /// Once in a while another lane's list comes first, each in its turn: busy lanes keep each other's lists from standing
    /// still, also those that nobody runs.
    fn look_around(&self) -> Option<Arc<Slot<S>>> {
        if !self.turns.is_multiple_of(LANE_LOOK_AROUND_TURNS) {
            return None;
        }
        let schedule = &self.shared.schedule;
        schedule.steal(self.index, self.turns / LANE_LOOK_AROUND_TURNS % schedule.lanes())
    }
}

impl<S: Stream> fmt::Debug for Lane<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("index", &self.index).finish_non_exhaustive()
    }
}
