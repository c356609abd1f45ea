//! What one request is booked for, from when it is sent to the end of its answer.

use kv_routing::accounting::Dispatch;
use kv_routing::adapter::tokio::Pulse;
use kv_routing::adapter::tower::{Failure, Guard, RequestGuard};

use super::kept::Kept;

/// All that is booked for a request, in the hands of the layer that sees its answer pass. Dropping it, on whatever path, releases it.
#[must_use = "a request whose booking is dropped has ended"]
pub(crate) struct Booking {
    guard: RequestGuard<Pulse>,
    _kept: Kept,
}

impl Booking {
    pub(super) fn new((dispatch, kept): (Dispatch, Kept), pulse: Pulse) -> Self {
        Self { guard: RequestGuard::new(dispatch, pulse), _kept: kept }
    }
}

impl Guard for Booking {
    fn heard(&mut self) {
        self.guard.heard();
    }

    fn progress(&mut self) {
        self.guard.progress();
    }

    fn complete(self) {
        self.guard.complete();
    }

    fn fail(self, failure: Failure) {
        self.guard.fail(failure);
    }
}
