//! Requests on every path that a gateway can take them.

use std::time::Duration;

use kv_index::ContentHash;
use kv_routing::accounting::{Outcome, Outcomes, Pair, Predictions, PrefixKeys, Site};
use kv_routing::liveness::{Options, Task, Tracker, Veto};
use kv_routing::load::{Ledger, View};

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn prompt() -> PrefixKeys {
    PrefixKeys::of(&(0..8).map(ContentHash).collect::<Vec<_>>())
}

struct Fleet {
    tracker: Tracker,
    sites: Vec<Site>,
    predictions: Predictions,
    outcomes: Outcomes,
}

impl Fleet {
    fn new(workers: u32) -> Self {
        let (mut tracker, predictions, outcomes) = (Tracker::new(Options::default()), Predictions::new(), Outcomes::default());
        let mut site = |worker| {
            let handle = tracker.add_worker(s(0)).unwrap();
            let vitals = tracker.vitals(handle).unwrap();
            let (ledger, predictions) = (Ledger::new(kv_routing::load::Options::default()), Some(predictions.clone()));
            Site { worker, rank: 0, vitals, ledger, predictions, outcomes: outcomes.clone() }
        };
        let sites = (0..workers).map(&mut site).collect();
        Self { tracker, sites, predictions, outcomes }
    }

    /// Whether nothing is booked anywhere.
    fn is_idle(&self) -> bool {
        self.sites.iter().all(|site| {
            let tracked = (site.vitals.tracked(), site.vitals.pending_prefill_tokens());
            site.ledger.view(s(1)) == View::default() && tracked == (0, 0)
        })
    }

    fn predicted(&self, now: Duration) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        self.predictions.find(now, &prompt(), &mut found);
        found.into_iter().map(|predicted| (predicted.worker, predicted.blocks)).collect()
    }

    fn counted(&self) -> [u64; 3] {
        Outcome::ALL.map(|outcome| self.outcomes.of(outcome))
    }
}

// Defect 33, D35, D36, D18: what was cancelled is in nobody's way.
#[test]
fn every_path_of_a_request_takes_back_what_was_booked_and_is_counted_once() {
    let fleet = Fleet::new(1);
    let dispatch = || fleet.sites[0].dispatch(s(1), Task::streamed(100), &prompt());
    let mut answered = dispatch();
    assert_eq!((fleet.sites[0].ledger.view(s(1)).queued_tokens, fleet.predicted(s(1))), (100, vec![(0, 8)]));
    answered.chunk(s(1));
    answered.chunk(s(1));
    assert_eq!((fleet.sites[0].ledger.view(s(1)).queued_tokens, fleet.sites[0].vitals.tracked()), (0, 1));
    answered.complete(s(1));
    assert!(fleet.is_idle());
    dispatch().complete(s(1));
    dispatch().fail();
    drop(dispatch());
    let mut vanished = dispatch();
    vanished.chunk(s(1));
    drop(vanished);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _dispatch = dispatch();
        panic!("a handler's");
    }));
    assert!(panicked.is_err() && fleet.is_idle());
    assert_eq!(fleet.counted(), [2, 1, 3]);
}

// Deliverable 5: released when the real event comes or the request fails.
#[test]
fn a_prediction_ends_with_failure_with_the_index_or_soon_after_the_first_token() {
    let fleet = Fleet::new(1);
    fleet.sites[0].dispatch(s(1), Task::streamed(100), &prompt()).fail();
    assert!(fleet.predictions.is_empty(), "nothing was computed");
    let mut answered = fleet.sites[0].dispatch(s(1), Task::streamed(100), &prompt());
    answered.chunk(s(2));
    drop(answered);
    assert_eq!(fleet.predicted(s(2)), [(0, 8)], "its events may be on their way");
    assert_eq!(fleet.predicted(s(3)), [], "now the index must say so");
    let _again = fleet.sites[0].dispatch(s(3), Task::streamed(100), &prompt());
    fleet.predictions.confirm(0, &prompt(), 4);
    assert_eq!(fleet.predicted(s(3)), [(0, 8)]);
    fleet.predictions.confirm(0, &prompt(), 8);
    assert!(fleet.predictions.is_empty());
}

// D30, llm-d-router#1726: a burst of siblings scatters before the first event.
#[test]
fn a_burst_of_siblings_finds_the_worker_of_the_first() {
    let fleet = Fleet::new(4);
    let sibling = |tail: u64| PrefixKeys::of(&(0..8).chain([100 + tail]).map(ContentHash).collect::<Vec<_>>());
    let mut dispatches = vec![fleet.sites[2].dispatch(s(1), Task::streamed(100), &sibling(0))];
    for tail in 1..64 {
        let mut found = Vec::new();
        fleet.predictions.find(s(1), &sibling(tail), &mut found);
        assert_eq!((found.len(), found[0].worker, found[0].blocks), (1, 2, 8));
        dispatches.push(fleet.sites[2].dispatch(s(1), Task::streamed(10), &sibling(tail)));
    }
    drop(dispatches);
    assert!(fleet.predictions.is_empty() && fleet.is_idle());
}

#[test]
fn both_legs_of_a_pair_end_on_every_path() {
    let fleet = Fleet::new(2);
    let legs = (&fleet.sites[0], &fleet.sites[1]);
    let dispatch = || Pair::dispatch(s(1), legs, 500, &prompt(), true);
    let mut pair = dispatch();
    let in_flight = || [0, 1].map(|leg: usize| fleet.sites[leg].ledger.view(s(1)).in_flight);
    assert_eq!((in_flight(), fleet.sites[1].ledger.view(s(1)).queued_tokens), ([1, 1], 0), "the decode leg computes no prompt");
    pair.prefilled(s(2));
    pair.prefilled(s(2));
    assert_eq!((in_flight(), fleet.sites[1].vitals.tracked()), ([0, 1], 1));
    pair.chunk(s(2));
    pair.complete(s(3));
    assert!(fleet.is_idle());
    dispatch().complete(s(2));
    dispatch().fail();
    drop(dispatch());
    let mut half = dispatch();
    half.prefilled(s(2));
    half.fail();
    assert!(fleet.is_idle());
    assert_eq!(fleet.counted(), [5, 3, 2], "each leg by itself");
}

// Defect 11: the decode worker waits for the prefill worker, and neither of the legs makes it wedged.
#[test]
fn a_decode_worker_is_not_blamed_for_a_long_prefill() {
    let mut fleet = Fleet::new(2);
    let mut pairs: Vec<_> =
        (0..8).map(|_| Pair::dispatch(s(1), (&fleet.sites[0], &fleet.sites[1]), 9_000, &prompt(), true)).collect();
    for at in 1..60 {
        fleet.tracker.handle_timeout(s(at));
    }
    assert_eq!((fleet.sites[0].vitals.veto(), fleet.sites[1].vitals.veto()), (None, None));
    pairs.iter_mut().for_each(|pair| pair.prefilled(s(60)));
    for at in 61..65 {
        fleet.tracker.handle_timeout(s(at));
    }
    assert_eq!(fleet.sites[1].vitals.veto(), Some(Veto::Wedged), "now it is its turn");
}
