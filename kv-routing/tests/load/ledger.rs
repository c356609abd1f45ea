//! A worker's account and our own books, together.

use std::time::Duration;

use kv_events::relay::{LoadCore, LoadSample};
use kv_routing::load::wire::record;
use kv_routing::load::{Booking, Ledger, Options, Refusal, Sample, View};
use proptest::prelude::*;

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn ledger() -> Ledger {
    Ledger::new(Options::default())
}

fn queued(at: f64, tokens: f64) -> Sample {
    Sample { running: 1.0, waiting: 1.0, queued_tokens: Some(tokens), ..Sample::polled(s(at)) }
}

// Defect 28.
#[test]
fn an_old_sample_published_again_resets_nothing() {
    let ledger = ledger();
    let _first = ledger.dispatch(s(1.0), 0, 100);
    ledger.handle_sample(s(2.5), 0, &queued(2.0, 500.0)).unwrap();
    let _second = ledger.dispatch(s(3.0), 0, 40);
    for (at, again) in [(3.1, queued(2.0, 500.0)), (3.2, queued(1.0, 9.0)), (3.3, queued(2.0, 0.0))] {
        ledger.handle_sample(s(at), 0, &again).unwrap_err();
        assert_eq!(ledger.view(s(at)).queued_tokens, 540);
    }
    let counts = ledger.counts();
    assert_eq!((counts.accepted, counts.refused(Refusal::Repeated), counts.refused(Refusal::Old)), (1, 2, 1));
}

// Defect 28, on the relay's wire: a record that is sent again with a later batch has its number.
#[test]
fn a_record_repeated_under_its_number_takes_over_nothing() {
    let ledger = ledger();
    let sample = LoadSample { core: LoadCore { running: 1, ..LoadCore::default() }, telemetry: None, sample: 7 };
    ledger.handle_sample(s(1.0), 0, &record(&sample, s(1.0), s(0.1))).unwrap();
    let _booking = ledger.dispatch(s(2.0), 0, 300);
    let again = record(&sample, s(3.0), Duration::ZERO);
    assert_eq!(ledger.handle_sample(s(3.0), 0, &again), Err(Refusal::Repeated));
    assert_eq!(ledger.view(s(3.0)).queued_tokens, 300);
    let next = record(&LoadSample { sample: 8, ..sample }, s(3.0), Duration::ZERO);
    ledger.handle_sample(s(3.0), 0, &next).unwrap();
    assert_eq!(ledger.view(s(3.0)).queued_tokens, 0);
}

#[test]
fn a_record_knows_only_what_could_have_reached_it() {
    let ledger = ledger();
    let _booking = ledger.dispatch(s(9.99), 0, 300);
    let sample = LoadSample { core: LoadCore { running: 1, ..LoadCore::default() }, telemetry: None, sample: 0 };
    ledger.handle_sample(s(10.0), 0, &record(&sample, s(10.0), Duration::ZERO)).unwrap();
    assert_eq!(ledger.view(s(10.0)).queued_tokens, 300, "sent 10 ms before the receipt");
}

#[test]
fn without_a_fresh_sample_our_own_books_count() {
    let ledger = ledger();
    let mut booking = ledger.dispatch(s(1.0), 0, 800);
    assert_eq!(ledger.view(s(1.0)), View { in_flight: 1, queued_tokens: 800, ..View::default() });
    ledger.handle_sample(s(2.0), 0, &Sample { kv_usage: Some(0.5), tokens_per_s: Some(90.0), ..queued(2.0, 30.0) }).unwrap();
    let reported = View {
        in_flight: 1,
        running: 1,
        waiting: 1,
        queued_tokens: 30,
        rate_tokens_per_s: Some(90.0),
        kv_usage: Some(0.5),
        sampled_at: Some(s(2.0)),
    };
    assert_eq!((ledger.view(s(2.0)), ledger.view(s(17.0))), (reported, reported));
    let stale = ledger.view(s(17.1));
    assert_eq!((stale.queued_tokens, stale.is_reported()), (800, false), "its prompt is not computed yet, as far as we know");
    booking.first_token();
    booking.first_token();
    assert_eq!((ledger.view(s(17.1)).queued_tokens, ledger.view(s(17.1)).in_flight), (0, 1));
}

