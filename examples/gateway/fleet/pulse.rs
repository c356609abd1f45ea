//! Who of the fleet moves: what every channel to a rank brings goes to one tracker, and its vetoes to the decision.

use std::sync::Arc;
use std::time::Duration;

use kv_routing::limits::SWEEP_EVERY;
use kv_routing::liveness::{Cause, Contact, Handle, Options, Report, Tracker, Transition, Veto, Vitals, WorkersExhausted};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// The tracker of one fleet, and its clock.
#[derive(Debug)]
pub(crate) struct Watch {
    begun: Instant,
    tracker: Mutex<Tracker>,
}

/// One rank under watch.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    watch: Arc<Watch>,
    handle: Handle,
    vitals: Vitals,
}

impl Watch {
    pub(super) fn new(options: Options) -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), tracker: Mutex::new(Tracker::new(options)) })
    }

    /// A further rank.
    pub(super) fn enlist(self: &Arc<Self>) -> Result<Pulse, WorkersExhausted> {
        let mut tracker = self.tracker.lock();
        let handle = tracker.add_worker(self.now())?;
        let vitals = tracker.vitals(handle).expect("it was added just now");
        Ok(Pulse { watch: self.clone(), handle, vitals })
    }

    /// Sweeps until the task is aborted, and has every change told.
    pub(super) async fn keep_swept(self: Arc<Self>, tell: impl Fn(&Transition)) {
        loop {
            sleep(SWEEP_EVERY).await;
            self.sweep().iter().for_each(&tell);
        }
    }

    fn sweep(&self) -> Vec<Transition> {
        let mut tracker = self.tracker.lock();
        tracker.handle_timeout(self.now());
        std::iter::from_fn(|| tracker.poll_transition()).collect()
    }

    /// How often vetoes were set or ended for this cause.
    pub(crate) fn transitions(&self, cause: Cause) -> u64 {
        self.tracker.lock().counts().transitions(cause)
    }

    /// The time of everything that is known of the fleet.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}

impl Pulse {
    /// Why the rank is passed over, if it is.
    pub(crate) fn veto(&self) -> Option<Veto> {
        self.vitals.veto()
    }

    pub(super) fn is(&self, handle: Handle) -> bool {
        self.handle == handle
    }

    /// What the rank's requests share with the tracker.
    pub(super) fn vitals(&self) -> Vitals {
        self.vitals.clone()
    }

    /// Its load came, by a poll or by itself.
    pub(super) fn reported(&self, report: &Report) {
        self.watch.tracker.lock().handle_load_report(self.watch.now(), self.handle, report);
    }

    /// Its engine was heard, by its events or by a connection.
    pub(super) fn heard(&self) {
        self.watch.tracker.lock().handle_contact(self.watch.now(), self.handle, Contact::Traffic);
    }

    /// Its engine passed a health check.
    pub(super) fn probed(&self) {
        self.watch.tracker.lock().handle_contact(self.watch.now(), self.handle, Contact::Probe);
    }

    /// A connection to it was refused or reset.
    pub(super) fn cut_off(&self) {
        self.watch.tracker.lock().handle_transport_failure(self.watch.now(), self.handle);
    }
}

#[cfg(test)]
mod tests {
    use kv_routing::liveness::{Task, Ticket};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn streams_that_pile_up_are_a_veto_until_one_of_them_moves() {
        let watch = Watch::new(Options::default());
        let (idle, busy) = (watch.enlist().unwrap(), watch.enlist().unwrap());
        let mut streams: Vec<Ticket> = (0..4).map(|_| busy.vitals().begin(watch.now(), Task::streamed(100))).collect();
        let (told, hear) = std::sync::mpsc::channel();
        let sweeping = tokio::spawn(watch.clone().keep_swept(move |transition| _ = told.send(*transition)));
        sleep(Duration::from_secs(4)).await;
        assert_eq!((idle.veto(), busy.veto()), (None, Some(Veto::Wedged)));
        streams[0].first_token(watch.now());
        sleep(SWEEP_EVERY * 2).await;
        assert_eq!(busy.veto(), None);
        let causes: Vec<_> = hear.try_iter().map(|transition| (busy.is(transition.worker), transition.cause)).collect();
        assert_eq!(causes, [(true, Cause::Pile), (true, Cause::Progress)]);
        assert_eq!((watch.transitions(Cause::Pile), watch.transitions(Cause::Contact)), (1, 0));
        sweeping.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_gone_is_a_veto_until_the_engine_is_heard() {
        let watch = Watch::new(Options::default());
        let rank = watch.enlist().unwrap();
        for hear in [Pulse::heard, Pulse::probed] {
            rank.cut_off();
            sleep(Duration::from_secs(3)).await;
            watch.sweep();
            assert_eq!(rank.veto(), Some(Veto::Unreachable));
            hear(&rank);
            assert_eq!(rank.veto(), None);
        }
    }
}
