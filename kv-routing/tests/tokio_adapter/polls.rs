//! When an engine is asked for its loads, and what comes of it.

use std::time::Duration;

use kv_routing::adapter::tokio::{LoadPoller, PollError, PollFailure, PollOptions, PollOutcome, Polled, Pulse};
use kv_routing::liveness::{Cause, Task, Veto};
use kv_routing::load::{Ledger, Refusal, Sample, Source};
use tokio::time::{advance, sleep, timeout};

use crate::script::{Engine, broken, busy, loads, refused, watch, worker};

const NONE: Duration = Duration::ZERO;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn push(ledger: &Ledger, now: Duration, rank: u16) {
    ledger.handle_sample(now, rank, &Sample::pushed(now, NONE)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_pushes_nothing_is_asked_at_once_and_every_interval() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    let engine = Engine::new(&[(seconds(1), busy)]);
    let poller = LoadPoller::new(engine.clone(), pulse, ledger.clone());
    let counts = poller.counts();
    let mut running = Vec::new();
    timeout(seconds(35), poller.keep_polled(|answer| running.push(answer.as_ref().unwrap().ranks[0].1.running)))
        .await
        .unwrap_err();
    assert_eq!(engine.asked_ms(), [0, 10_000, 20_000, 30_000]);
    assert_eq!((running, counts.of(PollOutcome::Answered), counts.of(PollOutcome::Suppressed)), (vec![3.0; 4], 4, 0));
    let view = ledger.view(watch.clock().now());
    assert_eq!((view.running, view.waiting, view.sampled_at), (3, 1, Some(seconds(30))));
}

#[tokio::test(start_paused = true)]
async fn who_pushes_is_asked_only_when_it_falls_silent() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    push(&ledger, watch.clock().now(), 0);
    let engine = Engine::new(&[(NONE, busy)]);
    let poller = LoadPoller::new(engine.clone(), pulse, ledger.clone());
    let counts = poller.counts();
    let polling = tokio::spawn(poller.keep_polled(|_| ()));
    for _ in 0..60 {
        sleep(seconds(1)).await;
        push(&ledger, watch.clock().now(), 0);
    }
    assert_eq!(engine.asked_ms(), [0_u128; 0]);
    assert!((6..=8).contains(&counts.of(PollOutcome::Suppressed)), "it is not looked at without end: {counts:?}");
    sleep(seconds(25)).await;
    // The last record is of 60 s, less the time on its way.
    assert_eq!(engine.asked_ms(), [69_981, 79_981]);
    push(&ledger, watch.clock().now(), 0);
    sleep(seconds(9)).await;
    assert_eq!(engine.asked_ms().len(), 2, "it pushes again");
    polling.abort();
}

#[tokio::test(start_paused = true)]
async fn one_silent_rank_of_two_is_enough() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    (0..2).for_each(|rank| push(&ledger, watch.clock().now(), rank));
    let engine = Engine::new(&[(NONE, busy)]);
    let _polling = tokio::spawn(LoadPoller::new(engine.clone(), pulse, ledger.clone()).keep_polled(|_| ()));
    for _ in 0..12 {
        sleep(seconds(1)).await;
        push(&ledger, watch.clock().now(), 0);
    }
    assert_eq!(engine.asked_ms(), [10_001]);
}

/// The same where each rank has its own books.
#[tokio::test(start_paused = true)]
async fn one_silent_worker_of_an_engine_is_enough() {
    let watch = watch();
    let workers: Vec<_> = (0..2).map(|_| worker(&watch)).collect();
    let push_to = |rank: u16| push(&workers[usize::from(rank)].1, watch.clock().now(), rank);
    (0..2).for_each(push_to);
    sleep(seconds(5)).await;
    push_to(1);
    let of_rank = |(rank, (pulse, ledger)): (u16, &(_, Ledger))| Polled {
        rank: Some(rank),
        pulse: Pulse::clone(pulse),
        ledger: ledger.clone(),
    };
    let engine = Engine::new(&[(NONE, busy)]);
    let _polling =
        tokio::spawn(LoadPoller::by_rank(engine.clone(), (0..).zip(&workers).map(of_rank).collect()).keep_polled(|_| ()));
    sleep(seconds(7)).await;
    assert_eq!(engine.asked_ms(), [10_001], "rank 0 was silent for ten seconds");
}

/// A request that was sent while the question was under way is not known to its answer.
#[tokio::test(start_paused = true)]
async fn an_answer_is_as_old_as_its_question() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    let engine = Engine::new(&[(seconds(2), busy)]);
    let _polling = tokio::spawn(LoadPoller::new(engine, pulse.clone(), ledger.clone()).keep_polled(|_| ()));
    sleep(seconds(1)).await;
    let _booking = ledger.dispatch(watch.clock().now(), 0, 500);
    sleep(seconds(2)).await;
    let view = ledger.view(watch.clock().now());
    assert_eq!((view.running, view.queued_tokens), (3, 1_024 + 500), "one that waits, and ours");
}

