//! A gateway that sends each LLM request to the engine that holds its prefix.
//!
//! ```text
//!            clients                                  engines
//!   POST /v1/completions ─► request ─► tokens ─► decide ► proxy ─► POST /v1/completions
//!                                                  │ ▲       └ usage ─► predicted against reported
//!                                                  ▼ │
//!                                       kv-routing   kv-index ◄─ lanes ◄─ feed ◄─ kv-events ◄─ ZeroMQ, or a relay's gRPC
//! ```
//!
//! It is a thin driver of the three crates, and meant to be read as one. Each engine has a task that asks for its health and
//! models (`fleet`); each of its ranks has a task that takes the rank's events from the sockets in order and queues them for
//! the lanes, a few threads of `kv_index::lanes` that write them into the index. A
//! request is read as far as routing needs it, its tokens are found, the index says what each rank would reuse of them,
//! `kv-routing` decides, and the client's own bytes go to the engine, through kv-routing's layer that keeps the books of a
//! request to the end of its answer. What the engine then reports as cached is held against the prediction.

mod api;
mod app;
mod decide;
mod demo;
mod fleet;
mod index;
mod limits;
mod metrics;
mod proxy;
mod request;
mod run;
mod screen;
mod server;
mod settings;
mod table;
mod tokens;

pub use self::fleet::WatchError;
pub use self::run::{RunError, run};
pub use self::server::{Gateway, StartError};
pub use self::settings::{
    ApiKey, ApiKeyError, DecisionSettings, EngineSpec, EngineSpecError, EventSource, FileError, Header, IndexKind, Limit,
    LoadSource, Measure, NumberError, Options, PolicyKind, Seconds, SecondsError, Settings, SettingsError, Share, Tuning,
};
pub use self::tokens::TokenFilesError;
