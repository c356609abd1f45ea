//! What becomes of the figures: tables, bars, records.

mod bars;
mod machine;
mod results;
mod table;

pub use machine::Machine;
pub use results::{Check, Results, Run, Skip};
pub use table::{Row, Table};
