//! Defects that other routers had, by the names of behaviour.md 10 and complaints.md, and the pins of its section 12.

use std::time::Duration;

use kv_routing::liveness::{Cause, Contact, EngineSilence, Options, Report, Task, Tracker, Veto};

use crate::rig::{Rig, polled, pushed, s, silent};

// Defect 11: a veto on HTTP, prefill or whole requests from a stale token clock. HTTP streams are tracked as any stream whose
// chunks are seen.
#[test]
fn only_requests_with_a_progress_signal_form_a_pile() {
    for task in [Task::whole(150), Task::prefill_leg(150)] {
        let mut rig = Rig::new();
        rig.begin(64, task);
        for _ in 0..60 {
            rig.pass(1.0);
            rig.report(polled(8, 56));
        }
        assert_eq!((rig.veto(), rig.vitals.tracked()), (None, 0), "{task:?}");
    }
}

#[test]
fn one_slow_stream_is_no_pile_and_grows_into_one() {
    let mut rig = Rig::new();
    rig.begin(1, Task::streamed(100));
    rig.pass(60.0);
    assert_eq!(rig.veto(), None);
    rig.begin(1, Task::streamed(100));
    rig.pass(0.25);
    assert_eq!(rig.veto(), Some(Veto::Wedged));
}

// Defect 12.
#[test]
fn a_passing_probe_ends_the_veto_and_promotes_nobody() {
    let mut rig = Rig::lost();
    rig.told();
    rig.contact(Contact::Probe);
    let told = rig.told();
    assert_eq!((told[0].to, told[0].cause, told[0].promotes(), told[0].closes_breaker()), (None, Cause::Probe, false, true));
    let mut rig = Rig::lost();
    rig.told();
    rig.contact(Contact::Traffic);
    assert!(rig.told()[0].promotes());
    rig.contact(Contact::Traffic);
    assert_eq!(rig.told(), [], "contact without a veto promotes nobody");
}

// Defect 24: a keepalive that tears the connection down takes the streams with it that were to show progress.
#[test]
fn a_wedged_worker_whose_connection_goes_is_unreachable_and_comes_back_with_contact() {
    let mut rig = Rig::piled();
    rig.told();
    rig.fail();
    rig.tickets.clear();
    rig.pass(5.0);
    let told = rig.told();
    assert_eq!((told.len(), told[0].from, told[0].to), (1, Some(Veto::Wedged), Some(Veto::Unreachable)));
    assert_eq!((rig.tracker.vetoed(Veto::Wedged), rig.tracker.vetoed(Veto::Unreachable)), (0, 1));
    rig.contact(Contact::Traffic);
    assert_eq!((rig.veto(), rig.tracker.vetoed(Veto::Unreachable)), (None, 0));
}

// Defect 24 and D34: whatever set the veto, the end of the streams ends it, though nothing is ever heard again of the channel that set it.
#[test]
fn no_veto_outlives_its_reason() {
    let mut by_queue = Rig::new();
    by_queue.begin(1, Task::streamed(1));
    by_queue.pass(4.0);
    by_queue.report(polled(1, 1));
    let mut by_engine = Rig::new();
    by_engine.begin(1, Task::streamed(1));
    by_engine.pass(4.0);
    by_engine.report(silent(4.0));
    for (mut rig, cause) in [(by_queue, Cause::Queue), (by_engine, Cause::EngineSilent), (Rig::piled(), Cause::Pile)] {
        assert_eq!(rig.told().last().map(|told| told.cause), Some(cause));
        rig.tickets.clear();
        // The worker is heard, but sends no records any more.
        (0..20).for_each(|_| {
            rig.contact(Contact::Traffic);
            rig.pass(1.0);
        });
        assert_eq!((rig.veto(), rig.told()[0].cause), (None, Cause::Drained), "{cause}");
    }
}

// Defect 34, and the pins of section 12.
#[test]
fn prefill_is_no_wedge() {
    let mut rig = Rig::new();
    rig.pass(3_600.0);
    rig.begin(128, Task::streamed(1_152));
    rig.pass(14.745);
    assert_eq!(rig.veto(), None, "128 prompts of 1,152 tokens take 14.7456 s at 10,000 a second");
    rig.pass(0.3);
    assert_eq!(rig.veto(), Some(Veto::Wedged));
}

// Defect 34.
#[test]
fn silence_counts_from_the_start_of_the_run_and_not_from_the_last_token_before_it() {
    let mut rig = Rig::new();
    rig.begin(4, Task::streamed(100));
    rig.first_tokens();
    rig.tickets.clear();
    rig.pass(3_600.0);
    rig.begin(3, Task::streamed(100));
    rig.pass(0.5);
    rig.begin(5, Task::streamed(150));
    rig.report(polled(1, 7));
    rig.pass(2.0);
    assert_eq!(rig.veto(), None);
}

