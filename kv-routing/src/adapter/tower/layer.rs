//! The layer.

use tower_layer::Layer;

use super::{Booked, Carried, Guard};

/// Puts [`Booked`] around services: `source` says where guards come from, `classify` what errors are.
#[derive(Clone, Debug)]
pub struct BooksLayer<M, C> {
    source: M,
    classify: C,
}

impl BooksLayer<(), ()> {
    /// Guards of type `G` are in the requests: whoever decided has [put](super::carry) them there.
    pub const fn carried<G: Guard + Send + 'static, C>(classify: C) -> BooksLayer<Carried<G>, C> {
        BooksLayer { source: Carried::new(), classify }
    }
}

impl<M, C> BooksLayer<M, C> {
    /// Guards are made when requests are sent: by a [`GuardSource`](super::GuardSource), such as a closure over
    /// `&mut http::Request<B>`.
    pub const fn new(source: M, classify: C) -> Self {
        Self { source, classify }
    }
}

impl<S, M: Clone, C: Clone> Layer<S> for BooksLayer<M, C> {
    type Service = Booked<S, M, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Booked::new(inner, self.source.clone(), self.classify.clone())
    }
}
