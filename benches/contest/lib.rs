//! The contest: this workspace's index and its peers on the same work, their answers compared before anything is timed.
//!
//! [`workload`] makes events and requests, [`contender`] feeds them to an index, [`scenario`] says what is done and measured,
//! [`measure`] has the instruments, [`runner`] the processes, and [`report`] the tables, the bars and the records.

pub mod contender;
pub mod measure;
pub mod random;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod workload;