#[tokio::test(start_paused = true)]
async fn what_a_source_says_of_its_samples_times_is_not_believed() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    let source = |sent_at: Duration| async move {
        let mut loads = loads(&[(0, 1.0, 0.0)], sent_at + seconds(5));
        loads.ranks[0].1.source = Source::Pushed;
        sleep(seconds(2)).await;
        Ok(loads)
    };
    let _polling = tokio::spawn(LoadPoller::new(source, pulse, ledger.clone()).keep_polled(|_| ()));
    sleep(seconds(13)).await;
    assert_eq!(ledger.view(watch.clock().now()).sampled_at, Some(seconds(10)));
    assert_eq!(ledger.counts().accepted, 2, "a push would have ended the polls");
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_is_a_transport_failure_and_an_answer_ends_it() {
    let watch = watch();
    let _sweeping = tokio::spawn(watch.clone().keep_swept(|_| ()));
    let (pulse, ledger) = worker(&watch);
    let engine = Engine::new(&[(NONE, refused), (NONE, refused), (NONE, refused), (NONE, refused), (NONE, busy)]);
    let poller = LoadPoller::new(engine.clone(), pulse.clone(), ledger);
    let counts = poller.counts();
    let _polling = tokio::spawn(poller.keep_polled(|_| ()));
    sleep(seconds(3)).await;
    assert_eq!(pulse.veto(), Some(Veto::Unreachable));
    sleep(seconds(5)).await;
    assert_eq!((pulse.veto(), counts.of(PollOutcome::Unreachable)), (None, 4));
    assert_eq!(engine.asked_ms(), [0, 500, 1_500, 3_500, 7_500], "sooner than every ten seconds");
    assert_eq!(watch.counts().transitions(Cause::Contact), 1);
}

#[tokio::test(start_paused = true)]
async fn pauses_after_failures_end_at_the_interval() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    let engine = Engine::new(&[(NONE, broken)]);
    let poller = LoadPoller::new(engine.clone(), pulse, ledger);
    timeout(seconds(40), poller.keep_polled(|_| ())).await.unwrap_err();
    assert_eq!(engine.asked_ms(), [0, 500, 1_500, 3_500, 7_500, 15_500, 25_500, 35_500]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_makes_pauses_short_again() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    let engine = Engine::new(&[(NONE, broken), (NONE, broken), (NONE, busy), (NONE, broken), (NONE, busy)]);
    let poller = LoadPoller::new(engine.clone(), pulse, ledger);
    timeout(seconds(13), poller.keep_polled(|_| ())).await.unwrap_err();
    assert_eq!(engine.asked_ms(), [0, 500, 1_500, 11_500, 12_000]);
}

/// Neither a deadline nor an engine's error is a transport failure.
#[tokio::test(start_paused = true)]
async fn late_answers_and_errors_cast_no_doubt() {
    for (answer, outcome) in [(busy as fn(_) -> _, PollOutcome::Late), (broken, PollOutcome::Failed)] {
        let watch = watch();
        let _sweeping = tokio::spawn(watch.clone().keep_swept(|_| ()));
        let (pulse, ledger) = worker(&watch);
        let after = if outcome == PollOutcome::Late { seconds(600) } else { NONE };
        let engine = Engine::new(&[(after, answer)]);
        let poller = LoadPoller::new(engine.clone(), pulse.clone(), ledger.clone());
        let counts = poller.counts();
        let polling = tokio::spawn(poller.keep_polled(|_| ()));
        sleep(seconds(30)).await;
        assert_eq!((pulse.veto(), watch.counts().transitions(Cause::ConnectionLost)), (None, 0), "{outcome:?}");
        assert!(counts.of(outcome) >= 4 && counts.of(PollOutcome::Unreachable) == 0, "{counts:?}");
        assert_eq!((engine.most_under_way(), ledger.counts().accepted), (1, 0));
        polling.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_late_is_given_up_before_the_next() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    let engine = Engine::new(&[(seconds(600), busy), (seconds(2), busy)]);
    let mut failures = Vec::new();
    let poller = LoadPoller::new(engine.clone(), pulse, ledger);
    let note = |answer: &Result<_, PollError>| failures.push(answer.as_ref().err().map(PollError::failure));
    timeout(seconds(6), poller.keep_polled(note)).await.unwrap_err();
    assert_eq!(engine.asked_ms(), [0, 3_500]);
    assert_eq!((failures, engine.most_under_way()), (vec![Some(PollFailure::Late), None], 1));
}

/// Where answers take longer than the interval, they are as many as there are answers.
#[tokio::test(start_paused = true)]
async fn there_is_one_question_at_a_time() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    let engine = Engine::new(&[(seconds(5), busy)]);
    let options = PollOptions { interval: seconds(1), deadline: seconds(60), ..PollOptions::default() };
    let poller = LoadPoller::new(engine.clone(), pulse, ledger).with_options(options);
    timeout(seconds(21), poller.keep_polled(|_| ())).await.unwrap_err();
    assert_eq!((engine.asked_ms(), engine.most_under_way()), (vec![0, 5_000, 10_000, 15_000, 20_000], 1));
}

