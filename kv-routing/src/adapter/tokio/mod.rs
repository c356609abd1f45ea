//! The state machines in time: who sweeps a fleet's [liveness](crate::liveness), and who asks for [loads](crate::load) that nobody
//! pushes.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use kv_routing::adapter::tokio::{LoadPoller, PollError, Watch};
//! use kv_routing::liveness::{Options, Task, Veto};
//! use kv_routing::load::{self, Ledger, wire};
//!
//! let watch = Watch::new(Options::default());
//! let sweeping = tokio::spawn(watch.clone().keep_swept(|change| println!("{change:?}")));
//!
//! // One worker: its life, its load, and how it is asked for that.
//! let pulse = watch.enlist()?;
//! let ledger = Ledger::new(load::Options::default());
//! let ask = |sent_at| async move {
//!     let body = br#"{"loads": [{"dp_rank": 0, "num_running_reqs": 3, "num_waiting_reqs": 1}]}"#; // GET /v1/loads
//!     wire::sglang::loads(body, sent_at).map_err(PollError::engine)
//! };
//! let polling = tokio::spawn(LoadPoller::new(ask, pulse.clone(), ledger.clone()).keep_polled(|_| ()));
//!
//! tokio::time::sleep(Duration::from_secs(1)).await;
//! assert_eq!(ledger.view(watch.clock().now()).running, 3);
//!
//! // Four streams of which nothing comes.
//! let mut streams: Vec<_> = (0..4).map(|_| pulse.begin(Task::streamed(150))).collect();
//! tokio::time::sleep(Duration::from_secs(4)).await;
//! assert_eq!(pulse.veto(), Some(Veto::Wedged));
//! streams[0].moved();
//! tokio::time::sleep(Duration::from_secs(1)).await;
//! assert_eq!(pulse.veto(), None);
//!
//! polling.abort();
//! sweeping.abort();
//! # Ok(())
//! # }
//! ```
//!
//! * A [`Watch`] is a tracker, its lock and its [`Clock`]; [`Watch::keep_swept`] calls it when it is time, and tells of every veto that
//!   is set or ended.
//! * A [`Pulse`] is one worker of it, to be kept beside the worker's connections: what they bring is told there.
//! * A [`Progress`] is one request. One that has a whole [`Dispatch`](crate::accounting::Dispatch) needs none: its site has the pulse's
//!   [vitals](Pulse::vitals).
//! * A [`LoadPoller`] asks one engine for its loads while nobody pushes them, and enters the answers into its
//!   [`Ledger`](crate::load::Ledger) and its pulse.
//!
//! # Tasks, locks and ends
//! Nothing is spawned here. [`keep_swept`](Watch::keep_swept) and [`keep_polled`](LoadPoller::keep_polled) are futures that are at work
//! while they are polled and end when they are dropped, with whatever they had under way: abort their tasks, or `select!` them
//! against a shutdown. No lock is held while the caller's code runs.
//!
//! The clock is tokio's, so a test that pauses it (`tokio::time::pause`) tests hours in milliseconds.

mod clock;
mod poll;
mod pulse;
mod watch;

pub use clock::Clock;
pub use poll::{LoadPoller, LoadSource, PollCounts, PollError, PollFailure, PollOptions, PollOutcome, Polled};
pub use pulse::{Progress, Pulse};
pub use watch::Watch;
