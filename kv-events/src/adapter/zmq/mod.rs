//! Engines' events over ZeroMQ: a [`Subscriber`] for what a rank publishes, a [`Replay`] for what it has published before; and an
//! [`Intake`] that has both tell a relay.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kv_events::adapter::zmq::{Endpoint, Replay, ReplayEvent, Subscriber, SubscriberEvent};
//!
//! let rank = 1;
//! let events = "tcp://*:5557".parse::<Endpoint>()?.on_host("10.0.0.7").for_rank(rank)?;
//! let replay = "tcp://*:5558".parse::<Endpoint>()?.on_host("10.0.0.7").for_rank(rank)?;
//! let mut subscriber = Subscriber::connect(events, Default::default());
//! let replay = Replay::new(replay, Default::default());
//! loop {
//!     match subscriber.next().await {
//!         SubscriberEvent::Message(frames) => println!("{} frames", frames.len()),
//!         SubscriberEvent::Connected => {
//!             let mut answers = replay.request(0);
//!             while let ReplayEvent::Message(frames) = answers.next().await {
//!                 println!("{} frames of the past", frames.len());
//!             }
//!         }
//!         other => println!("{other:?}"),
//!     }
//! }
//! # }
//! ```
//!
//! # Why this speaks ZMTP itself
//! The promise is no system package, and nothing that one engine sends may stop another engine's stream. libzmq (crate `zmq`)
//! needs a C++ compiler. The pure Rust crate `zeromq` 0.7.0 was measured on 2026-11-29 as SUB and DEALER against libzmq 4.3.5
//! (pyzmq 27.3.0), which is what engines use; the right column is this module against the same peers.
//!
//! | situation | `zeromq` 0.7.0 | here |
//! |---|---|---|
//! | a frame header that claims 1 TB | **the process aborts**: the length is reserved | the connection ends with [`ZmtpError::TooLong`] |
//! | a message whose frames never end | kept without bound (read in its code) | at most 16 frames and 64 MiB |
//! | publisher late or restarted | found and subscribed again after pauses of up to 30 s; a DEALER is not (code) | pauses of up to 5 s |
//! | accepts TCP and stays silent | `connect` times out; **a reconnect waits for ever** | 5 s, then the next attempt |
//! | disconnect | seen by `monitor()`, in no order with messages | an event in its order |
//! | host lost, or process stopped | never seen (code) | three pings of ZMTP 3.1 unanswered: 20 s |
//! | reader too slow | our memory is bounded by TCP; the *engine* keeps up to its HWM (100,000 messages) | drained into a bounded queue |
//! | 9,000 replay answers of 1.5 kB, reader 3 s late | 4,500 and no end marker: the ROUTER drops at its HWM (1,000) | 9,000 (3 of 3 tries) |
//! | messages of 10 MB, 20 a second | all, 23 MB resident | all, 3 MB resident |
//!
//! No client can keep a ROUTER from dropping: of 9,000 answers of 60 kB, sent in 0.3 s, 2,000 to 4,000 came and no marker. So
//! look at the sequence numbers and ask again from the last (see [`ReplayEnd::Complete`]).
//!
//! What is spoken of ZMTP (greeting, READY, frames, SUBSCRIBE, PING) is a small codec without I/O, tested against libzmq's
//! recorded handshake and, in `tests/zmq_adapter`, against the `zeromq` crate's sockets.

mod endpoint;
mod inbox;
mod intake;
pub mod limits;
mod link;
mod replay;
mod subscriber;
mod zmtp;

pub use endpoint::{Endpoint, EndpointError};
pub use intake::{Intake, IntakeError, IntakeOptions, IntakeStatus};
pub use link::LinkError;
pub use replay::{Replay, ReplayEnd, ReplayEvent, ReplayOptions, Replaying};
pub use subscriber::{BindError, Subscriber, SubscriberEvent, SubscriberOptions};
pub use zmtp::ZmtpError;
