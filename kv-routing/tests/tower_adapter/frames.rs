//! The body is passed on as it is.

use bytes::Bytes;
use http::Response;
use http_body::Body;
use http_body_util::{BodyExt, Full};

use crate::witness::{Log, data, parts, send, trailers};

#[tokio::test]
async fn what_a_body_says_of_itself_is_unchanged() {
    let log = Log::default();
    let answer = Response::builder().header("x-worker", "a").body(Full::new(Bytes::from_static(b"whole"))).unwrap();
    let answer = send(&log, answer).await;
    assert_eq!(answer.headers()["x-worker"], "a");
    let mut body = answer.into_body();
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(5), false));
    body.frame().await.unwrap().unwrap();
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
    let streamed = send(&log, Response::new(parts(vec![data("x")]))).await.into_body();
    assert_eq!((streamed.size_hint().exact(), streamed.size_hint().lower(), streamed.is_end_stream()), (None, 0, false));
}

#[tokio::test]
async fn frames_and_trailers_come_in_their_order() {
    let log = Log::default();
    let answer = send(&log, Response::new(parts(vec![data("a"), data(""), data("b"), trailers(Some("0"))]))).await;
    let whole = answer.into_body().collect().await.unwrap();
    assert_eq!(whole.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(whole.to_bytes(), "ab");
}
