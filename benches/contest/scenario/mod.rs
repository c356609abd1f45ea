//! What is done to a contender and measured, one file for each part.

mod answers;
mod beside;
mod decode;
mod fill;
mod ladder;
mod lane;
mod lookups;
mod open_loop;
mod path;
mod replay;
mod scatter;
mod siblings;
mod trial;
mod turnover;
mod wire;

pub use answers::{Answers, Difference};
pub use beside::beside;
pub use decode::decode;
pub use fill::fill;
pub use ladder::ladder;
pub use lane::Lane;
pub use open_loop::open_loop;
pub use path::path;
pub use replay::replay;
pub use scatter::scatter;
pub use siblings::siblings;
pub use trial::{Measure, SEED, Settings, Trial};
pub use turnover::turnover;
