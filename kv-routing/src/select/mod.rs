//! From costs to a choice.

mod ties;

pub use ties::{Draw, cheapest};
