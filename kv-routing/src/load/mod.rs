//! How busy each worker is: what it says, and what was sent to it since.
//!
//! A worker's word is always late: a pushed record by some milliseconds, a poll by seconds. What happened since is known here, because
//! it was sent from here. A [`Ledger`] keeps both for one worker and gives the sum as one plain [`View`].
//!
//! ```
//! use std::time::Duration;
//!
//! use kv_routing::load::{Ledger, Options, Sample};
//!
//! let second = Duration::from_secs;
//! let ledger = Ledger::new(Options::default());
//! let first = ledger.dispatch(second(1), 0, 900);
//! assert_eq!(ledger.view(second(1)).queued_tokens, 900, "nobody has reported, so our own books count");
//!
//! let sample = Sample { running: 3.0, waiting: 1.0, queued_tokens: Some(700.0), ..Sample::polled(second(2)) };
//! ledger.handle_sample(second(3), 0, &sample)?;
//! let second_one = ledger.dispatch(second(4), 0, 50);
//! assert_eq!(ledger.view(second(4)).queued_tokens, 750, "the sample knows of the first request");
//!
//! // The same sample again takes back nothing.
//! assert!(ledger.handle_sample(second(5), 0, &sample).is_err());
//! assert_eq!(ledger.view(second(5)).queued_tokens, 750);
//! drop((first, second_one));
//! assert_eq!((ledger.view(second(5)).queued_tokens, ledger.view(second(5)).in_flight), (700, 0));
//! # Ok::<(), kv_routing::load::Refusal>(())
//! ```
//!
//! # Where samples come from
//! | source | call | [`sampled_at`](Sample::sampled_at) |
//! |---|---|---|
//! | a relay's record ([`kv_events::relay`]) | [`wire::record`] | receipt less its age |
//! | SGLang's load endpoint | [`wire::sglang::loads`] | when the poll was sent |
//! | `/metrics` of vLLM and SGLang | [`wire::metrics::loads`] | when the poll was sent |
//! | `GetLoads` of vLLM's and SGLang's gRPC servicers | `adapter::grpc::loads` (feature `grpc`) | when the poll was sent |
//!
//! With the feature `tokio`, its `LoadPoller` asks when it is needed, and enters what comes.
//!
//! # The rules
//! * **Credit.** A request's prompt tokens that the worker must compute count from dispatch until its first token or its end, or until a
//!   sample that was taken at or after the dispatch: then the worker counts them itself. Once, whatever comes in whatever order.
//! * **Queues.** A rank that tells only how many requests wait (vLLM's `/metrics`) is taken to mean the youngest of ours that it can
//!   know of and that have no first token; for requests that are not ours, 1,024 tokens each.
//! * **Order.** A sample that is not newer than the last one of its rank, by its time or its number, changes nothing.
//! * **Freshness.** A rank's sample counts for [`Options::fresh_for`]. With none, the books count alone.
//! * **Rates** of idle ranks are not used: what an engine generated a minute ago says nothing of what it does now. From counters, a
//!   rate is what was computed between two samples at both of which something ran.
//! * **Bad values.** Counts of requests that are no numbers, negative or absurd refuse the sample; any other value is left out of it.
//!   Both are counted by reason ([`Ledger::counts`]).
//!
//! # Threads
//! A ledger is a handle that is cheap to clone. Who writes (dispatches, first tokens, samples) takes a lock that only this worker's
//! writers share. Who decides reads [`View`]s, which takes no lock: eight atomic loads of one cache line. Queue and credit are published as one word,
//! so that no reader counts a request twice or not at all while a sample takes it over; between the other words there is no such
//! tie, and a mix of two samples in a row is as good as either.

mod book;
mod ledger;
#[cfg(all(test, kv_loom))]
mod loom;
mod pending;
mod rank;
// Loom has no weak references.
#[cfg(not(kv_loom))]
mod roster;
mod sample;
mod view;
pub mod wire;

pub use book::{LoadCounts, Options};
pub use ledger::{Booking, Ledger};
#[cfg(not(kv_loom))]
pub use roster::Roster;
pub use sample::{Refusal, Sample, Source};
pub use view::View;
