//! Which workers have too much already, and requests that are turned away.
//!
//! A worker is overloaded when, by its own fresh account, more requests wait than the threshold says, or more of its KV cache is in
//! use. That is a function of its [`View`](crate::load::View), so nothing is remembered that could be left standing: a worker
//! whose reports stop is not overloaded, and is judged by the [vetoes](crate::liveness::Veto). Where reports are seconds old, as polled
//! ones are, an old verdict sends everybody to the others until these are worse off: [`Thresholds::is_overloaded_at`] believes it for
//! a second only.
//!
//! ```
//! use kv_routing::load::View;
//! use kv_routing::overload::{Sheds, Thresholds};
//! use kv_routing::{Candidate, NoCandidate, Request, Router};
//!
//! let view = View { waiting: 9, sampled_at: Some(std::time::Duration::ZERO), ..View::default() };
//! let busy = Candidate { overloaded: Thresholds::default().is_overloaded(&view), ..Candidate::default() };
//! let idle = Candidate { worker: 1, ..Candidate::default() };
//! assert_eq!(Router::default().decide(Request::default(), &[busy, idle], 7)?.choice.worker, 1);
//! assert!(Router::default().decide(Request::default(), &[busy], 7).is_ok(), "there is nobody else");
//!
//! let shedding = Router { shed_overloaded: true, ..Router::default() };
//! let sheds = Sheds::default();
//! let mut request = sheds.request();
//! let refused = request.decide(|| shedding.decide(Request::default(), &[busy], 7)).unwrap_err();
//! assert_eq!((refused, refused.is_retryable(), sheds.count()), (NoCandidate::Shed { candidates: 1 }, false, 1));
//! # Ok::<(), NoCandidate>(())
//! ```
//!
//! # Whom a decision may choose from
//! Three things keep a worker from being chosen, and they are not equal. One that is not [ready](crate::Candidate::ready) (unhealthy, its
//! circuit breaker open, not this model's) cannot serve. One that is vetoed probably does not. One that is overloaded does, late. So
//! vetoes and overload *steer*: as long as somebody else can serve, he does, and when nobody else is left they are not in the way.
//! Only with [`shed_overloaded`](crate::Router::shed_overloaded), which has to be asked for, a request is turned away.
//!
//! | if some worker is | choose from | how |
//! |---|---|---|
//! | ready, not vetoed, not overloaded | these | as the policy says |
//! | ready, not vetoed | these; if overload is shed, [nobody](crate::NoCandidate::Shed) | as the policy says |
//! | ready | these; if overload is shed, who of them is not overloaded, or [nobody](crate::NoCandidate::Shed) | the least loaded |
//! | none of these | [nobody](crate::NoCandidate::NoneReady) | |
//!
//! `tests/overload/table.txt` has every fleet of two.

mod shed;
mod thresholds;

pub use shed::{Attempts, Sheds};
pub use thresholds::{Overrides, Thresholds};
