//! How a thread sleeps until it is told to go on.

use std::future::Future;
use std::pin::pin;
// The standard library's, not the shim's: `Wake` asks for it.
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::sync::{Condvar, Mutex};

/// At most one thread parks on it. A wake-up that comes first is kept, so that the next park returns at once.
#[derive(Debug)]
pub(super) struct Parker {
    woken: Mutex<bool>,
    wakes: Condvar,
}

impl Parker {
    pub(super) fn new() -> Self {
        Self { woken: Mutex::new(false), wakes: Condvar::new() }
    }

    pub(super) fn park(&self) {
        let mut woken = self.woken.lock();
        while !*woken {
            woken = self.wakes.wait(woken);
        }
        *woken = false;
    }

    pub(super) fn unpark(&self) {
        *self.woken.lock() = true;
        self.wakes.notify_one();
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }
}

/// Sleeps until `future` is ready.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let parker = Arc::new(Parker::new());
    let waker = Waker::from(Arc::clone(&parker));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => parker.park(),
        }
    }
}
