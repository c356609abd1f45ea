//! Engines that compute nothing and behave like the real ones: same scheduler, same cache, same events, same HTTP.
//!
//! A [`MockFleet`] runs in the process of its user and speaks through real sockets. Each engine has an
//! OpenAI-compatible HTTP server and, for each data-parallel rank, a ZeroMQ event stream with its replay socket.
//!
//! ```text
//! HTTP request --> http --submit--> core --pass--> scheduler, pool      (pure)
//!                    ^               |  `-- how long? -- timing         (pure)
//!                    |               |
//!                    `---- tokens ---+---- events --> zmq --> subscribers
//! ```
//!
//! What it simulates: chunked prefill, prefix caching with eviction, preemption, the time that passes take, and all that
//! routers watch. What it does not: the content of answers. An answer's words follow from the request's number.
//!
//! ```no_run
//! use kv_examples::mock_engine::{MockConfig, MockFleet};
//!
//! # async fn example() -> Result<(), kv_examples::mock_engine::MockError> {
//! let fleet = MockFleet::start(MockConfig { engines: 8, ..MockConfig::default() }).await?;
//! for engine in fleet.engines() {
//!     println!("{} {} {}", engine.http_url(), engine.events_endpoint(), engine.replay_endpoint());
//! }
//! fleet.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod calibration;
mod chain;
mod config;
mod engine;
mod engine_core;
mod error;
mod events;
mod fleet;
mod generation;
mod http;
mod limits;
mod listen;
mod load;
mod log;
mod mirror;
mod pool;
mod scheduler;
mod sequence;
mod splitmix;
mod timing;
mod tokenizer;
mod zmq;

pub use calibration::Calibration;
pub use chain::BlockChain;
pub use config::{MockConfig, ReplayLayout};
pub use engine::MockEngine;
pub use error::MockError;
pub use events::{CacheEvent, Dialect, StreamFormat};
pub use fleet::MockFleet;
pub use load::Load;
pub use log::LogEntry;
pub use pool::BlockPool;
pub use scheduler::{Admitted, Emitted, Pass, Scheduler, SchedulerOptions};
pub use sequence::{Prompt, Request, output_token};
pub use splitmix::{SplitMix64, mix64};
pub use timing::{PassWork, REFERENCE_TOKENS, Timing, TimingModel};
pub use tokenizer::{render_chat, tokenize};
