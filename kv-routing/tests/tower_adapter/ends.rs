//! Every way in which a request can end, and that it ends once.

use std::convert::Infallible;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use kv_routing::adapter::tower::{BooksLayer, Failure, by_cause};
use tokio::time::timeout;
use tower::{Layer, ServiceExt, service_fn};

use crate::witness::{LAYER, Log, Parts, data, error, parts, request, send, trailers};

fn status(status: u16, body: Parts) -> Response<Parts> {
    Response::builder().status(status).body(body).unwrap()
}

#[tokio::test]
async fn a_stream_is_progress_with_every_frame_and_complete_at_its_end() {
    let log = Log::default();
    let answer = send(&log, Response::new(parts(vec![data("one"), data("two"), data("three")]))).await;
    assert_eq!(log.told(), ["heard"]);
    let mut body = answer.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
    assert_eq!(log.told(), ["heard", "progress"]);
    assert_eq!(body.collect().await.unwrap().to_bytes(), "twothree");
    assert_eq!(log.told(), ["heard", "progress", "progress", "progress", "complete"]);
}

/// Servers do not ask a body for more that says it has ended.
#[tokio::test]
async fn an_answer_that_says_it_has_ended_is_complete_without_being_asked() {
    let log = Log::default();
    let mut body = send(&log, Response::new(Full::new(Bytes::from_static(b"whole")))).await.into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(log.told(), ["heard", "progress", "complete"]);
    drop(body);
    assert_eq!(log.told().len(), 3);
    let log = Log::default();
    let body = send(&log, Response::new(Empty::<Bytes>::new())).await;
    assert_eq!(log.told(), ["heard", "complete"]);
    drop(body);
    assert_eq!(log.told().len(), 2);
}

#[tokio::test]
async fn trailers_are_the_end() {
    for (grpc_status, end) in [
        (None, "complete"),
        (Some("0"), "complete"),
        (Some("14"), "transport failure"),
        (Some("2"), "transport failure"),
        (Some("13"), "answer failure"),
        (Some("4"), "answer failure"),
    ] {
        let log = Log::default();
        let mut body = send(&log, Response::new(parts(vec![data("one"), trailers(grpc_status)]))).await.into_body();
        body.frame().await.unwrap().unwrap();
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.trailers_ref().unwrap().len(), usize::from(grpc_status.is_some()));
        assert_eq!(log.told(), ["heard", "progress", "progress", end]);
        assert!(body.frame().await.is_none());
        drop(body);
        assert_eq!(log.told().len(), 4, "once");
    }
}

#[tokio::test]
async fn an_error_of_the_body_is_a_failure_of_its_kind() {
    for (kind, end) in [
        (ErrorKind::ConnectionReset, "transport failure"),
        (ErrorKind::UnexpectedEof, "transport failure"),
        (ErrorKind::TimedOut, "other failure"),
        (ErrorKind::InvalidData, "other failure"),
    ] {
        let log = Log::default();
        let mut body = send(&log, Response::new(parts(vec![data("one"), Err(error(kind)), data("two")]))).await.into_body();
        body.frame().await.unwrap().unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap_err().kind(), kind);
        assert_eq!(log.told(), ["heard", "progress", end]);
        while body.frame().await.is_some() {}
        drop(body);
        assert_eq!(log.told().len(), 3, "once");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_request() {
    let log = Log::default();
    let mut body = send(&log, Response::new(parts(vec![data("one"), data("two")]))).await.into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    assert_eq!(log.told(), ["heard", "progress", "dropped"]);
    let log = Log::default();
    drop(send(&log, Response::new(parts(vec![data("one")]))).await);
    assert_eq!(log.told(), ["heard", "dropped"]);
}

#[tokio::test]
async fn a_wait_for_an_answer_that_is_given_up_ends_the_request() {
    let log = Log::default();
    let never = service_fn(|_: Request<()>| pending::<Result<Response<Full<Bytes>>, Infallible>>());
    let waiting = LAYER.layer(never).oneshot(request(&log));
    timeout(Duration::from_millis(10), waiting).await.unwrap_err();
    assert_eq!(log.told(), ["dropped"]);
}

#[tokio::test]
async fn an_error_of_the_service_is_a_failure_of_its_kind() {
    for (kind, end) in [
        (ErrorKind::ConnectionRefused, "transport failure"),
        (ErrorKind::BrokenPipe, "transport failure"),
        (ErrorKind::TimedOut, "other failure"),
    ] {
        let log = Log::default();
        let worker = service_fn(move |_: Request<()>| async move { Err::<Response<Full<Bytes>>, _>(error(kind)) });
        let failed = LAYER.layer(worker).oneshot(request(&log)).await;
        assert_eq!((failed.unwrap_err().kind(), log.told()), (kind, vec![end]));
    }
}

/// A refusal comes in no time and says nothing of prompts; the connection stands all the same.
#[tokio::test]
async fn a_status_of_failure_is_heard_and_is_no_progress() {
    for code in [500, 503, 429, 400, 302] {
        let log = Log::default();
        let answer = send(&log, status(code, parts(vec![data("no")]))).await;
        assert_eq!((answer.status().as_u16(), log.told()), (code, vec!["heard", "answer failure"]));
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "no");
        assert_eq!(log.told().len(), 2, "once");
    }
}

