//! The service.

use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{BookedBody, BookedFuture, Classify, GuardSource};

/// A service whose answers carry the books of their requests. See the [module](super).
#[derive(Clone, Debug)]
pub struct Booked<S, M, C> {
    inner: S,
    source: M,
    classify: C,
}

impl<S, M, C> Booked<S, M, C> {
    pub(super) const fn new(inner: S, source: M, classify: C) -> Self {
        Self { inner, source, classify }
    }
}

impl<S, B, R, M, C> Service<Request<B>> for Booked<S, M, C>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
    M: GuardSource<B>,
    C: Classify<S::Error> + Classify<R::Error> + Clone,
{
    type Response = Response<BookedBody<R, M::Guard, C>>;
    type Error = S::Error;
    type Future = BookedFuture<S::Future, M::Guard, C>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let guard = self.source.guard(&mut request);
        BookedFuture::new(self.inner.call(request), guard, self.classify.clone())
    }
}
