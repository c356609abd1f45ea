//! What is told of an answer, and how it comes to be where the answer is.

use std::fmt;
use std::marker::PhantomData;

use http::Request;

use crate::sync::{Arc, Mutex};

/// What holds a request's books. Dropped without a word, the request has ended and nobody knows how.
pub trait Guard {
    /// The worker began to answer, well or not, and not a proxy in its place.
    fn heard(&mut self) {}

    /// A part of the answer came. The first one says that the prompt is computed.
    fn progress(&mut self);

    /// The answer is whole.
    fn complete(self);

    /// The request failed.
    fn fail(self, failure: Failure);
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The connection to the worker was refused or reset. Casts doubt on the worker.
    Transport,
    /// The worker answered, with an error.
    Answer,
    /// A deadline, or an error of which nothing is known.
    Other,
}

/// Where a request's guard comes from. Every `Fn(&mut Request<B>) -> Option<impl Guard>` is such a source.
pub trait GuardSource<B> {
    /// What it gives.
    type Guard: Guard;

    /// The guard of this request; nothing if it is not booked.
    fn guard(&self, request: &mut Request<B>) -> Option<Self::Guard>;
}

/// Takes the guard that was [put](carry) into the request.
pub struct Carried<G>(PhantomData<fn() -> G>);

/// A guard on its way. Extensions must be [`Clone`], and a guard is not: all clones are one guard, and who takes it first has it. So an
/// attempt that is sent again with the same extensions is not booked twice, and has to be given a guard of its own.
struct InTransit<G>(Arc<Mutex<Option<G>>>);

/// Puts a guard into a request, for a layer that [takes it out](super::BooksLayer::carried).
pub fn carry<G: Guard + Send + 'static, B>(request: &mut Request<B>, guard: G) {
    request.extensions_mut().insert(InTransit(Arc::new(Mutex::new(Some(guard)))));
}

impl<G> Carried<G> {
    pub(super) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<B, G: Guard + Send + 'static> GuardSource<B> for Carried<G> {
    type Guard = G;

    fn guard(&self, request: &mut Request<B>) -> Option<G> {
        request.extensions_mut().remove::<InTransit<G>>()?.0.lock().take()
    }
}

impl<B, G: Guard, F: Fn(&mut Request<B>) -> Option<G>> GuardSource<B> for F {
    type Guard = G;

    fn guard(&self, request: &mut Request<B>) -> Option<G> {
        self(request)
    }
}

impl<G> Clone for InTransit<G> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<G> Clone for Carried<G> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<G> fmt::Debug for Carried<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Carried")
    }
}
