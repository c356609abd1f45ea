//! Sockets and clocks, one module for each feature: the rest of the crate has neither.

#[cfg(feature = "grpc")]
pub mod grpc;
pub mod hub;
#[cfg(feature = "zmq")]
pub mod zmq;
