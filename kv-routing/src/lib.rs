//! Who should serve a prompt: a pure function of what each worker would reuse and how busy it is.
//!
//! ```
//! use kv_routing::{Candidate, Load, Request, Router};
//!
//! let candidates = [
//!     Candidate { worker: 0, overlap_tokens: 0, ..Candidate::default() },
//!     Candidate { worker: 1, overlap_tokens: 896, ..Candidate::default() },
//!     Candidate { worker: 2, overlap_tokens: 960, load: Load { in_flight: 40, queued_tokens: 30_000 }, ..Candidate::default() },
//! ];
//! let decision = Router::default().decide(Request { prompt_tokens: 1_000 }, &candidates, 7)?;
//! assert_eq!(decision.worker, 1, "64 tokens more are not worth the queue of worker 2");
//! assert_eq!(decision.record.replay()?, decision.worker);
//! # Ok::<(), kv_routing::NoCandidate>(())
//! ```
//!
//! Every candidate gets a cost in seconds, the sum of the policy's [cost functions](cost); the cheapest wins, and among those
//! within a millionth of a second of it one is drawn uniformly. There is no clock and no random source inside: the
//! caller's seed is the only chance there is, so a decision can be made again from its [`Record`].
//!
//! # What it is not
//! It does not look up prefixes (`kv-index` does), does not know what a worker reported or when, and keeps no state from one
//! decision to the next. Who is alive, warming up or overloaded is decided before: such workers are not
//! [`ready`](Candidate::ready).
#![forbid(unsafe_code)]

pub mod accounting;
mod candidate;
pub mod cost;
pub mod limits;
pub mod liveness;
pub mod load;
pub mod overload;
mod record;
mod router;
pub mod select;
mod sync;
pub mod warmup;

pub use candidate::{Candidate, Load, Request};
pub use record::{Record, Scored};
pub use router::{Decision, NoCandidate, Policy, Router};
