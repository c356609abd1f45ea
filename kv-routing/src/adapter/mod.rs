//! Clocks, sockets and other crates' traits, one module for each feature: the rest of the crate has none of them.
//!
//! | feature | module | adds |
//! |---|---|---|
//! | `tokio` | `tokio` | a clock and the sweeps of [`liveness`](crate::liveness); polls of loads, when nobody pushes them |
//! | `grpc` | `grpc` | health and loads of engines that speak gRPC, for the poller of `tokio` |
//! | `tower` | `tower` | a layer that carries a request's books to the end of its answer |

#[cfg(feature = "grpc")]
pub mod grpc;
#[cfg(feature = "tokio")]
pub mod tokio;
#[cfg(feature = "tower")]
pub mod tower;
