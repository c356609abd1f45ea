//! One worker under watch, and its requests.

use std::time::Duration;

use super::Watch;
use crate::liveness::{Contact, Handle, Report, Task, Ticket, Veto, Vitals};

/// One worker of a [`Watch`]. Cheap to clone; all clones are the same worker.
#[derive(Clone, Debug)]
pub struct Pulse {
    watch: Watch,
    handle: Handle,
    vitals: Vitals,
}

/// One request under way at a worker. Its drop, on whatever path, ends it.
#[derive(Debug)]
#[must_use = "a request that is dropped has ended"]
pub struct Progress {
    watch: Watch,
    ticket: Ticket,
}

impl Pulse {
    pub(super) fn new(watch: Watch, handle: Handle, vitals: Vitals) -> Self {
        Self { watch, handle, vitals }
    }

    /// The worker's handle, as [`Transition`](crate::liveness::Transition)s name it.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// What its requests and the decision share, for a [`Site`](crate::accounting::Site).
    pub fn vitals(&self) -> &Vitals {
        &self.vitals
    }

    /// Who watches it.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The time by the watch's clock.
    pub fn now(&self) -> Duration {
        self.watch.clock().now()
    }

    /// Why the worker is passed over, if it is: one atomic load.
    pub fn veto(&self) -> Option<Veto> {
        self.vitals.veto()
    }

    /// A request is sent to the worker.
    pub fn begin(&self, task: Task) -> Progress {
        Progress { watch: self.watch.clone(), ticket: self.vitals.begin(self.now(), task) }
    }

    /// It was heard: a subscription that stands, a batch, an answer, an answered poll.
    pub fn heard(&self) {
        self.watch.tell(|tracker, now| tracker.handle_contact(now, self.handle, Contact::Traffic));
    }

    /// It passed a health check.
    pub fn probed(&self) {
        self.watch.tell(|tracker, now| tracker.handle_contact(now, self.handle, Contact::Probe));
    }

    /// It told its load, pushed or polled.
    pub fn reported(&self, report: &Report) {
        self.watch.tell(|tracker, now| tracker.handle_load_report(now, self.handle, report));
    }

    /// A connection to it was refused or reset.
    pub fn cut_off(&self) {
        self.watch.tell(|tracker, now| tracker.handle_transport_failure(now, self.handle));
    }

    /// It leaves the fleet. Its requests end as any other; what is told of it from now on is counted as stray. Whether it was there.
    pub fn leave(&self) -> bool {
        self.watch.tell(|tracker, _| tracker.remove_worker(self.handle))
    }
}

impl Progress {
    /// A part of the answer came; the first one says that the prompt is computed. The others take no lock.
    pub fn moved(&mut self) {
        self.ticket.first_token(self.watch.clock().now());
    }

    /// The worker completed the request.
    pub fn finish(self) {
        self.ticket.finish(self.watch.clock().now());
    }
}
