//! Vetoes, as a caller of the tracker sees them.

mod defects;
mod drills;
mod rig;
mod schedules;
mod table;
#[path = "../written/mod.rs"]
mod written;
