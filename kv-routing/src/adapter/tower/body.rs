//! An answer's body, and the books of its request.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{Classify, Guard, grpc_status};

pin_project! {
    /// The body of a [`Booked`](super::Booked) service's answer. The same frames, and a guard that is told of them.
    #[derive(Debug)]
    pub struct BookedBody<R, G, C> {
        #[pin]
        inner: R,
        // Until the answer has ended.
        guard: Option<G>,
        classify: C,
    }
}

impl<R: Body, G: Guard, C> BookedBody<R, G, C> {
    pub(super) fn new(inner: R, guard: Option<G>, classify: C) -> Self {
        let mut body = Self { inner, guard, classify };
        // Whoever reads it may not ask a body that has ended for anything.
        if body.inner.is_end_stream() {
            complete(&mut body.guard);
        }
        body
    }
}

impl<R, G, C> Body for BookedBody<R, G, C>
where
    R: Body,
    G: Guard,
    C: Classify<R::Error>,
{
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        let mut this = self.project();
        let polled = ready!(this.inner.as_mut().poll_frame(cx));
        match &polled {
            Some(Ok(frame)) => passed(this.guard, frame, this.inner.is_end_stream()),
            Some(Err(error)) => {
                if let Some(guard) = this.guard.take() {
                    guard.fail(this.classify.classify(error));
                }
            }
            None => complete(this.guard),
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A frame came. Nothing follows trailers, nor a frame after which the body says so: it is not asked again then.
fn passed<G: Guard, D>(slot: &mut Option<G>, frame: &Frame<D>, is_last: bool) {
    let Some(guard) = slot else { return };
    guard.progress();
    let trailers = frame.trailers_ref();
    match trailers.and_then(grpc_status::failure) {
        Some(failure) => slot.take().expect("it is there").fail(failure),
        None if is_last || trailers.is_some() => complete(slot),
        None => {}
    }
}

fn complete<G: Guard>(slot: &mut Option<G>) {
    if let Some(guard) = slot.take() {
        guard.complete();
    }
}
