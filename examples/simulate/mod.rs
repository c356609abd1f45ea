//! A fleet in virtual time: what a policy does to the time to the first token, before it does so to users.
//!
//! Engines are those of [`mock_engine`](crate::mock_engine) without their sockets: the same scheduler pass, the same block pool with
//! eviction, the same cost of a pass. Between them and the arrivals stands what a gateway knows: an index of the events that have
//! come, reports of load that may be old, and its own books. Nothing here reads a clock: a scene and a seed give the same figures on
//! every machine.
//!
//! ```text
//! arrivals --> gateway --choose--> engine: scheduler pass, pool
//!                ^ ^                  |  |
//!                | `-- load reports --'  |     late by the scene's period
//!                `----- cache events ----'     late by the scene's delay
//! ```

mod contender;
mod engine;
mod figures;
mod gateway;
mod options;
mod outcome;
mod placing;
mod scene;
mod scenes;
mod seeds;
mod workload;
mod world;

pub use contender::{Contender, Part};
pub use engine::EngineOptions;
pub use figures::{Figures, Spread, table};
pub use options::Options;
pub use outcome::Outcome;
pub use scene::{Fault, Scene, Slo};
pub use seeds::Seeds;
pub use workload::{Arrival, Workload};
pub use world::{compare, run};
