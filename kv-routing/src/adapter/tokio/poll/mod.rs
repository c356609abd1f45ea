//! Asking one engine for its loads, while nobody pushes them.

mod counts;
mod error;
mod options;
mod poller;

pub use counts::{PollCounts, PollOutcome};
pub use error::{PollError, PollFailure};
pub use options::PollOptions;
pub use poller::{LoadPoller, LoadSource, Polled};
