//! A relay beside one engine: whoever wants to know the engine's cache can come late, go away, be slow and come back.
//!
//! ```text
//!                     ZeroMQ                                   gRPC
//!  engine, rank 0 --- events, replay ---> intake --+       +--> kv_events.v1.KvEvents   (gateways of ours)
//!  engine, rank 1 --- events, replay ---> intake --+-> hub +--> SubscribeKvEvents       (gateways of the SMG family)
//!  ...                                             |       +--> /metrics, /health
//!  engine's /metrics, or load endpoint <--- polls --+
//! ```
//!
//! All rules are `kv_events::relay`'s; here are options, logs, metrics, and an ordered end.

mod limits;
mod load;
mod log;
mod metrics;
mod options;
mod run;
mod sidecar;

pub use self::options::{Options, Start};
pub use self::run::{RunError, run};
pub use self::sidecar::{Sidecar, StartError};
