//! Why a machine's description cannot be used.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::lanes::CpuSet;

/// A machine's description cannot be read, or does not make sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A file cannot be read.
    #[error("cannot read {}: {kind}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        kind: io::ErrorKind,
    },
    /// A file is larger than any of its kind.
    #[error("{} is larger than {max} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// [`MACHINE_FILE_BYTES_MAX`](crate::limits::MACHINE_FILE_BYTES_MAX).
        max: u64,
    },
    /// A file does not say what such a file says.
    #[error("{}: expected {expected}, found {found:?}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What should be there.
        expected: &'static str,
        /// What is there, at most 64 characters of it.
        found: String,
    },
    /// A CPU is said to be in two memory nodes, or in two cores, or not in its own core.
    #[error("{}: contradicts other files about CPU {cpu}", path.display())]
    Contradiction {
        /// The file that contradicts the others.
        path: PathBuf,
        /// The CPU.
        cpu: u32,
    },
    /// There is no CPU that this process may run on.
    #[error("none of the online CPUs {online} is allowed")]
    NoCpu {
        /// The CPUs that are online.
        online: CpuSet,
    },
}
