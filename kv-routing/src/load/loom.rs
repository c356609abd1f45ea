//! Every interleaving, with up to two forced switches of threads, of small scenes of one ledger, with as weak an order of memory as the language allows.
//!
//! ```sh
//! RUSTFLAGS="--cfg kv_loom" cargo test -p kv-routing --release --lib loom::
//! ```

use std::time::Duration;

use ::loom::thread;

use super::{Ledger, Options, Sample, View};

const NOW: Duration = Duration::from_secs(9);

fn queued(at_s: u64, tokens: f64) -> Sample {
    Sample { running: 1.0, waiting: 1.0, queued_tokens: Some(tokens), ..Sample::polled(Duration::from_secs(at_s)) }
}

fn model(scene: impl Fn() + Send + Sync + 'static) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(2));
    builder.check(scene);
}

#[test]
fn a_reader_sees_a_request_once_while_a_sample_takes_it_over() {
    model(|| {
        let ledger = Ledger::new(Options::default());
        ledger.handle_sample(NOW, 0, &queued(1, 0.0)).unwrap();
        let _booking = ledger.dispatch(Duration::from_secs(2), 0, 100);
        let writer = ledger.clone();
        let writer = thread::spawn(move || writer.handle_sample(NOW, 0, &queued(3, 100.0)));
        let tokens = ledger.view(NOW).queued_tokens;
        assert_eq!(tokens, 100, "the credit, or the sample's queue: neither both nor none");
        writer.join().unwrap().unwrap();
    });
}

#[test]
fn a_reader_that_sees_a_sample_as_fresh_sees_its_values() {
    model(|| {
        let ledger = Ledger::new(Options::default());
        // A sample of long ago, whose values still stand in the words.
        ledger.handle_sample(Duration::from_secs(1), 0, &queued(1, 7_000.0)).unwrap();
        let late = Duration::from_secs(100);
        let writer = ledger.clone();
        let writer = thread::spawn(move || writer.handle_sample(late, 0, &queued(100, 5.0)));
        let view = ledger.view(late);
        let tokens = (view.is_reported(), view.queued_tokens);
        assert!(tokens == (false, 0) || tokens == (true, 5), "{tokens:?}");
        writer.join().unwrap().unwrap();
    });
}

#[test]
fn two_requests_that_end_together_leave_nothing() {
    model(|| {
        let ledger = Ledger::new(Options::default());
        let mut first = ledger.dispatch(NOW, 0, 100);
        let second = ledger.dispatch(NOW, 0, 50);
        let other = thread::spawn(move || drop(second));
        first.first_token();
        drop(first);
        other.join().unwrap();
        assert_eq!(ledger.view(NOW), View::default());
    });
}