#[test]
fn eight_short_prompts_without_a_token_for_3_2_seconds_are_wedged() {
    let mut rig = Rig::new();
    rig.begin(8, Task::streamed(150));
    rig.pass(2.9);
    assert_eq!(rig.veto(), None);
    rig.pass(0.35);
    assert_eq!(rig.veto(), Some(Veto::Wedged));
}

#[test]
fn prompts_that_are_all_but_cached_do_not_make_prefill_look_slow() {
    let mut rig = Rig::new();
    for _ in 0..1_000 {
        rig.begin(1, Task::streamed(16));
        rig.pass(0.05);
        rig.first_tokens();
        rig.tickets.clear();
    }
    rig.begin(8, Task::streamed(150));
    rig.pass(3.3);
    assert_eq!(rig.veto(), Some(Veto::Wedged), "1,200 tokens take no four seconds");
}

#[test]
fn no_prefill_explains_more_than_two_minutes() {
    let mut rig = Rig::new();
    rig.begin(4, Task::streamed(u64::MAX));
    rig.pass(119.9);
    assert_eq!(rig.veto(), None);
    rig.pass(0.5);
    assert_eq!(rig.veto(), Some(Veto::Wedged));
}

#[test]
fn a_failure_right_after_contact_counts_once_the_silence_is_long_enough() {
    let mut rig = Rig::new();
    rig.contact(Contact::Traffic);
    rig.fail();
    rig.pass(1.9);
    assert_eq!(rig.veto(), None);
    rig.pass(0.4);
    assert_eq!(rig.veto(), Some(Veto::Unreachable));
    let mut healed = Rig::new();
    healed.fail();
    healed.contact(Contact::Traffic);
    healed.pass(10.0);
    assert_eq!(healed.veto(), None, "contact takes the failure back");
}

#[test]
fn a_worker_that_pushed_and_is_not_heard_on_any_channel_is_unreachable() {
    let mut rig = Rig::new();
    rig.report(pushed(0, 0));
    rig.pass(14.0);
    assert_eq!(rig.veto(), None);
    rig.pass(1.3);
    assert_eq!((rig.veto(), rig.told()[0].cause), (Some(Veto::Unreachable), Cause::Unheard));
    let mut never_pushed = Rig::new();
    never_pushed.report(polled(0, 0));
    never_pushed.pass(1_000.0);
    assert_eq!(never_pushed.veto(), None);
    let mut off = Rig::with(Options { stale: None, ..Options::default() });
    off.report(pushed(0, 0));
    off.pass(1_000.0);
    assert_eq!(off.veto(), None);
}

#[test]
fn an_engine_is_silent_only_with_work_and_only_as_long_as_it_says_so() {
    let mut rig = Rig::new();
    rig.pass(60.0);
    rig.report(Report { running: 0, ..silent(60.0) });
    assert_eq!(rig.veto(), None, "an idle engine takes no steps");
    rig.report(silent(2.9));
    assert_eq!(rig.veto(), None);
    rig.report(silent(3.0));
    assert_eq!(rig.veto(), Some(Veto::Wedged));
    rig.pass(10.0);
    assert_eq!(rig.veto(), Some(Veto::Wedged), "no streams of ours, and the engine still said so");
    rig.report(silent(0.1));
    assert_eq!((rig.veto(), rig.told().last().unwrap().cause), (None, Cause::Recovered));
}

#[test]
fn where_not_every_step_is_reported_silence_must_outlast_the_prefill() {
    let record = |seconds: f64| {
        let engine = EngineSilence { silence: s(seconds), reports_steps: false, prefill_tokens: 20_000 };
        Report { engine: Some(engine), ..pushed(1, 0) }
    };
    let mut rig = Rig::new();
    rig.pass(100.0);
    rig.report(record(100.0));
    assert_eq!(rig.veto(), None, "without a measured rate nothing is concluded");
    rig.begin(1, Task::streamed(8_000));
    rig.pass(1.0);
    rig.first_tokens();
    rig.tickets.clear();
    assert_eq!(rig.vitals.prefill_tokens_per_s(), Some(8_000.0));
    rig.pass(4.9);
    rig.report(record(4.9));
    assert_eq!(rig.veto(), None, "twice 2.5 s");
    rig.pass(0.2);
    rig.report(record(5.1));
    assert_eq!(rig.veto(), Some(Veto::Wedged));
}

