//! What placement needs to know of a machine, as plain data.
//!
//! Three sources fill it in: [`sysfs`] on Linux, the module `hwloc` behind the feature of that name, and [`Topology::flat`] where neither
//! says anything. Whoever knows better writes one out by hand, since every field is public.

mod cgroup;
mod error;
#[cfg(feature = "hwloc")]
pub mod hwloc;
pub mod sysfs;
mod tree;

use std::fmt;
use std::path::Path;
use std::thread::available_parallelism;

pub use error::TopologyError;

use super::{CpuSet, pin};

/// A machine, as far as this process may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Where all this comes from.
    pub source: Source,
    /// The memory nodes that this process may take memory from, ascending; those without a core too.
    pub nodes: Vec<NodeId>,
    /// The cores that are online, each CPU in exactly one of them. Cores that this process must not use are there too.
    pub cores: Vec<Core>,
    /// The CPUs that this process may run on: online, in its affinity mask, in its cpuset.
    pub allowed: CpuSet,
    /// How much CPU time it may use, where that is limited.
    pub quota: Option<CpuQuota>,
}

/// A core and what stands around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its hardware threads, the CPUs that the operating system schedules. Never empty.
    pub threads: CpuSet,
    /// The memory node next to it.
    pub node: NodeId,
    /// The package (socket) that it is in.
    pub package: u32,
    /// The lowest CPU that shares its last-level cache: cores with equal numbers share one.
    pub cache: u32,
    /// How fast it is among the machine's cores: 0 for the slowest kind, one more for each faster one.
    pub kind: u32,
}

/// A memory node (NUMA node), by the operating system's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// CPU time that the process may use in the time of one CPU, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuQuota {
    /// 1,000 is one CPU all the time.
    pub milli_cpus: u64,
}

/// Where a [`Topology`] comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// Linux's `/sys` and `/proc`.
    Sysfs,
    /// The library hwloc.
    Hwloc,
    /// Nothing is known but the CPUs: one node, and every CPU a core.
    Flat {
        /// Why nothing is known, unless that is how this system is.
        because: Option<TopologyError>,
    },
    /// Written out by the caller.
    Given,
}

impl Topology {
    /// The machine that this runs on, as the calling thread may use it.
    ///
    /// On Linux from `/sys`, `/proc` and the thread's affinity mask. Where these cannot be read or contradict
    /// themselves, and on other systems, a [flat](Self::flat) topology; [`source`](Self::source) says which and why.
    pub fn detect() -> Self {
        if !cfg!(target_os = "linux") {
            return Self::flat(guessed_cpus(), None);
        }
        let affinity = pin::affinity();
        let read = sysfs::read(Path::new("/"), affinity.as_ref());
        read.unwrap_or_else(|error| Self::flat(affinity.unwrap_or_else(guessed_cpus), Some(error)))
    }

    /// One memory node, every one of `cpus` a core of its own, all alike and allowed. Where the standard library
    /// counts fewer CPUs for this process, that is the quota.
    pub fn flat(cpus: CpuSet, because: Option<TopologyError>) -> Self {
        let node = NodeId(0);
        let cache = cpus.first().unwrap_or(0);
        let core = |cpu| Core { threads: CpuSet::from(cpu), node, package: 0, cache, kind: 0 };
        let quota = available_parallelism().ok().filter(|usable| usable.get() < cpus.len());
        let quota = quota.map(|usable| CpuQuota { milli_cpus: 1_000 * usable.get() as u64 });
        Self { source: Source::Flat { because }, nodes: vec![node], cores: cpus.iter().map(core).collect(), allowed: cpus, quota }
    }
}

impl CpuQuota {
    /// The CPUs that can be kept busy all the time: rounded down, at least 1.
    ///
    /// Down, as [`available_parallelism`] does. With 2.5 CPUs, three busy lanes overdraw the quota by themselves, and
    /// the kernel then stops every thread of the process, lookups too, for the rest of the period (100 ms unless set
    /// otherwise). With two, the half is there for everybody else.
    pub fn whole_cpus(self) -> usize {
        usize::try_from(self.milli_cpus / 1_000).unwrap_or(usize::MAX).max(1)
    }
}

