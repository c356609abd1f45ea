//! Keeps the calling thread on some CPUs. Linux only; elsewhere it does nothing, and says so.
//!
//! A lane does this first on its thread, so that what it allocates afterwards lies on its memory node: Linux takes a page
//! from the node of the thread that first touches it. A pool of lanes takes a closure for that. Each shard has a pool of its
//! own, since lanes of one pool take workers from each other:
//!
//! ```
//! use kv_index::lanes::{self, CpuSet, PlacementOptions, Topology, Wanted, pin};
//!
//! let plan = lanes::place(&Topology::detect(), Wanted::Sensible, &PlacementOptions::default())?;
//! for shard in &plan.shards {
//!     let cpus: Vec<CpuSet> = plan.lanes[shard.lanes.clone()].iter().map(|lane| lane.cpus.clone()).collect();
//!     let lanes = cpus.len();
//!     let on_start = move |lane: usize| match pin::current_thread(&cpus[lane]) {
//!         Ok(pin::Pinned::Here) => {}
//!         // Both cost speed, not correctness.
//!         Ok(pin::Pinned::Unsupported) => println!("lane {lane} runs where the system likes"),
//!         Err(error) => println!("lane {lane} is not pinned: {error}"),
//!     };
//!     // What a pool of so many lanes does, each on its own thread:
//!     std::thread::scope(|scope| {
//!         for lane in 0..lanes {
//!             let on_start = &on_start;
//!             scope.spawn(move || on_start(lane));
//!         }
//!     });
//! }
//! # Ok::<(), kv_index::lanes::PlacementError>(())
//! ```

use thiserror::Error;

use super::CpuSet;
use crate::limits::CPUS_MAX;

/// What [`current_thread`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pinned {
    /// The thread runs on these CPUs only, or on those of them that its cpuset allows.
    Here,
    /// Nothing: this system has no such call, or none that is known here.
    Unsupported,
}

/// The thread stays where it was.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PinError {
    /// The set has no CPU, or numbers that no system has.
    #[error("cannot run on CPUs {cpus}: expected at least one, and numbers below {CPUS_MAX}")]
    NoSuchCpu {
        /// The set.
        cpus: CpuSet,
    },
    /// The operating system refuses: none of the CPUs is online and in the thread's cpuset (`EINVAL`), or a sandbox
    /// forbids the call (`EPERM`).
    #[error("cannot run on CPUs {cpus}: error {errno} of the operating system")]
    Refused {
        /// The set.
        cpus: CpuSet,
        /// The system's number of the error.
        errno: i32,
    },
}

/// Lets the calling thread, and threads that it starts later, run on `cpus` only.
///
/// # Errors
/// [`PinError`]: the set is none, or the system refuses it.
pub fn current_thread(cpus: &CpuSet) -> Result<Pinned, PinError> {
    if cpus.last().is_none_or(|last| last >= CPUS_MAX) {
        return Err(PinError::NoSuchCpu { cpus: cpus.clone() });
    }
    system::pin(cpus).map_err(|errno| PinError::Refused { cpus: cpus.clone(), errno })
}

/// The CPUs that the calling thread may run on. None where the system does not tell.
pub fn affinity() -> Option<CpuSet> {
    system::affinity()
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::{c_int, c_ulong};

    use super::{CpuSet, Pinned};
    use crate::limits::CPUS_MAX;

    /// A bit for each CPU, in the words that the kernel counts in. The C library's `cpu_set_t` ends at 1,024 CPUs, the
    /// calls do not.
    type Mask = [c_ulong; CPUS_MAX.div_ceil(c_ulong::BITS) as usize];

    pub(super) fn pin(cpus: &CpuSet) -> Result<Pinned, c_int> {
        let mut mask: Mask = [0; _];
        for cpu in cpus.iter() {
            mask[(cpu / c_ulong::BITS) as usize] |= 1 << (cpu % c_ulong::BITS);
        }
        // SAFETY: the call reads `size_of_val(&mask)` bytes from the pointer, which is what it points to. The type it
        // wants is an array of the same words, so the alignment is right.
        let result = unsafe { libc::sched_setaffinity(CALLING_THREAD, size_of_val(&mask), mask.as_ptr().cast()) };
        if result == 0 { Ok(Pinned::Here) } else { Err(last_errno()) }
    }

    pub(super) fn affinity() -> Option<CpuSet> {
        let mut mask: Mask = [0; _];
        // SAFETY: the call writes at most `size_of_val(&mask)` bytes to the pointer, which is what it points to; any
        // bytes are a mask. The type it wants is an array of the same words, so the alignment is right.
        let result = unsafe { libc::sched_getaffinity(CALLING_THREAD, size_of_val(&mask), mask.as_mut_ptr().cast()) };
        let set = |cpu: &u32| mask[(cpu / c_ulong::BITS) as usize] >> (cpu % c_ulong::BITS) & 1 == 1;
        (result == 0).then(|| (0..CPUS_MAX).filter(set).collect())
    }

    fn last_errno() -> c_int {
        std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
    }

    const CALLING_THREAD: libc::pid_t = 0;
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{CpuSet, Pinned};

    pub(super) fn pin(_: &CpuSet) -> Result<Pinned, i32> {
        Ok(Pinned::Unsupported)
    }

    pub(super) fn affinity() -> Option<CpuSet> {
        None
    }
}
