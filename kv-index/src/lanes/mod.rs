//! Lanes.
mod drain;
mod handle;
mod idle;
mod inbox;
mod lane;
mod metrics;
mod parker;
mod pool;
mod registry;
mod reply;
mod schedule;
mod shared;
mod slot;
mod stream;

#[cfg(all(test, kv_loom))]
mod loom;
#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod random;
#[cfg(test)]
mod scene;
#[cfg(all(test, kv_shuttle))]
mod shuttle;
#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests;

pub use drain::{Drain, Drained};
pub use handle::{Room, StreamHandle};
pub use lane::Lane;
pub use metrics::{Counts, LaneMetrics, PoolMetrics, StreamMetrics};
pub use pool::{Ending, Pool, PoolError, Remains};
pub use reply::{Lost, Reply};
pub use stream::{Failure, Load, Refusal, Refused, Retired, Stream, StreamId, StreamOptions, StreamState};
