//! Vetoes as a fleet in time sees them.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use kv_routing::adapter::tokio::{Progress, Pulse, Watch};
use kv_routing::limits::SWEEP_EVERY;
use kv_routing::liveness::{Cause, Options, Task, Transition, Veto};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// A watch that is swept, and what it tells.
fn swept() -> (Watch, JoinHandle<()>, Receiver<Transition>) {
    let watch = Watch::new(Options::default());
    let (told, hear) = channel();
    let sweeping = tokio::spawn(watch.clone().keep_swept(move |change| told.send(*change).unwrap()));
    (watch, sweeping, hear)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn streams_that_pile_up_are_a_veto_until_one_of_them_moves() {
    let (watch, sweeping, hear) = swept();
    let (idle, busy) = (watch.enlist().unwrap(), watch.enlist().unwrap());
    let mut streams: Vec<Progress> = (0..4).map(|_| busy.begin(Task::streamed(100))).collect();
    sleep(seconds(4)).await;
    assert_eq!((idle.veto(), busy.veto(), watch.vetoed(Veto::Wedged)), (None, Some(Veto::Wedged), 1));
    streams[0].moved();
    sleep(SWEEP_EVERY * 2).await;
    assert_eq!((busy.veto(), watch.vetoed(Veto::Wedged)), (None, 0));
    let causes: Vec<_> = hear.try_iter().map(|change| (change.worker == busy.handle(), change.cause)).collect();
    assert_eq!(causes, [(true, Cause::Pile), (true, Cause::Progress)]);
    assert_eq!((watch.counts().transitions(Cause::Pile), watch.counts().transitions(Cause::Contact)), (1, 0));
    sweeping.abort();
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_gone_is_a_veto_until_the_engine_is_heard() {
    let (watch, _sweeping, _hear) = swept();
    let rank = watch.enlist().unwrap();
    for hear in [Pulse::heard, Pulse::probed] {
        rank.cut_off();
        sleep(seconds(3)).await;
        assert_eq!(rank.veto(), Some(Veto::Unreachable));
        hear(&rank);
        assert_eq!(rank.veto(), None);
    }
}

/// A request that is completed shows that its worker moves, as a token does.
#[tokio::test(start_paused = true)]
async fn a_whole_answer_is_progress_when_it_is_complete() {
    let (watch, _sweeping, hear) = swept();
    let rank = watch.enlist().unwrap();
    let _streams: Vec<Progress> = (0..4).map(|_| rank.begin(Task::streamed(100))).collect();
    let whole = rank.begin(Task::whole(100));
    sleep(seconds(4)).await;
    assert_eq!(rank.veto(), Some(Veto::Wedged));
    whole.finish();
    sleep(SWEEP_EVERY * 2).await;
    assert_eq!(rank.veto(), None);
    assert_eq!(hear.try_iter().map(|change| change.cause).collect::<Vec<_>>(), [Cause::Pile, Cause::Progress]);
}

/// Who waits for a worker to come back does not wait for a sweep on top.
#[tokio::test(start_paused = true)]
async fn what_a_channel_brings_is_told_at_once() {
    let (watch, _sweeping, hear) = swept();
    let rank = watch.enlist().unwrap();
    rank.cut_off();
    sleep(seconds(3)).await;
    assert_eq!(hear.try_iter().map(|change| change.to).collect::<Vec<_>>(), [Some(Veto::Unreachable)]);
    // Between two sweeps.
    sleep(SWEEP_EVERY / 2).await;
    rank.heard();
    let at = watch.clock().now();
    sleep(Duration::from_millis(1)).await;
    let told: Vec<Transition> = hear.try_iter().collect();
    assert_eq!(told.iter().map(|change| (change.at, change.cause)).collect::<Vec<_>>(), [(at, Cause::Contact)]);
}

/// Sweeping may begin before there is a fleet.
#[tokio::test(start_paused = true)]
async fn a_worker_that_comes_late_is_swept() {
    let (watch, _sweeping, _hear) = swept();
    sleep(seconds(100)).await;
    let rank = watch.enlist().unwrap();
    rank.cut_off();
    sleep(seconds(3)).await;
    assert_eq!(rank.veto(), Some(Veto::Unreachable));
}

/// If a lock were held, this would never end: so it has a thread and a time of its own.
#[test]
fn whoever_is_told_may_ask_and_tell() {
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let watch = Watch::new(Options::default());
            let rank = watch.enlist().unwrap();
            let (told, own) = (watch.clone(), rank.clone());
            let sweep = watch.clone().keep_swept(move |change| {
                assert_eq!((change.to, told.vetoed(Veto::Unreachable)), (Some(Veto::Unreachable), 1));
                own.leave();
                told.enlist().unwrap();
                done.send(()).unwrap();
            });
            rank.cut_off();
            timeout(seconds(5), sweep).await.unwrap_err();
        });
    });
    is_done.recv_timeout(seconds(30)).expect("the tracker's lock is free while the caller's code runs");
}

#[tokio::test(start_paused = true)]
async fn who_leaves_is_vetoed_no_more_and_its_requests_end_as_any_other() {
    let (watch, _sweeping, hear) = swept();
    let (gone, next) = (watch.enlist().unwrap(), watch.enlist().unwrap());
    let mut stream = gone.begin(Task::streamed(100));
    gone.cut_off();
    sleep(seconds(3)).await;
    assert_eq!(watch.vetoed(Veto::Unreachable), 1);
    assert!(gone.leave() && !gone.leave());
    assert_eq!((gone.veto(), watch.vetoed(Veto::Unreachable)), (None, 0));
    stream.moved();
    drop(stream);
    gone.heard();
    assert_eq!((watch.counts().strays, gone.vitals().tracked()), (1, 0));
    assert_ne!(watch.enlist().unwrap().handle(), gone.handle(), "a place is not a worker");
    assert_eq!(next.veto(), None);
    assert_eq!(hear.try_iter().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn sweeping_ends_when_it_is_dropped_and_can_begin_anew() {
    let (watch, sweeping, hear) = swept();
    let rank = watch.enlist().unwrap();
    sleep(seconds(1)).await;
    sweeping.abort();
    assert!(timeout(Duration::from_millis(1), sweeping).await.expect("at once").unwrap_err().is_cancelled());
    assert!(hear.recv().is_err(), "what was told by is gone");
    rank.cut_off();
    sleep(seconds(60)).await;
    assert_eq!(rank.veto(), None, "nobody sweeps");
    timeout(seconds(1), watch.keep_swept(|_| ())).await.unwrap_err();
    assert_eq!(rank.veto(), Some(Veto::Unreachable));
}
