//! Instruments: clocks, live bytes, percentiles.

pub mod alloc;
pub mod clock;
pub mod latency;
pub mod rss;
