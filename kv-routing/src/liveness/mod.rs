//! Which workers must not be sent anything for now, by what was heard of them: beside health checks, never instead of them.
//!
//! A health check asks seldom and counts its failures; a worker whose host is gone, or whose engine hangs while its HTTP side still
//! answers, goes on collecting requests for a minute. Traffic knows sooner. A [`Tracker`] is told what every channel to every
//! worker of a fleet brings, and sets and ends *vetoes*. A veto steers and never refuses: who has only vetoed workers uses them
//! ([`overload`](crate::overload)).
//!
//! ```
//! use std::time::Duration;
//!
//! use kv_routing::liveness::{Contact, Options, Task, Tracker, Veto};
//!
//! let second = Duration::from_secs;
//! let mut tracker = Tracker::new(Options::default());
//! let worker = tracker.add_worker(second(0))?;
//! let vitals = tracker.vitals(worker).expect("it was added");
//!
//! // Four streams begin, and nothing comes of them.
//! let streams: Vec<_> = (0..4).map(|_| vitals.begin(second(0), Task::streamed(150))).collect();
//! tracker.handle_timeout(second(4));
//! assert_eq!(vitals.veto(), Some(Veto::Wedged));
//!
//! // A token of one of them is enough.
//! streams[0].progress(second(5));
//! tracker.handle_timeout(second(5));
//! assert_eq!(vitals.veto(), None);
//! # drop(streams);
//! # tracker.handle_contact(second(5), worker, Contact::Traffic);
//! # Ok::<(), kv_routing::liveness::WorkersExhausted>(())
//! ```
//!
//! # What is told
//! A worker is whatever can hang by itself. Where an engine's data-parallel ranks report one by one, each rank is a worker here, and what
//! concerns their common connection is told for each of them.
//!
//! | input | what it is |
//! |---|---|
//! | contact | a subscription that stands, an applied batch, a load record (also one without events), an answered poll, any answer of the worker |
//! | probe | a health check that passed: contact, but it [promotes](Transition::promotes) nobody |
//! | progress | a token or chunk of a stream, a completion: contact as well. [`Ticket::progress`] takes no lock |
//! | transport failure | the connection is gone: gRPC's unavailable, unknown, cancelled or aborted; a refused or reset HTTP connection; a disconnect that a `ZeroMQ` monitor reports. A deadline or an engine's error is none, nor is a failed health check |
//! | load report | what the engine says of its queue, pushed or polled ([`Report`]) |
//! | ticket | one request, from dispatch until its [`Ticket`] is dropped, which every path of a request does, once |
//!
//! # The states
//! ```text
//!                 transport failure, and unheard for `stall`;
//!                 or pushed records once, and unheard for `stale`
//!         +---------------------------------------------------------+
//!         |                                                         v
//!     +-------+             contact                         +-------------+
//!     | clear | <------------------------------------------ | unreachable |
//!     +-------+                                             +-------------+
//!       ^   |      pile, queue, engine silent                       ^
//!       |   +----------------------------------+                    | the same as from clear: the streams
//!       |                                      v                    | that were to show progress are gone
//!       |   progress, drained, recovered   +--------+               |
//!       +--------------------------------- | wedged | --------------+
//!                                          +--------+
//! ```
//! * **Pile**, at a sweep: streams are under way, none of any of them has shown progress for the *bound*, and they are 4 or more, or
//!   have grown in number since the last sweep. Only what has a progress signal can form a pile: streamed answers, over HTTP too,
//!   but no whole answer and no prefill leg.
//! * **Queue**, with a load report: streams are under way without progress for the bound, and requests wait.
//! * **Engine silent**, with a pushed record: the engine says itself that it has work and has not taken a step for too long.
//! * The **bound** is `wedge`, or the time that the prompts which still wait for their first token need at the rate measured here
//!   (10,000 tokens a second until then), whichever is longer; never more than 120 s. So prefill is no wedge.
//! * Silence counts from the last progress or from the start of the current run of streams, whichever is later: an idle worker's long
//!   peace is not held against its first request.
//! * **Drained**: no streams any more, and the engine does not say that it hangs. **Recovered**: a report by which it does not, with no
//!   streams left or their silence below the bound. What an engine said of itself lapses after `stale` unless it says so again.
//! * Unreachable is never called wedged; what ends it is contact and nothing else.
//!
//! Every state with every input stands in `tests/liveness/table.txt`, written by the code and compared with it.
//!
//! # Threads
//! A tracker has one owner, or a lock around it. What requests need is in the [`Vitals`] of their worker, which are cheap to clone:
//! reading the veto is one atomic load, a chunk's progress one atomic maximum, and a lock that only this worker's
//! requests share is taken when a request begins, has its first token, and ends. The tracker takes note of progress with the
//! next thing it is told of the worker, at the latest with the next sweep, a quarter of a second later.
//!
//! Times are the caller's, since any start. A moment that lies ahead of the caller's present is taken for the present, so a clock
//! that jumps back makes nothing wait for the length of the jump.

mod judge;
#[cfg(all(test, kv_loom))]
mod loom;
mod options;
mod report;
mod ticket;
mod tracker;
mod transition;
mod vitals;
mod work;

pub use options::Options;
pub use report::{Contact, EngineSilence, Report};
pub use ticket::{Task, Ticket};
pub use tracker::{Handle, Tracker, TrackerCounts, WorkersExhausted};
pub use transition::{Cause, Transition, Veto};
pub use vitals::Vitals;
