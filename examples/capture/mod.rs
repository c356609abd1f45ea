//! Recordings of real engines: writing them, and checking that decode, normalize, copies and index predict from their events what
//! the engine itself reported.

pub mod check;
pub mod file;
pub mod record;
pub mod replayer;
pub mod report;
pub mod timeline;
pub mod tree;
