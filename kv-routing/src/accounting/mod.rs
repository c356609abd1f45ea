//! What a dispatch counts for until the worker's own word replaces it, and how every path of a request ends that.
//!
//! A decision changes what the next one should be made from, and no worker tells of it in time: a burst of requests is over before
//! the first load record or cache event comes. So each dispatch is booked at once:
//!
//! | what | where | until |
//! |---|---|---|
//! | a request in flight, its tokens to compute | the worker's [`Ledger`](crate::load::Ledger) | a sample knows of it, the first token, the end |
//! | a stream that could show progress | the worker's [`Vitals`](crate::liveness::Vitals) | the end |
//! | its prefix, as if the worker held it already | [`Predictions`] | the index shows it, a second after the first token, failure, or [`PREDICTION_TTL`](crate::limits::PREDICTION_TTL) |
//!
//! A [`Dispatch`] holds all three. It is the one place where a request ends: dropped by success, error, a client that vanishes or a
//! panic, it takes back what is still booked and counts the [`Outcome`]. A [`Pair`] holds both legs of a disaggregated request.
//!
//! ```
//! use std::time::Duration;
//!
//! use kv_index::ContentHash;
//! use kv_routing::accounting::{Predictions, PrefixKeys};
//!
//! let now = Duration::ZERO;
//! let predictions = Predictions::new();
//! let prompt: Vec<ContentHash> = (0..10).map(ContentHash).collect();
//! let placed = predictions.place(now, 7, &PrefixKeys::of(&prompt));
//!
//! // A sibling that shares all ten blocks and has two more is sent after it: before any event has come.
//! let sibling: Vec<ContentHash> = (0..12).map(ContentHash).collect();
//! let mut found = Vec::new();
//! predictions.find(now, &PrefixKeys::of(&sibling), &mut found);
//! assert_eq!((found[0].worker, found[0].blocks), (7, 8));
//!
//! // The request fails before its first token: nothing was computed.
//! drop(placed);
//! predictions.find(now, &PrefixKeys::of(&sibling), &mut found);
//! assert!(found.is_empty());
//! ```
//!
//! # Predicted placements
//! A prompt is booked under the hashes of its first 1, 2, 4, 8, ... blocks and of all: a few keys for a prompt of any length,
//! and a sibling finds at least half of what it shares ([`Predictions::find`]); who compares it with what was placed finds all of it
//! ([`Predictions::find_shared`]). At most [`PREDICTION_KEYS_MAX`](crate::limits::PREDICTION_KEYS_MAX) keys are kept, of four workers each;
//! beyond that the key that was booked first goes, even if it is live. Each eviction takes one entry off a queue in which a key
//! stands once, so making room ends whatever is live.

mod keys;
mod outcome;
mod pair;
mod placements;
mod predictions;
mod request;

pub use keys::PrefixKeys;
pub use outcome::{Outcome, Outcomes};
pub use pair::Pair;
pub use placements::Predicted;
pub use predictions::{Placed, Predictions};
pub use request::{Dispatch, Site};
