//! Sockets and clocks, one module for each feature: the rest of the crate has neither.

pub mod zmq;
