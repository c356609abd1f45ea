//! Which batches of a stream are applied, what is asked for, and what the result is worth.

mod clock;
mod cursor;
mod delivery;
mod follower;
mod held;
mod live;
mod pause;
mod recent;
mod replay;
mod resume;
mod session;
mod trust;

pub use cursor::{Cursor, Verdict};
pub use delivery::Delivery;
pub use follower::{Change, Follower, FollowerCounts, Request, Source, Step};
pub use resume::SnapshotPart;
pub use session::ReplayOutcome;
pub use trust::{Degraded, Findings, Trust};
