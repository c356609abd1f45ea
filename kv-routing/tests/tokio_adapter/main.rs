//! The state machines in time, by a clock that tests move.
#![cfg(feature = "tokio")]

mod polls;
mod script;
mod sweeps;
