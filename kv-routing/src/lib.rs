//! Who should serve a prompt: a pure function of what each worker would reuse and how busy it is.
//!
//! ```
//! use kv_routing::{Candidate, Load, Overlap, Policy, Request, Router};
//!
//! let busy = Load { in_flight: 40, queued_tokens: 30_000, ..Load::default() };
//! let candidates = [
//!     Candidate { worker: 0, ..Candidate::default() },
//!     Candidate { worker: 1, overlap: Overlap::device(896), ..Candidate::default() },
//!     Candidate { worker: 2, overlap: Overlap::device(960), load: busy, ..Candidate::default() },
//! ];
//! let request = Request { prompt_tokens: 1_000, ..Request::default() };
//! let decision = Router::new(Policy::Blend).decide(request, &candidates, 7)?;
//! assert_eq!(decision.choice.worker, 1, "64 tokens more are not worth the queue of worker 2");
//! assert_eq!(decision.record.replay()?, decision.choice);
//! # Ok::<(), kv_routing::NoCandidate>(())
//! ```
//!
//! Filters leave those who [may be chosen](Candidate::is_eligible); [costs](cost) in seconds are added up; a [policy](Policy) takes the
//! cheapest of those it looks at, and among those within a millionth of a second of it one is drawn uniformly. There is no clock and
//! no random source inside: the caller's seed is the only chance there is, so a decision can be made again from its
//! [`Record`].
//!
//! | policy | chooses |
//! |---|---|
//! | `cache-aware` | the least loaded of those that hold most of the prompt, unless all of them are out of line |
//! | `blend` | the least sum of computing, opening a pass, waiting, scarce memory and company |
//! | `least-load`, `power-of-two` | by load, of all or of two |
//! | `round-robin`, `random` | in turn, or any |
//!
//! Three ways to ask:
//! * [`Router::decide`], with a slice of candidates, keeps a [`Record`];
//! * [`Router::choose`] does not, and allocates nothing;
//! * [`Pool`] keeps the workers of a large fleet between decisions, and asks of them only whom the index found and a few others.
//!
//! What a decision is made from is kept by state machines of their own, each of which can be left out:
//!
//! | module | knows |
//! |---|---|
//! | [`liveness`] | who is unreachable or wedged |
//! | [`load`] | how busy each worker is: what it reports, and what was sent since |
//! | [`accounting`] | what was dispatched and is not complete, and where prompts are expected that no event has announced yet |
//! | [`overload`], [`warmup`] | who has too much, and who has too little |
//! | [`audit`] | whether the index is right about each worker, by the `cached_tokens` of answers |
//!
//! # What it is not
//! It does not look up prefixes (`kv-index` does), opens no connection and asks no clock: the caller tells it what came and when. Clocks
//! and sockets are features, off by default, with a module each: `tokio` sweeps and polls in time, `grpc` asks engines for their health and
//! loads, `tower` carries a request's books through its answer.
//! A decision keeps nothing for the next one, but what its caller puts into a [`Pool`] and into [`Sessions`](select::Sessions).
#![forbid(unsafe_code)]

pub mod accounting;
#[cfg(any(feature = "grpc", feature = "tokio", feature = "tower"))]
pub mod adapter;
pub mod audit;
mod candidate;
pub mod cost;
pub mod limits;
pub mod liveness;
pub mod load;
pub mod overload;
mod pair;
mod policy;
mod pool;
mod record;
mod router;
pub mod select;
mod sync;
mod tally;
mod threshold;
pub mod warmup;

pub use candidate::{Candidate, Fleet, Load, Overlap, Overrides, Request};
pub use pair::{Leg, NoPair, Pair, PairRecord};
pub use policy::Policy;
pub use pool::{Lookup, Pool, PoolError, Refine};
pub use record::{Decision, Record, Scored};
pub use router::{Branch, Choice, NoCandidate, Router};
pub use tally::{Branches, Tally};
pub use threshold::Threshold;

/// The README's examples.
#[cfg(all(doctest, feature = "grpc", feature = "tokio", feature = "tower"))]
#[doc = include_str!("../README.md")]
struct Readme;
