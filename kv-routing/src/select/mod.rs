//! From costs to a choice: who may be chosen, who stands out, and a draw among equals.

mod blend;
mod eligible;
mod gate;
mod scratch;
mod sessions;
mod soften;
mod ties;

pub use blend::Blend;
pub use eligible::Fallback;
pub(crate) use eligible::{Standing, counted, eligible};
pub use gate::Gates;
pub use scratch::Scratch;
pub(crate) use scratch::apart;
pub use sessions::Sessions;
pub use soften::soften;
pub use ties::{Draw, cheapest};