// Defect 33, D35, P30.
#[test]
fn a_booking_ends_on_every_path_and_once() {
    let ledger = ledger();
    let mut answered = ledger.dispatch(s(1.0), 0, 10);
    let failed = ledger.dispatch(s(1.0), 0, 20);
    answered.first_token();
    drop(answered);
    drop(failed);
    let vanished = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _booking = ledger.dispatch(s(1.0), 0, 40);
        panic!("a handler's");
    }));
    assert!(vanished.is_err());
    assert_eq!(ledger.view(s(1.0)), View::default());
}

#[test]
fn ranks_add_up_and_each_covers_its_own_dispatches() {
    let ledger = ledger();
    let _bookings: Vec<Booking> = (0..3).map(|rank| ledger.dispatch(s(1.0), rank, 100)).collect();
    let sample =
        |kv_usage, tokens_per_s| Sample { kv_usage: Some(kv_usage), tokens_per_s: Some(tokens_per_s), ..queued(2.0, 7.0) };
    ledger.handle_sample(s(2.0), 0, &sample(0.2, 50.0)).unwrap();
    ledger.handle_sample(s(2.0), 2, &Sample { running: 0.0, ..sample(0.4, 900.0) }).unwrap();
    let view = ledger.view(s(2.0));
    assert_eq!((view.running, view.waiting, view.queued_tokens), (1, 2, 114), "rank 1 has not told");
    assert!((view.kv_usage.unwrap() - 0.3).abs() < 1e-12);
    assert_eq!(view.rate_tokens_per_s, Some(50.0), "defect 29: rank 2 is idle");
    assert_eq!(ledger.handle_sample(s(3.0), 1_024, &queued(3.0, 1.0)), Err(Refusal::RankOutOfRange));
}

#[test]
fn a_rank_that_fell_silent_counts_no_more_beside_one_that_speaks() {
    let ledger = ledger();
    ledger.handle_sample(s(2.0), 0, &queued(2.0, 900.0)).unwrap();
    ledger.handle_sample(s(30.0), 1, &queued(30.0, 7.0)).unwrap();
    let view = ledger.view(s(30.0));
    assert_eq!((view.running, view.queued_tokens, view.sampled_at), (1, 7, Some(s(30.0))));
}

#[test]
fn a_waiting_count_alone_stands_for_prompts_of_usual_length() {
    let ledger = ledger();
    let sample = Sample { waiting: 3.0, queued_tokens: None, ..queued(1.0, 0.0) };
    ledger.handle_sample(s(1.0), 0, &sample).unwrap();
    assert_eq!(ledger.view(s(1.0)).queued_tokens, 3 * 1_024);
}

// Amendment 9: our own bookkeeping of what we sent.
#[test]
fn a_waiting_count_alone_means_the_youngest_of_our_own_prompts_first() {
    let ledger = ledger();
    let _running: Vec<Booking> = [9_000, 5_000].map(|tokens| ledger.dispatch(s(1.0), 0, tokens)).into();
    let mut waiting: Vec<Booking> = [300, 20].map(|tokens| ledger.dispatch(s(2.0), 0, tokens)).into();
    let sample = |waiting| Sample { running: 2.0, waiting, queued_tokens: None, ..Sample::polled(s(3.0)) };
    ledger.handle_sample(s(3.0), 0, &sample(2.0)).unwrap();
    assert_eq!(ledger.view(s(3.0)).queued_tokens, 320);
    let _since = ledger.dispatch(s(4.0), 0, 7);
    assert_eq!(ledger.view(s(4.0)).queued_tokens, 327);
    waiting.remove(1).first_token();
    assert_eq!(ledger.view(s(4.0)).queued_tokens, 5_307, "two wait, and this was none of them");
    let others = Sample { sampled_at: s(4.0), ..sample(6.0) };
    ledger.handle_sample(s(4.0), 0, &others).unwrap();
    assert_eq!(ledger.view(s(4.0)).queued_tokens, 9_000 + 5_000 + 300 + 7 + 2 * 1_024, "two are not ours");
}

