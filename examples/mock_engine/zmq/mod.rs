//! The ZeroMQ side of one rank: a PUB socket for its batches and a ROUTER that repeats them.
//!
//! ```text
//! core --batch--> publisher task --[topic, sequence, payload]--> SUB sockets
//!                      |
//!                 replay buffer (last 10,000 batches)
//!                      |
//!                 replay task   <--["", start]-- DEALER sockets
//! ```
//!
//! The PUB socket of the `zeromq` crate queues up to 100,000 messages for each subscriber and drops the rest, so a slow
//! subscriber loses batches but never holds the publisher up.

mod buffer;
mod publisher;
mod replay;

pub(super) use publisher::{Publisher, StreamFault, StreamState};
