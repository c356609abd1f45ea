//! Who runs what, in which process.

mod block_on;

pub use block_on::block_on;
