//! The wait for an answer's headers.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;

use super::{BookedBody, Classify, Failure, Guard, grpc_status};

pin_project! {
    /// The answer of a [`Booked`](super::Booked) service.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct BookedFuture<F, G, C> {
        #[pin]
        inner: F,
        guard: Option<G>,
        classify: Option<C>,
    }
}

impl<F, G, C> BookedFuture<F, G, C> {
    pub(super) const fn new(inner: F, guard: Option<G>, classify: C) -> Self {
        Self { inner, guard, classify: Some(classify) }
    }
}

impl<F, R, E, G, C> Future for BookedFuture<F, G, C>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
    G: Guard,
    C: Classify<E> + Classify<R::Error>,
{
    type Output = Result<Response<BookedBody<R, G, C>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx));
        let guard = this.guard.take();
        let classify = this.classify.take().expect("a future that is ready is not polled again");
        Poll::Ready(match answer {
            Ok(response) => {
                let guard = guard.and_then(|guard| begun(&response, guard));
                Ok(response.map(|body| BookedBody::new(body, guard, classify)))
            }
            Err(error) => {
                if let Some(guard) = guard {
                    guard.fail(classify.classify(&error));
                }
                Err(error)
            }
        })
    }
}

/// Whether a server says this of another one behind it. That one may be gone.
const fn is_of_a_proxy(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT)
}

/// Headers came. Returns the guard if the rest of the answer is of interest.
fn begun<R, G: Guard>(response: &Response<R>, mut guard: G) -> Option<G> {
    let failure = match grpc_status::failure(response.headers()) {
        None if response.status().is_success() => None,
        None => Some(Failure::Answer),
        failure => failure,
    };
    // A status of a broken connection is its own side's word, not the worker's.
    if failure != Some(Failure::Transport) && !is_of_a_proxy(response.status()) {
        guard.heard();
    }
    let Some(failure) = failure else { return Some(guard) };
    guard.fail(failure);
    None
}
