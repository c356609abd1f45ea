//! A guard that writes down what it is told, and answers of any kind.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kv_routing::adapter::tower::{BookedBody, BooksLayer, ByCause, Carried, Failure, Guard, carry};
use parking_lot::Mutex;
use tower::{Layer, ServiceExt, service_fn};

/// What was told of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<&'static str>>>);

#[derive(Debug)]
pub(crate) struct Witness {
    log: Log,
    ended: bool,
}

impl Log {
    pub(crate) fn guard(&self) -> Witness {
        Witness { log: self.clone(), ended: false }
    }

    pub(crate) fn told(&self) -> Vec<&'static str> {
        self.0.lock().clone()
    }

    fn note(&self, word: &'static str) {
        self.0.lock().push(word);
    }
}

impl Guard for Witness {
    fn heard(&mut self) {
        self.log.note("heard");
    }

    fn progress(&mut self) {
        self.log.note("progress");
    }

    fn complete(mut self) {
        self.ended = true;
        self.log.note("complete");
    }

    fn fail(mut self, failure: Failure) {
        self.ended = true;
        self.log.note(match failure {
            Failure::Transport => "transport failure",
            Failure::Answer => "answer failure",
            Failure::Other => "other failure",
        });
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if !self.ended {
            self.log.note("dropped");
        }
    }
}

pub(crate) type Part = Result<Frame<Bytes>, io::Error>;

/// A body that brings these parts, and then ends when it is asked for more.
pub(crate) type Parts = StreamBody<tokio_stream::Iter<std::vec::IntoIter<Part>>>;

pub(crate) fn parts(parts: Vec<Part>) -> Parts {
    StreamBody::new(tokio_stream::iter(parts))
}

#[expect(clippy::unnecessary_wraps, reason = "a part as any other")]
pub(crate) fn data(text: &'static str) -> Part {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

#[expect(clippy::unnecessary_wraps, reason = "a part as any other")]
pub(crate) fn trailers(grpc_status: Option<&str>) -> Part {
    let status = grpc_status.map(|status| ("grpc-status".parse().unwrap(), status.parse().unwrap()));
    Ok(Frame::trailers(status.into_iter().collect::<HeaderMap>()))
}

pub(crate) fn error(kind: io::ErrorKind) -> io::Error {
    io::Error::from(kind)
}

pub(crate) fn request(log: &Log) -> Request<()> {
    let mut request = Request::new(());
    carry(&mut request, log.guard());
    request
}

pub(crate) const LAYER: BooksLayer<Carried<Witness>, ByCause> = BooksLayer::carried(ByCause);

/// Sends a booked request to a worker that answers so.
pub(crate) async fn send<R>(log: &Log, answer: Response<R>) -> Response<BookedBody<R, Witness, ByCause>>
where
    R: http_body::Body<Error: std::error::Error + 'static>,
{
    let answer = Mutex::new(Some(answer));
    let worker = service_fn(move |_: Request<()>| {
        let answer = answer.lock().take().unwrap();
        async move { Ok::<_, Infallible>(answer) }
    });
    LAYER.layer(worker).oneshot(request(log)).await.unwrap()
}
