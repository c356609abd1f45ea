//! Who runs what, in which process, and what becomes of the figures.
//!
//! The parent only starts children and collects what they say. A child runs one contender through one part once, so that
//! no two contenders share a heap, and the rounds of all contenders of a case are interleaved.

mod block_on;
mod case;
mod child;
mod cli;
mod contest;
mod plan;

pub use block_on::block_on;
pub use case::{Case, Entry, Part, ShapeName};
pub use child::Order;
pub use cli::Options;
pub use contest::main;