/// CPUs `0..n` for the `n` that the standard library counts.
fn guessed_cpus() -> CpuSet {
    let count = available_parallelism().map_or(1, std::num::NonZero::get);
    (0..crate::limits::CPUS_MAX).take(count).collect()
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads: usize = self.cores.iter().map(|core| core.threads.len()).sum();
        let packages = distinct(self.cores.iter().map(|core| core.package));
        let (nodes, cores) = (self.nodes.len(), self.cores.len());
        write!(f, "memory nodes: {nodes}, packages: {packages}, cores: {cores}, CPUs: {threads}")?;
        let kinds = distinct(self.cores.iter().map(|core| core.kind));
        if kinds > 1 {
            write!(f, ", kinds of core: {kinds}")?;
        }
        if self.allowed.len() < threads {
            write!(f, ", allowed: {}", self.allowed)?;
        }
        if let Some(quota) = self.quota {
            write!(f, ", quota: {quota}")?;
        }
        write!(f, " ({})", self.source)
    }
}

fn distinct(numbers: impl Iterator<Item = u32>) -> usize {
    numbers.collect::<std::collections::BTreeSet<_>>().len()
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysfs => f.write_str("from sysfs"),
            Self::Hwloc => f.write_str("from hwloc"),
            Self::Given => f.write_str("as given"),
            Self::Flat { because: None } => f.write_str("layout unknown"),
            Self::Flat { because: Some(error) } => write!(f, "layout unknown: {error}"),
        }
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl fmt::Display for CpuQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = format!(".{:03}", self.milli_cpus % 1_000);
        write!(f, "{}{} CPUs", self.milli_cpus / 1_000, thousandths.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_print_as_people_set_them() {
        let printed = [0, 1, 50, 500, 1_000, 2_500, 10_000].map(|milli_cpus| CpuQuota { milli_cpus }.to_string());
        assert_eq!(printed, ["0 CPUs", "0.001 CPUs", "0.05 CPUs", "0.5 CPUs", "1 CPUs", "2.5 CPUs", "10 CPUs"]);
    }

    #[test]
    fn a_machine_that_cannot_be_read_is_flat_and_says_why() {
        let error = sysfs::read(Path::new("/nowhere"), None).unwrap_err();
        let topology = Topology::flat(CpuSet::from_iter([3, 5]), Some(error));
        assert_eq!(topology.cores.len(), 2);
        assert!(topology.cores.iter().all(|core| core.node == NodeId(0) && core.threads.len() == 1));
        let said = topology.to_string();
        assert!(said.starts_with("memory nodes: 1, packages: 1, cores: 2, CPUs: 2"), "{said}");
        let why = "(layout unknown: cannot read /nowhere/sys/devices/system/cpu/online: entity not found)";
        assert!(said.ends_with(why), "{said}");
    }

    #[test]
    fn a_flat_machine_has_the_quota_that_the_standard_library_counts() {
        let usable = available_parallelism().unwrap().get();
        let cpus = u32::try_from(usable).unwrap();
        assert_eq!(Topology::flat((0..cpus).collect(), None).quota, None);
        let more = Topology::flat((0..=cpus).collect(), None);
        assert_eq!(more.quota.map(CpuQuota::whole_cpus), Some(usable));
    }

    #[test]
    fn this_machine_has_a_cpu_for_this_thread() {
        let topology = Topology::detect();
        assert!(!topology.allowed.is_empty() && !topology.cores.is_empty(), "{topology}");
        assert!(pin::affinity().is_none_or(|mask| topology.allowed.difference(&mask).is_empty()), "{topology}");
        println!("{topology}");
    }
}
