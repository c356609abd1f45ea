//! This crate's own books, through the layer.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use kv_routing::accounting::{Dispatch, Outcome, Outcomes, PrefixKeys, Site};
use kv_routing::adapter::tower::{BookedBody, BooksLayer, ByCause, Life, RequestGuard, carry};
use kv_routing::limits::SWEEP_EVERY;
use kv_routing::liveness::{self, Contact, Handle, Task, Tracker, Veto};
use kv_routing::load::{self, Ledger};
use parking_lot::Mutex;
use tower::{Layer, ServiceExt, service_fn};

use crate::witness::{Part, Parts, data, error, parts};

/// A fleet of one, with a clock that stands unless it is set: what a router without tokio writes.
#[derive(Clone)]
struct Alone(Arc<Mutex<(Duration, Tracker)>>, Handle);

impl Life for Alone {
    fn now(&self) -> Duration {
        self.0.lock().0
    }

    fn heard(&self) {
        let (now, tracker) = &mut *self.0.lock();
        tracker.handle_contact(*now, self.1, Contact::Traffic);
    }

    fn cut_off(&self) {
        let (now, tracker) = &mut *self.0.lock();
        tracker.handle_transport_failure(*now, self.1);
    }
}

impl Alone {
    fn new() -> Self {
        let mut tracker = Tracker::new(liveness::Options::default());
        let worker = tracker.add_worker(Duration::ZERO).unwrap();
        Self(Arc::new(Mutex::new((Duration::ZERO, tracker))), worker)
    }

    fn pass(&self, time: Duration) {
        let (now, tracker) = &mut *self.0.lock();
        for _ in 0..time.as_millis() / SWEEP_EVERY.as_millis() {
            *now += SWEEP_EVERY;
            tracker.handle_timeout(*now);
        }
    }

    fn veto(&self) -> Option<Veto> {
        self.0.lock().1.vitals(self.1).unwrap().veto()
    }

    fn site(&self) -> Site {
        Site {
            worker: 0,
            rank: 0,
            vitals: self.0.lock().1.vitals(self.1).unwrap(),
            ledger: Ledger::new(load::Options::default()),
            predictions: None,
            outcomes: Outcomes::default(),
        }
    }
}

fn dispatch(site: &Site, life: &Alone) -> Dispatch {
    site.dispatch(life.now(), Task::streamed(900), &PrefixKeys::default())
}

/// In flight, queued tokens, and how requests ended.
fn books(site: &Site, life: &Alone) -> (u32, u64, [u64; 3]) {
    let view = site.ledger.view(life.now());
    (view.in_flight, view.queued_tokens, Outcome::ALL.map(|outcome| site.outcomes.of(outcome)))
}

/// The body of an answer that brings `answer`.
async fn ask(site: &Site, life: &Alone, answer: Vec<Part>) -> BookedBody<Parts, RequestGuard<Alone>, ByCause> {
    let answer = Mutex::new(Some(answer));
    let worker = service_fn(move |_: Request<()>| {
        let answer = answer.lock().take().unwrap();
        async move { Ok::<_, std::io::Error>(Response::new(parts(answer))) }
    });
    let mut request = Request::new(());
    carry(&mut request, RequestGuard::new(dispatch(site, life), life.clone()));
    BooksLayer::carried(ByCause).layer(worker).oneshot(request).await.unwrap().into_body()
}

#[tokio::test]
async fn a_request_is_in_the_books_until_its_answer_has_ended() {
    let life = Alone::new();
    let site = life.site();
    let mut body = ask(&site, &life, vec![data("one"), data("two")]).await;
    assert_eq!(books(&site, &life), (1, 900, [0, 0, 0]));
    body.frame().await.unwrap().unwrap();
    assert_eq!(books(&site, &life), (1, 0, [0, 0, 0]), "the first token");
    while body.frame().await.is_some() {}
    assert_eq!(books(&site, &life), (0, 0, [1, 0, 0]));
    assert_eq!(site.vitals.tracked(), 0);
}

#[tokio::test]
async fn a_request_that_fails_or_vanishes_leaves_nothing_behind() {
    let life = Alone::new();
    let site = life.site();
    let mut body = ask(&site, &life, vec![Err(error(ErrorKind::TimedOut))]).await;
    body.frame().await.unwrap().unwrap_err();
    assert_eq!((books(&site, &life), site.vitals.tracked()), ((0, 0, [0, 1, 0]), 0));
    drop(ask(&site, &life, vec![data("one")]).await);
    assert_eq!((books(&site, &life), site.vitals.tracked()), ((0, 0, [0, 1, 1]), 0));
}

#[tokio::test]
async fn frames_keep_a_worker_from_being_wedged() {
    let life = Alone::new();
    let site = life.site();
    let _silent: Vec<_> = (0..4).map(|_| dispatch(&site, &life)).collect();
    let mut body = ask(&site, &life, vec![data("one"), data("two")]).await;
    body.frame().await.unwrap().unwrap();
    life.pass(Duration::from_secs(2));
    body.frame().await.unwrap().unwrap();
    life.pass(Duration::from_secs(2));
    assert_eq!(life.veto(), None);
    life.pass(Duration::from_secs(2));
    assert_eq!(life.veto(), Some(Veto::Wedged));
}

#[tokio::test]
async fn a_connection_that_breaks_casts_doubt_and_an_answer_takes_it_back() {
    let life = Alone::new();
    let site = life.site();
    let cut = async || {
        let mut body = ask(&site, &life, vec![Err(error(ErrorKind::ConnectionReset))]).await;
        body.frame().await.unwrap().unwrap_err();
    };
    cut().await;
    life.pass(Duration::from_secs(3));
    assert_eq!(life.veto(), Some(Veto::Unreachable));
    drop(ask(&site, &life, vec![]).await);
    assert_eq!(life.veto(), None, "it was heard");
    let mut body = ask(&site, &life, vec![Err(error(ErrorKind::TimedOut))]).await;
    body.frame().await.unwrap().unwrap_err();
    life.pass(Duration::from_secs(3));
    assert_eq!(life.veto(), None, "a deadline is no broken connection");
}
