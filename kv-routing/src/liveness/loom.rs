//! Every interleaving, with up to two forced switches of threads, of a request's thread and the tracker's.
//!
//! ```sh
//! RUSTFLAGS="--cfg kv_loom" cargo test -p kv-routing --release --lib loom::
//! ```

use std::time::Duration;

use ::loom::thread;

use super::{Options, Task, Tracker, Veto};

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn model(scene: impl Fn() + Send + Sync + 'static) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(2));
    builder.check(scene);
}

#[test]
fn progress_beside_a_sweep_is_found_by_it_or_by_the_next() {
    model(|| {
        let mut tracker = Tracker::new(Options::default());
        let worker = tracker.add_worker(s(0)).unwrap();
        let vitals = tracker.vitals(worker).unwrap();
        let tickets: Vec<_> = (0..4).map(|_| vitals.begin(s(0), Task::streamed(1))).collect();
        tracker.handle_timeout(s(4));
        assert_eq!(vitals.veto(), Some(Veto::Wedged));
        let chunk = thread::spawn(move || {
            tickets[0].progress(s(5));
            tickets
        });
        tracker.handle_timeout(s(5));
        let seen = vitals.veto();
        let tickets = chunk.join().unwrap();
        tracker.handle_timeout(s(6));
        assert_eq!(vitals.veto(), None, "{seen:?} before");
        drop(tickets);
        assert_eq!((vitals.tracked(), vitals.pending_prefill_tokens()), (0, 0));
    });
}