/// Whoever stands in front of a worker that is gone says these.
#[tokio::test]
async fn a_proxy_that_speaks_of_the_worker_is_not_the_worker() {
    for code in [502, 504] {
        let log = Log::default();
        drop(send(&log, status(code, parts(vec![data("no")]))).await);
        assert_eq!(log.told(), ["answer failure"], "{code}");
    }
}

#[tokio::test]
async fn a_grpc_answer_can_fail_in_its_headers() {
    for (code, told) in [
        ("14", vec!["transport failure"]),
        ("1", vec!["transport failure"]),
        ("10", vec!["transport failure"]),
        ("12", vec!["heard", "answer failure"]),
        ("0", vec!["heard", "complete"]),
    ] {
        let log = Log::default();
        let answer = Response::builder().header("grpc-status", code).body(Empty::<Bytes>::new()).unwrap();
        drop(send(&log, answer).await);
        assert_eq!(log.told(), told, "{code}");
    }
}

/// Errors are wrapped by those who pass them on.
#[test]
fn the_cause_of_a_cause_counts() {
    let refused = io::Error::other(io::Error::other(error(ErrorKind::ConnectionRefused)));
    assert_eq!(by_cause(&refused), Failure::Transport);
    assert_eq!(by_cause(&io::Error::other("refused")), Failure::Other);
    assert_eq!(by_cause(&std::fmt::Error), Failure::Other);
}

/// A guard is one, however often what carries it is cloned.
#[tokio::test]
async fn an_attempt_that_is_sent_again_is_not_booked_twice() {
    let log = Log::default();
    let first = request(&log);
    let mut second = Request::new(());
    *second.extensions_mut() = first.extensions().clone();
    let worker = service_fn(async |request: Request<()>| {
        assert!(request.extensions().is_empty(), "the guard is with the answer");
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"whole"))))
    });
    let worker = LAYER.layer(worker);
    let one = worker.clone().oneshot(first).await.unwrap().into_body().collect().await.unwrap();
    let other = worker.oneshot(second).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!((one.to_bytes(), log.told()), (other.to_bytes(), vec!["heard", "progress", "complete"]));
}

#[tokio::test]
async fn guards_can_be_made_on_the_spot_or_not_at_all() {
    let log = Log::default();
    let own = log.clone();
    let source = move |request: &mut Request<&str>| (*request.body() == "booked").then(|| own.guard());
    let other = |_: &io::Error| Failure::Other;
    let worker = service_fn(async |_: Request<&str>| Ok::<_, io::Error>(Response::new(parts(vec![data("one")]))));
    let worker = BooksLayer::new(source, other).layer(worker);
    let ask = async |text| worker.clone().oneshot(Request::new(text)).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(ask("free").await.to_bytes(), "one");
    assert_eq!(log.told(), [""; 0]);
    assert_eq!(ask("booked").await.to_bytes(), "one");
    assert_eq!(log.told(), ["heard", "progress", "complete"]);
}

/// Servers clone their services for every connection.
#[test]
fn a_layer_can_be_shared() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    shared(&LAYER);
}
