//! The contest: this workspace's index and its peers on the same work, their answers compared before anything is timed.

pub mod contender;
pub mod measure;
pub mod random;
pub mod runner;
pub mod scenario;
pub mod workload;