#[test]
fn progress_that_was_seen_is_better_evidence_than_the_engines_word() {
    let mut rig = Rig::new();
    rig.begin(1, Task::streamed(1));
    rig.pass(10.0);
    rig.first_tokens();
    rig.pass(1.0);
    rig.report(silent(11.0));
    assert_eq!(rig.veto(), None);
}

#[test]
fn progress_takes_the_engines_word_back() {
    let mut rig = Rig::piled();
    rig.report(silent(4.0));
    rig.tickets[0].progress(rig.now);
    rig.pass(3.5);
    assert_eq!(rig.told().last().map(|told| told.cause), Some(Cause::Pile), "it moved once, and then no more");
    rig.tickets.clear();
    rig.pass(0.25);
    assert_eq!(rig.veto(), None, "nothing holds the veto but its streams");
}

#[test]
fn with_wedge_off_nobody_is_wedged() {
    let mut rig = Rig::with(Options { wedge: None, ..Options::default() });
    rig.begin(100, Task::streamed(1));
    rig.pass(60.0);
    rig.report(silent(60.0));
    rig.report(polled(1, 99));
    assert_eq!(rig.veto(), None);
}

#[test]
fn what_comes_for_a_worker_that_left_is_counted_and_changes_nobody() {
    let mut tracker = Tracker::new(Options::default());
    let first = tracker.add_worker(s(0.0)).unwrap();
    let ticket = tracker.vitals(first).unwrap().begin(s(0.0), Task::streamed(1));
    tracker.handle_transport_failure(s(3.0), first);
    assert_eq!(tracker.vetoed(Veto::Unreachable), 1);
    assert!(tracker.remove_worker(first) && !tracker.remove_worker(first));
    assert_eq!((tracker.vetoed(Veto::Unreachable), tracker.next_timeout()), (0, None));
    let second = tracker.add_worker(s(3.0)).unwrap();
    assert_ne!(first, second, "the place is the same, the worker is not");
    tracker.handle_transport_failure(s(9.0), first);
    ticket.finish(s(9.0));
    assert_eq!((tracker.counts().strays, tracker.vitals(second).unwrap().veto()), (1, None));
    assert!(tracker.vitals(first).is_none());
}

// Defect 33 and D35: a client that vanishes, an error, a panic: the ticket is dropped.
#[test]
fn a_ticket_counts_until_it_is_dropped_and_never_twice() {
    let mut rig = Rig::new();
    let now = rig.now;
    let mut finished = rig.vitals.begin(now, Task::streamed(1_000));
    let dropped = rig.vitals.begin(now, Task::streamed(20));
    let whole = rig.vitals.begin(now, Task::whole(40));
    let leg = rig.vitals.begin(now, Task::prefill_leg(8_000));
    assert_eq!((rig.vitals.tracked(), rig.vitals.pending_prefill_tokens()), (2, 9_060));
    finished.first_token(now);
    finished.first_token(now);
    assert_eq!(rig.vitals.pending_prefill_tokens(), 8_060);
    finished.finish(now);
    drop(dropped);
    assert_eq!((rig.vitals.tracked(), rig.vitals.pending_prefill_tokens()), (0, 8_040));
    whole.finish(now);
    leg.finish(now + s(2.0));
    assert_eq!((rig.vitals.tracked(), rig.vitals.pending_prefill_tokens()), (0, 0));
    assert_eq!(rig.vitals.prefill_tokens_per_s(), Some(4_500.0), "1,000 and 8,000 tokens in 2 s");
    rig.pass(1.0);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ticket = rig.vitals.begin(now, Task::streamed(7));
        panic!("a handler's");
    }));
    assert!(panicked.is_err());
    assert_eq!((rig.vitals.tracked(), rig.vitals.pending_prefill_tokens()), (0, 0));
}

#[test]
fn a_clock_that_jumps_back_makes_nothing_wait_for_the_length_of_the_jump() {
    let mut rig = Rig::new();
    rig.now = s(100_000.0);
    rig.begin(4, Task::streamed(1));
    rig.tickets[0].progress(rig.now);
    rig.contact(Contact::Traffic);
    rig.tracker.handle_timeout(rig.now);
    rig.now = s(100.0);
    rig.tracker.handle_timeout(rig.now);
    for _ in 0..14 {
        rig.now += Duration::from_millis(250);
        rig.tracker.handle_timeout(rig.now);
    }
    assert_eq!(rig.veto(), Some(Veto::Wedged));
    rig.fail();
    assert_eq!(rig.veto(), Some(Veto::Unreachable));
}
