//! Which batches are applied, what is asked for, and what is said of the result: by hand, one rule at a time. The simulation has
//! them all at once.

mod engine;
mod relay;
mod rig;
mod table;
