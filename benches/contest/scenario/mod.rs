//! What is done to a contender and measured, one file for each part.

mod answers;
mod fill;
mod lane;
mod lookups;
mod scatter;
mod trial;
mod turnover;

pub use answers::{Answers, Difference};
pub use fill::fill;
pub use lane::Lane;
pub use scatter::scatter;
pub use trial::{Measure, Settings, Trial};
pub use turnover::turnover;
