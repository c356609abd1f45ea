//! Back-pressure is the inner service's own.

use std::future::{Ready, ready};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use kv_routing::adapter::tower::{Booked, ByCause, Carried};
use parking_lot::Mutex;
use tower::{Layer, Service};

use crate::witness::{LAYER, Log, Witness, request};

type Readiness = Poll<Result<(), io::ErrorKind>>;

/// A service that is what it is told to be, and counts.
#[derive(Clone, Default)]
struct Gate {
    /// The last one first.
    readiness: Arc<Mutex<Vec<Readiness>>>,
    asked: Arc<AtomicU32>,
    called: Arc<AtomicU32>,
}

impl Service<Request<()>> for Gate {
    type Response = Response<Full<Bytes>>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let readiness = self.readiness.lock().pop().unwrap_or(Poll::Pending);
        readiness.map_err(io::Error::from)
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        self.called.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Response::new(Full::default())))
    }
}

type Layered = Booked<Gate, Carried<Witness>, ByCause>;

fn poll_ready(layered: &mut Layered) -> Readiness {
    let mut context = Context::from_waker(Waker::noop());
    Service::<Request<()>>::poll_ready(layered, &mut context).map_err(|error| error.kind())
}

#[test]
fn readiness_is_asked_once_each_time_and_told_as_it_is() {
    let gate = Gate::default();
    let mut layered: Layered = LAYER.layer(gate.clone());
    gate.readiness.lock().extend([Poll::Ready(Err(io::ErrorKind::BrokenPipe)), Poll::Ready(Ok(())), Poll::Pending]);
    assert!(poll_ready(&mut layered).is_pending());
    assert_eq!(poll_ready(&mut layered), Poll::Ready(Ok(())));
    assert_eq!(poll_ready(&mut layered), Poll::Ready(Err(io::ErrorKind::BrokenPipe)));
    assert_eq!((gate.asked.load(Ordering::Relaxed), gate.called.load(Ordering::Relaxed)), (3, 0));
}

/// A request that waits for a service that is never ready keeps its books, and ends with whoever waits.
#[test]
fn a_service_that_is_never_ready_takes_nothing_of_a_request() {
    let gate = Gate::default();
    let mut layered: Layered = LAYER.layer(gate.clone());
    let log = Log::default();
    let waiting = request(&log);
    (0..10).for_each(|_| assert!(poll_ready(&mut layered).is_pending()));
    assert_eq!((gate.called.load(Ordering::Relaxed), log.told().len()), (0, 0));
    drop(waiting);
    assert_eq!(log.told(), ["dropped"]);
}