#[test]
fn bad_values_are_counted_and_change_nothing() {
    let ledger = ledger();
    ledger.handle_sample(s(1.0), 0, &queued(1.0, 5.0)).unwrap();
    for bad in [f64::NAN, -1.0, 1e300] {
        ledger.handle_sample(s(2.0), 0, &Sample { running: bad, ..queued(2.0, 0.0) }).unwrap_err();
    }
    ledger.handle_sample(s(3.0), 0, &Sample { kv_usage: Some(f64::NAN), ..queued(3.0, 6.0) }).unwrap();
    let (counts, view) = (ledger.counts(), ledger.view(s(3.0)));
    let refused = [Refusal::NotANumber, Refusal::Negative, Refusal::Absurd].map(|refusal| counts.refused(refusal));
    assert_eq!((refused, counts.left_out(Refusal::NotANumber), counts.accepted), ([1, 1, 1], 1, 2));
    assert_eq!((view.queued_tokens, view.kv_usage), (6, None));
}

#[test]
fn who_pushes_is_asked_only_when_a_rank_falls_silent() {
    let (ledger, interval) = (ledger(), s(10.0));
    assert!(ledger.wants_poll(s(0.0), interval));
    ledger.handle_sample(s(1.0), 0, &queued(1.0, 0.0)).unwrap();
    assert!(ledger.wants_poll(s(1.0), interval), "it was polled, not pushed");
    let pushed = |at| Sample { running: 1.0, ..Sample::pushed(s(at), Duration::ZERO) };
    ledger.handle_sample(s(2.0), 0, &pushed(2.0)).unwrap();
    ledger.handle_sample(s(2.0), 1, &pushed(2.0)).unwrap();
    assert!(!ledger.wants_poll(s(11.0), interval));
    ledger.handle_sample(s(11.0), 0, &pushed(11.0)).unwrap();
    assert!(ledger.wants_poll(s(13.0), interval), "rank 1 is silent");
}

#[test]
fn a_clock_that_goes_back_shuts_nobody_out() {
    let ledger = ledger();
    let _before = ledger.dispatch(s(1_000.0), 0, 10);
    ledger.handle_sample(s(1_000.0), 0, &queued(1_000.0, 1.0)).unwrap();
    let _at = ledger.dispatch(s(1_000.0), 0, 20);
    ledger.handle_sample(s(5.0), 0, &queued(4.9, 1.0)).unwrap_err();
    ledger.handle_sample(s(6.0), 0, &queued(6.0, 2.0)).unwrap();
    assert_eq!(ledger.view(s(6.0)).queued_tokens, 2);
}

#[test]
fn a_sample_of_the_future_is_one_of_now() {
    let ledger = ledger();
    ledger.handle_sample(s(5.0), 0, &queued(100.0, 1.0)).unwrap();
    let _booking = ledger.dispatch(s(5.5), 0, 10);
    assert_eq!((ledger.view(s(5.5)).queued_tokens, ledger.view(s(5.5)).sampled_at), (11, Some(s(5.0))));
    ledger.handle_sample(s(6.0), 0, &queued(6.0, 2.0)).unwrap();
    assert_eq!(ledger.view(s(6.0)).queued_tokens, 2);
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Back(u64),
    Dispatch { rank: u16, tokens: u64 },
    FirstToken(usize),
    End(usize),
    Sample { rank: u16, lag_ms: u64, number: Option<u64>, tokens: f64 },
}

