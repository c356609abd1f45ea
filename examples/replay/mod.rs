//! Replays a request trace against a gateway, or any OpenAI-compatible server, and says how well prefixes were reused.
//!
//! ```text
//! trace.rs --rows--> drive.rs --(due times, open loop)--> client.rs --HTTP--> gateway
//!                       |                                     |
//!                       `------------- outcomes <-------------' sse.rs
//!                                         |
//!          oracle.rs (mock engines' log) -+- floor.rs (what placements allowed) --> report.rs, print.rs
//! ```
//!
//! The load is an open loop: a request is sent when the trace says so, whether or not earlier ones were answered.

mod client;
mod drive;
mod error;
mod floor;
mod generate;
mod limits;
mod options;
mod oracle;
mod print;
mod prompt;
mod report;
mod run;
mod sse;
mod trace;

pub use error::ReplayError;
pub use floor::{Floor, Placement, floor};
pub use generate::{GeneratorOptions, generate};
pub use options::Options;
pub use prompt::PromptSource;
pub use report::{Distribution, Report};
pub use run::run;
pub use trace::{Row, parse_trace, read_trace};
