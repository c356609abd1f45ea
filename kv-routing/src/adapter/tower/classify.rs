//! What an error says of the connection.

use std::error::Error;
use std::io;

use super::Failure;

/// Tells a connection that failed from other errors. Every `Fn(&E) -> Failure` does; where the errors of the service and of its bodies
/// are two types, both are asked of one value.
pub trait Classify<E: ?Sized> {
    /// What this error is.
    fn classify(&self, error: &E) -> Failure;
}

/// Classifies by the first cause: [`by_cause`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ByCause;

impl<E, F: Fn(&E) -> Failure> Classify<E> for F {
    fn classify(&self, error: &E) -> Failure {
        self(error)
    }
}

impl<E: Error + 'static> Classify<E> for ByCause {
    fn classify(&self, error: &E) -> Failure {
        by_cause(error)
    }
}

/// [`Failure::Transport`] if the error, or one that led to it, is the system's word that a connection was refused, reset, or ended in
/// the middle of something; else [`Failure::Other`]. What clients say in words of their own, such as hyper's incomplete messages, needs
/// a classifier that knows them.
pub fn by_cause(error: &(dyn Error + 'static)) -> Failure {
    let causes = std::iter::successors(Some(error), |error| cause_of(*error));
    let mut systems = causes.filter_map(|cause| cause.downcast_ref::<io::Error>());
    if systems.any(|error| is_cut(error.kind())) { Failure::Transport } else { Failure::Other }
}

/// The error that led to this one. A system's error that wraps another names only what led to that, and would skip it.
fn cause_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.map(|wrapped| wrapped as &'a (dyn Error + 'static)).or_else(|| error.source())
}

fn is_cut(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable, NotConnected,
        UnexpectedEof,
    };
    let refused = matches!(kind, ConnectionRefused | HostUnreachable | NetworkUnreachable);
    refused || matches!(kind, ConnectionReset | ConnectionAborted | BrokenPipe | NotConnected | UnexpectedEof)
}
