//! Health and loads of engines that speak gRPC.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kv_routing::adapter::grpc::{HealthClient, LoadClient, Servicer, connect};
//! use kv_routing::adapter::tokio::{LoadPoller, Watch};
//! use kv_routing::load::Ledger;
//!
//! let pulse = Watch::new(kv_routing::liveness::Options::default()).enlist()?;
//! let ledger = Ledger::new(kv_routing::load::Options::default());
//!
//! let channel = connect(&"grpc://10.0.0.7:50051".parse()?);
//! tokio::spawn(LoadPoller::new(LoadClient::new(channel.clone(), Servicer::Vllm), pulse.clone(), ledger).keep_polled(|_| ()));
//! tokio::spawn(HealthClient::new(channel).keep_checked(vec![pulse], |health| println!("{health:?}")));
//! # Ok(())
//! # }
//! ```
//!
//! * [`LoadClient`]: `GetLoads` of vLLM's and SGLang's servicers, a [`LoadSource`](super::tokio::LoadSource).
//! * [`HealthClient`]: `grpc.health.v1.Health`, which any server may have: one [`check`](HealthClient::check), a
//!   [`watch`](HealthClient::watch) that tells of changes, or checks [kept up](HealthClient::keep_checked).
//!
//! # What a status means
//! | status | [`PollFailure`](super::tokio::PollFailure) |
//! |---|---|
//! | `UNAVAILABLE`, `UNKNOWN`, `CANCELLED`, `ABORTED` | `Transport` |
//! | `DEADLINE_EXCEEDED` | `Late` |
//! | `UNIMPLEMENTED` | `Unsupported` |
//! | others | `Engine` |
//!
//! # Hostile ends
//! Messages are bounded ([`LOADS_MESSAGE_BYTES_MAX`](crate::limits::LOADS_MESSAGE_BYTES_MAX)), ranks too, and what a load says is checked where all
//! samples are: [`Ledger::handle_sample`](crate::load::Ledger::handle_sample) counts what it refuses. A connection that is cut in
//! silence is found by a ping within 40 s, by a question within its deadline.

mod address;
mod health;
mod loads;
pub mod proto;
mod status;

pub use address::{AddressError, EngineAddress, connect};
pub use health::{Health, HealthClient, HealthWatch};
pub use loads::{LoadClient, Servicer, loads};