#[tokio::test(start_paused = true)]
async fn a_question_under_way_ends_with_its_poller() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    let engine = Engine::new(&[(seconds(600), busy)]);
    let polling = tokio::spawn(LoadPoller::new(engine.clone(), pulse, ledger).keep_polled(|_| ()));
    sleep(seconds(1)).await;
    assert_eq!(engine.under_way(), 1);
    polling.abort();
    assert!(timeout(Duration::from_millis(1), polling).await.expect("at once").unwrap_err().is_cancelled());
    assert_eq!(engine.under_way(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_has_no_such_call_is_not_asked_again() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    let poller = LoadPoller::new(async |_| Err(PollError::new(PollFailure::Unsupported, "unimplemented")), pulse, ledger);
    let counts = poller.counts();
    let error = timeout(seconds(1), poller.keep_polled(|_| ())).await.expect("at once");
    assert_eq!(
        (error.failure(), error.to_string()),
        (PollFailure::Unsupported, "there is no such call: unimplemented".to_owned())
    );
    assert_eq!(counts.of(PollOutcome::Unsupported), 1);
}

/// What waits at an engine whose streams do not move is what a poll can see of a wedge.
#[tokio::test(start_paused = true)]
async fn a_queue_before_streams_that_stand_is_a_wedge() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    let _stream = pulse.begin(Task::streamed(100));
    advance(seconds(5)).await;
    let engine = Engine::new(&[(NONE, busy)]);
    timeout(seconds(1), LoadPoller::new(engine, pulse.clone(), ledger).keep_polled(|_| ())).await.unwrap_err();
    assert_eq!((pulse.veto(), watch.counts().transitions(Cause::Queue)), (Some(Veto::Wedged), 1));
}

/// Ranks that are workers of their own share a connection and nothing else.
#[tokio::test(start_paused = true)]
async fn each_rank_has_its_own_load_and_all_have_the_connection() {
    let watch = watch();
    let _sweeping = tokio::spawn(watch.clone().keep_swept(|_| ()));
    let ranks: Vec<_> = (0..3).map(|rank| (rank, worker(&watch))).collect();
    let workers =
        ranks.iter().map(|(rank, (pulse, ledger))| Polled { rank: Some(*rank), pulse: pulse.clone(), ledger: ledger.clone() });
    let vetoes = || ranks.iter().map(|(_, (pulse, _))| pulse.veto()).collect::<Vec<_>>();
    // Rank 2 tells nothing, and somebody tells of a rank that is not here.
    let told = |sent_at| {
        let mut loads = loads(&[(0, 1.0, 0.0), (1, 2.0, 0.0), (7, 9.0, 0.0)], sent_at);
        loads.unreadable = 1;
        Ok(loads)
    };
    let engine = Engine::new(&[(NONE, refused), (NONE, refused), (seconds(2), told), (NONE, broken)]);
    let poller = LoadPoller::by_rank(engine, workers.collect());
    let counts = poller.counts();
    let _polling = tokio::spawn(poller.keep_polled(|_| ()));
    sleep(seconds(3)).await;
    assert_eq!(vetoes(), [Some(Veto::Unreachable); 3]);
    sleep(seconds(1)).await;
    assert_eq!(vetoes(), [None; 3], "the rank that tells nothing was heard too");
    let running = |place: usize| ranks[place].1.1.view(watch.clock().now()).running;
    assert_eq!([running(0), running(1), running(2)], [1, 2, 0]);
    assert_eq!((counts.strays(), counts.unreadable()), (1, 1));
    assert!(!ranks[2].1.1.view(watch.clock().now()).is_reported());
}

/// Values that are none are refused where all samples are; that the engine answered is contact all the same.
#[tokio::test(start_paused = true)]
async fn absurd_loads_are_counted_and_change_nothing() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    let source = async |sent_at| Ok(loads(&[(0, f64::NAN, 0.0), (1, -1.0, 0.0), (2, 1.0, 1e30), (3, 4.0, 0.0)], sent_at));
    pulse.cut_off();
    timeout(seconds(1), LoadPoller::new(source, pulse, ledger.clone()).keep_polled(|_| ())).await.unwrap_err();
    let refused = [Refusal::NotANumber, Refusal::Negative, Refusal::Absurd].map(|refusal| ledger.counts().refused(refusal));
    assert_eq!((refused, ledger.view(watch.clock().now()).running), ([1, 1, 1], 4));
}

#[tokio::test(start_paused = true)]
async fn options_that_are_none_still_pause() {
    let watch = watch();
    let (pulse, ledger) = worker(&watch);
    let engine = Engine::new(&[(NONE, refused), (NONE, busy)]);
    let options = PollOptions { interval: NONE, deadline: seconds(1), retry: NONE };
    let poller = LoadPoller::new(engine.clone(), pulse, ledger).with_options(options);
    timeout(Duration::from_millis(350), poller.keep_polled(|_| ())).await.unwrap_err();
    assert_eq!(engine.asked_ms(), [0, 100, 200, 300]);
}
