//! Waiting until everything that was queued is applied.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::parker::block_on;
use crate::sync::{Arc, Mutex};

/// Ready when every event that was queued before the drain began is applied: a future that needs no runtime.
#[derive(Debug)]
#[must_use = "a drain says when it is done and does nothing itself"]
pub struct Drain(Arc<Mutex<Countdown>>);

/// What a drain came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Streams whose events are all applied.
    pub streams: usize,
    /// Streams that had failed, or that failed or were removed meanwhile, with events that never will be.
    pub lost: usize,
}

/// Stands in a stream's queue behind all that the drain waits for.
#[derive(Debug)]
pub(super) struct Mark {
    countdown: Arc<Mutex<Countdown>>,
    reached: bool,
}

#[derive(Debug)]
struct Countdown {
    left: usize,
    drained: Drained,
    waiting: Option<Waker>,
}

impl Drain {
    /// A drain over `streams` streams and a mark for each of them.
    pub(super) fn new(streams: usize) -> (Self, impl Iterator<Item = Mark>) {
        let countdown = Countdown { left: streams, drained: Drained::default(), waiting: None };
        let countdown = Arc::new(Mutex::new(countdown));
        let marks = Arc::clone(&countdown);
        (Self(countdown), (0..streams).map(move |_| Mark { countdown: Arc::clone(&marks), reached: false }))
    }

    /// Sleeps until it is done. A lane's thread must not (it may wait for itself):
    /// [`Lane::run_until`](super::Lane::run_until) works meanwhile.
    pub fn wait(self) -> Drained {
        block_on(self)
    }
}

impl Future for Drain {
    type Output = Drained;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Drained> {
        let waker = context.waker().clone();
        let mut countdown = self.0.lock();
        if countdown.left == 0 {
            return Poll::Ready(countdown.drained);
        }
        let former = countdown.waiting.replace(waker);
        drop(countdown);
        drop(former);
        Poll::Pending
    }
}

impl Mark {
    pub(super) fn reach(mut self) {
        self.reached = true;
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let mut countdown = self.countdown.lock();
        countdown.left -= 1;
        countdown.drained.streams += usize::from(self.reached);
        countdown.drained.lost += usize::from(!self.reached);
        let waiting = if countdown.left == 0 { countdown.waiting.take() } else { None };
        drop(countdown);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}
