//! x

pub mod engine_hash;