fn any_step() -> impl Strategy<Value = Step> {
    let tokens = prop_oneof![0u64..5_000, Just(u64::MAX)];
    let told = prop_oneof![3 => (0u32..9_000).prop_map(f64::from), 1 => prop::num::f64::ANY];
    prop_oneof![
        3 => (0u64..20_000).prop_map(Step::Pass),
        1 => (0u64..20_000).prop_map(Step::Back),
        5 => (0u16..3, tokens).prop_map(|(rank, tokens)| Step::Dispatch { rank, tokens }),
        2 => any::<usize>().prop_map(Step::FirstToken),
        3 => any::<usize>().prop_map(Step::End),
        4 => (0u16..3, 0u64..3_000, prop::option::of(0u64..5), told)
            .prop_map(|(rank, lag_ms, number, tokens)| Step::Sample { rank, lag_ms, number, tokens }),
    ]
}

proptest! {
    #[test]
    fn books_balance_in_any_schedule(steps in proptest::collection::vec(any_step(), 1..80)) {
        let ledger = ledger();
        let mut now = s(60.0);
        let mut bookings: Vec<(Booking, bool, u64)> = Vec::new();
        for step in steps {
            match step {
                Step::Pass(ms) => now += Duration::from_millis(ms),
                Step::Back(ms) => now = now.saturating_sub(Duration::from_millis(ms)),
                Step::Dispatch { rank, tokens } => bookings.push((ledger.dispatch(now, rank, tokens), true, tokens)),
                Step::FirstToken(nth) if !bookings.is_empty() => {
                    let nth = nth % bookings.len();
                    bookings[nth].0.first_token();
                    bookings[nth].1 = false;
                }
                Step::End(nth) if !bookings.is_empty() => drop(bookings.swap_remove(nth % bookings.len())),
                Step::Sample { rank, lag_ms, number, tokens } => {
                    let sampled_at = now.saturating_sub(Duration::from_millis(lag_ms));
                    let sample = Sample { number, waiting: tokens, queued_tokens: Some(tokens), kv_usage: Some(tokens), ..Sample::polled(sampled_at) };
                    _ = ledger.handle_sample(now, rank, &sample);
                }
                _ => {}
            }
            let view = ledger.view(now);
            prop_assert_eq!(view.in_flight as usize, bookings.len());
            prop_assert!(view.kv_usage.is_none_or(|usage| (0.0..=1.0).contains(&usage)));
            let own = bookings.iter().filter(|booking| booking.1).fold(0u64, |sum, booking| sum.saturating_add(booking.2));
            if !view.is_reported() && own < u64::MAX {
                prop_assert!(view.queued_tokens <= own);
            }
        }
        drop(bookings);
        // No credit is left: without requests, only what the worker itself told counts.
        now += s(100.0);
        prop_assert_eq!(ledger.view(now), View::default());
        for rank in 0..3 {
            ledger.handle_sample(now, rank, &Sample::polled(now)).unwrap();
        }
        prop_assert_eq!(ledger.view(now).queued_tokens, 0);
    }
}

/// Stops the reader, also when the writer panics.
struct Stops<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn readers_on_other_threads_see_a_request_once_while_samples_take_it_over() {
    let ledger = ledger();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let tokens = ledger.view(s(10.0)).queued_tokens;
                assert!(tokens == 100 || tokens == 0 && reads == 0, "{tokens} after {reads} reads");
                reads += u64::from(tokens == 100);
            }
            reads
        });
        let stops = Stops(&stop);
        let mut at = 0.0;
        // The first sample takes the request over from the credit, the others repeat it.
        let _booking = ledger.dispatch(s(0.001), 0, 100);
        for _ in 0..20_000 {
            at += 0.0001;
            ledger.handle_sample(s(10.0), 0, &queued(at + 0.001, 100.0)).unwrap();
        }
        drop(stops);
        assert!(reader.join().is_ok());
    });
}
