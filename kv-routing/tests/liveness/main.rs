//! Vetoes, as a caller of the tracker sees them.

mod defects;
mod rig;
mod schedules;
mod table;
