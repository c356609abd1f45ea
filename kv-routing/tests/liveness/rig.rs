//! One worker, its tracker and its requests.

use std::time::Duration;

use kv_routing::liveness::{Contact, EngineSilence, Handle, Options, Report, Task, Ticket, Tracker, Transition, Veto, Vitals};

pub(crate) struct Rig {
    pub(crate) now: Duration,
    pub(crate) tracker: Tracker,
    pub(crate) worker: Handle,
    pub(crate) vitals: Vitals,
    pub(crate) tickets: Vec<Ticket>,
}

pub(crate) fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let mut tracker = Tracker::new(options);
        let now = s(100.0);
        let worker = tracker.add_worker(now).unwrap();
        let vitals = tracker.vitals(worker).unwrap();
        Self { now, tracker, worker, vitals, tickets: Vec::new() }
    }

    /// Dispatches `count` requests.
    pub(crate) fn begin(&mut self, count: usize, task: Task) {
        self.tickets.extend((0..count).map(|_| self.vitals.begin(self.now, task)));
    }

    /// Lets time pass, swept as a caller should.
    pub(crate) fn pass(&mut self, seconds: f64) {
        let until = self.now + s(seconds);
        while let Some(due) = self.tracker.next_timeout().filter(|due| *due <= until) {
            self.now = due;
            self.tracker.handle_timeout(due);
        }
        self.now = until;
    }

    pub(crate) fn contact(&mut self, contact: Contact) {
        self.tracker.handle_contact(self.now, self.worker, contact);
    }

    pub(crate) fn fail(&mut self) {
        self.tracker.handle_transport_failure(self.now, self.worker);
    }

    pub(crate) fn report(&mut self, report: Report) {
        self.tracker.handle_load_report(self.now, self.worker, &report);
    }

    pub(crate) fn first_tokens(&mut self) {
        self.tickets.iter_mut().for_each(|ticket| ticket.first_token(self.now));
    }

    pub(crate) fn veto(&self) -> Option<Veto> {
        self.vitals.veto()
    }

    /// What the tracker has said since the last call.
    pub(crate) fn told(&mut self) -> Vec<Transition> {
        std::iter::from_fn(|| self.tracker.poll_transition()).collect()
    }

    /// Four streams that have shown nothing for the bound.
    pub(crate) fn piled() -> Self {
        let mut rig = Self::new();
        rig.begin(4, Task::streamed(150));
        rig.pass(4.0);
        assert_eq!(rig.veto(), Some(Veto::Wedged));
        rig
    }

    /// A worker whose connection failed.
    pub(crate) fn lost() -> Self {
        let mut rig = Self::new();
        rig.pass(2.0);
        rig.fail();
        assert_eq!(rig.veto(), Some(Veto::Unreachable));
        rig
    }
}

pub(crate) fn pushed(running: u32, waiting: u32) -> Report {
    Report { running, waiting, pushed: true, engine: None }
}

pub(crate) fn polled(running: u32, waiting: u32) -> Report {
    Report { pushed: false, ..pushed(running, waiting) }
}

/// A record of an engine that has not stepped for `seconds`, on a wire that reports every step.
pub(crate) fn silent(seconds: f64) -> Report {
    let engine = EngineSilence { silence: s(seconds), reports_steps: true, prefill_tokens: 0 };
    Report { engine: Some(engine), ..pushed(1, 0) }
}
