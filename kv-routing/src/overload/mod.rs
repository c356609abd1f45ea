//! Which workers have too much already, and whom a decision may choose from.
//!
//! Three things keep a worker from being chosen, and they are not equal. One that is not ready (unhealthy, its circuit breaker open, not
//! this model's) cannot serve. One under a [veto](crate::liveness::Veto) probably does not. One that is overloaded does, late. So vetoes
//! and overload *steer*: as long as somebody else can serve, he does, and when nobody else is left they are not in the way.
//! Only with [`shed`](Steering::shed), which has to be asked for, a request is turned away.
//!
//! ```
//! use kv_routing::load::View;
//! use kv_routing::overload::{Pool, Standing, Steering, Thresholds};
//!
//! let thresholds = Thresholds::default();
//! let busy = View { waiting: 9, sampled_at: Some(std::time::Duration::ZERO), ..View::default() };
//! let idle = View { waiting: 0, ..busy };
//! let standing = |view| Standing { ready: true, veto: None, overloaded: thresholds.is_overloaded(view) };
//!
//! let steering = Steering::default();
//! let pool = steering.pool([&busy, &idle].map(standing))?;
//! assert!(pool == Pool::Eligible && pool.admits(standing(&idle)) && !pool.admits(standing(&busy)));
//! assert_eq!(steering.pool([&busy].map(standing))?, Pool::Unvetoed, "there is nobody else");
//! # Ok::<(), kv_routing::overload::Refused>(())
//! ```
//!
//! # Whom a decision may choose from
//! | if some worker is | choose from | how |
//! |---|---|---|
//! | ready, not vetoed, not overloaded | [`Pool::Eligible`] | as the policy says |
//! | ready, not vetoed | [`Pool::Unvetoed`]; with `shed`, nobody ([`Refused::Shed`]) | the least loaded |
//! | ready | [`Pool::Ready`]; with `shed`, of these only who is not overloaded | the least loaded |
//! | none of these | [`Refused::Shed`] if some worker is ready, else [`Refused::NobodyReady`] | |
//!
//! # Overload
//! A worker is overloaded when, by its own fresh account, as many requests wait as the threshold says, or as much of its KV cache is in
//! use. That is a function of its [`View`](crate::load::View), so nothing is remembered that could be left standing: a worker
//! whose reports stop is not overloaded, and is judged by the vetoes.

mod shed;
mod steer;
mod thresholds;

pub use shed::{Attempts, Sheds};
pub use steer::{Pool, Refused, Standing, Steering};
pub use thresholds::{Limit, Overrides, Thresholds};
