//! A layer around any HTTP service to workers, which carries the books of a request to the end of its answer.
//!
//! A request is booked when it is [dispatched](crate::accounting::Site::dispatch), and its books have to be closed on every path:
//! answered, failed, refused, given up by a client that went away in the middle of a stream. Whoever writes that by hand forgets a path. The layer
//! moves the request's [`Guard`], which a router has [put](carry) into the request or a closure makes, into the answer's body, tells it of each frame, and ends it exactly once.
//!
//! ```
//! use std::io;
//!
//! use http::{Request, Response};
//! use kv_routing::adapter::tower::{BooksLayer, ByCause, Failure, Guard};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! /// Prints; a real one holds a `Dispatch`: see `RequestGuard`.
//! struct Printed;
//!
//! impl Guard for Printed {
//!     fn progress(&mut self) {
//!         println!("a chunk");
//!     }
//!
//!     fn complete(self) {
//!         println!("complete");
//!     }
//!
//!     fn fail(self, failure: Failure) {
//!         println!("{failure:?}");
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Stands for the connection to an engine: hyper's, reqwest's, tonic's.
//! let engine = service_fn(async |_: Request<String>| Ok::<_, io::Error>(Response::new("an answer".to_owned())));
//! let engine = BooksLayer::new(|_: &mut Request<String>| Some(Printed), ByCause).layer(engine);
//! let answer = engine.oneshot(Request::new("a prompt".to_owned())).await?;
//! assert_eq!(http_body_util::BodyExt::collect(answer).await?.to_bytes(), "an answer");
//! # Ok(())
//! # }
//! ```
//!
//! # What a guard is told
//! | what happens | [`Guard`] |
//! |---|---|
//! | headers of whatever status, but 502 and 504, by which a proxy speaks of the worker behind it | [`heard`](Guard::heard) |
//! | a frame of the body, with a status of success | [`progress`](Guard::progress): the first is the first token |
//! | the end of the body, or its trailers | [`complete`](Guard::complete) |
//! | a status that is none of success, or a gRPC status that is not 0, in headers or trailers | [`fail`](Guard::fail), [`Failure::Answer`] |
//! | gRPC's unavailable, unknown, cancelled, aborted | [`fail`](Guard::fail), [`Failure::Transport`], and not heard where no body came with it |
//! | an error of the service or of the body | [`fail`](Guard::fail) with what the caller's [`Classify`] makes of it |
//! | the answer, or the wait for it, is dropped | its drop |
//!
//! One of the last five, once. A refusal says nothing of how fast prompts are computed, so its body is no progress. An inner service that
//! is not ready is waited for as without the layer: nothing is taken from a request before it is called.

mod body;
mod classify;
mod future;
mod grpc_status;
mod guard;
mod layer;
mod request;
mod service;

pub use body::BookedBody;
pub use classify::{ByCause, Classify, by_cause};
pub use future::BookedFuture;
pub use guard::{Carried, Failure, Guard, GuardSource, carry};
pub use layer::BooksLayer;
pub use request::{Life, RequestGuard};
pub use service::Booked;
