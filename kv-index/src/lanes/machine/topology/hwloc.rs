//! A machine as the library hwloc describes it (feature `hwloc`): on every system that hwloc knows, with its kinds of
//! core and with nodes that several packages share.
//!
//! Needs hwloc 2.8 or later with its headers when this crate is built (Debian: `libhwloc-dev`, `libudev-dev`, `pkg-config`).

use std::collections::BTreeMap;

use hwlocality::Topology as Machine;
use hwlocality::cpu::kind::CpuKind;
use hwlocality::object::TopologyObject;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::StringInputError;
use thiserror::Error;

use super::cgroup::{self, Limits};
use super::tree::Tree;
use super::{Core, NodeId, Source, Topology, TopologyError};
use crate::lanes::{CpuSet, pin};

/// Why hwloc gave no topology.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HwlocError {
    /// The library could not look at the machine.
    #[error("hwloc cannot load the topology: {call} failed with error {errno:?} of the operating system")]
    Load {
        /// The function that failed.
        call: &'static str,
        /// The system's number of the error, where there is one.
        errno: Option<i32>,
    },
    /// The text describes no machine.
    #[error("hwloc knows no machine {description:?}")]
    Description {
        /// The text.
        description: String,
    },
    /// The process's limits could not be read.
    #[error(transparent)]
    Limits(#[from] TopologyError),
}

/// The machine that this runs on, as the calling thread may use it. On Linux, control groups are read as
/// [`sysfs`](super::sysfs) does, as hwloc does not know quotas.
///
/// # Errors
/// [`HwlocError`]; [`Topology::detect`] does without the library.
pub fn detect() -> Result<Topology, HwlocError> {
    let machine = Machine::new().map_err(load_error)?;
    // HWLOC_SYNTHETIC and HWLOC_XMLFILE in the environment replace the machine by another, to which no mask applies.
    let here = machine.is_this_system();
    let limits = if here && cfg!(target_os = "linux") { cgroup::limits(Tree::new("/".as_ref()))? } else { Limits::default() };
    let affinity = if here { pin::affinity() } else { None };
    Ok(described(&machine, affinity.as_ref(), &limits)?)
}

/// A machine that is not there, from hwloc's description of it: `pack:2 [numa] core:4 pu:2`.
///
/// # Errors
/// [`HwlocError::Description`] if it is none.
pub fn synthetic(description: &str) -> Result<Topology, HwlocError> {
    let wrong = |_: StringInputError| HwlocError::Description { description: description.to_owned() };
    let machine = Machine::builder().from_synthetic(description).map_err(wrong)?.build().map_err(load_error)?;
    Ok(described(&machine, None, &Limits::default())?)
}

fn load_error(error: hwlocality::errors::RawHwlocError) -> HwlocError {
    HwlocError::Load { call: error.api, errno: error.errno.map(|errno| errno.0) }
}

fn described(machine: &Machine, affinity: Option<&CpuSet>, limits: &Limits) -> Result<Topology, TopologyError> {
    let cores = cores(machine);
    let online: CpuSet = cores.iter().flat_map(|core| core.threads.iter()).collect();
    let masks = [affinity, limits.cpus.as_ref()];
    let allowed = masks.into_iter().flatten().fold(online.clone(), |allowed, mask| allowed.intersection(mask));
    if allowed.is_empty() {
        return Err(TopologyError::NoCpu { online });
    }
    let mut nodes: Vec<NodeId> = machine.objects_with_type(ObjectType::NUMANode).filter_map(number).map(NodeId).collect();
    nodes.sort_unstable();
    Ok(Topology { source: Source::Hwloc, nodes, cores, allowed, quota: limits.quota })
}

/// The cores, ascending by their lowest CPU. A CPU outside any core is one.
fn cores(machine: &Machine) -> Vec<Core> {
    let kinds = kinds(machine);
    let mut cores: BTreeMap<u64, Core> = BTreeMap::new();
    for thread in machine.objects_with_type(ObjectType::PU) {
        let Some(cpu) = number(thread) else { continue };
        let whole = thread.first_ancestor_with_type(ObjectType::Core).unwrap_or(thread);
        let core = || Core {
            threads: CpuSet::new(),
            node: nearest_node(machine, thread),
            package: thread.first_ancestor_with_type(ObjectType::Package).and_then(number).unwrap_or(0),
            cache: last_level_cache(thread),
            kind: kinds.get(&cpu).copied().unwrap_or(0),
        };
        cores.entry(whole.global_persistent_index()).or_insert_with(core).threads.insert(cpu);
    }
    let mut cores: Vec<Core> = cores.into_values().collect();
    cores.sort_by_key(|core| core.threads.first());
    cores
}

/// Of the nodes next to a CPU, the one with the fewest others beside it. With two alike (memory of two kinds in one
/// package), the lower number: systems number ordinary memory first.
fn nearest_node(machine: &Machine, thread: &TopologyObject) -> NodeId {
    let beside = |node: &TopologyObject| node.cpuset().and_then(|cpus| cpus.weight()).unwrap_or(usize::MAX);
    let here = |node: &&TopologyObject| thread.nodeset().zip(node.nodeset()).is_some_and(|(all, node)| all.includes(node));
    let nodes = machine.objects_with_type(ObjectType::NUMANode).filter(here);
    NodeId(nodes.filter_map(|node| Some((beside(node), number(node)?))).min().map_or(0, |(_, node)| node))
}

/// The lowest CPU below the last-level cache, or below the package or machine that takes its place.
fn last_level_cache(thread: &TopologyObject) -> u32 {
    let cache = thread.ancestors().filter(|above| above.object_type().is_cpu_data_cache()).last();
    let around = cache.or_else(|| thread.first_ancestor_with_type(ObjectType::Package)).or_else(|| thread.ancestors().last());
    let lowest = around.and_then(TopologyObject::cpuset).and_then(|cpus| cpus.first_set());
    lowest.and_then(|cpu| u32::try_from(usize::from(cpu)).ok()).unwrap_or(0)
}

/// The rank of each CPU's kind. Empty where hwloc cannot rank them.
fn kinds(machine: &Machine) -> BTreeMap<u32, u32> {
    let rank = |kind: &CpuKind<'_>| kind.efficiency.and_then(|rank| u32::try_from(rank).ok()).unwrap_or(0);
    let of = |kind: CpuKind<'_>| {
        let rank = rank(&kind);
        kind.cpuset.iter_set().filter_map(move |cpu| Some((u32::try_from(usize::from(cpu)).ok()?, rank))).collect::<Vec<_>>()
    };
    machine.cpu_kinds().map(|kinds| kinds.flat_map(of).collect()).unwrap_or_default()
}

fn number(object: &TopologyObject) -> Option<u32> {
    u32::try_from(object.os_index()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(description: &str) -> Machine {
        Machine::builder().from_synthetic(description).unwrap().build().unwrap()
    }

    fn hwloc_set(cpus: &str) -> hwlocality::cpu::cpuset::CpuSet {
        let mut set = hwlocality::cpu::cpuset::CpuSet::new();
        cpus.parse::<CpuSet>().unwrap().iter().for_each(|cpu| set.set(cpu as usize));
        set
    }

    #[test]
    fn kinds_of_core_come_over_with_the_fastest_last() {
        let mut machine = machine("pack:1 [numa] core:6 pu:1");
        machine.edit(|editor| {
            editor.register_cpu_kind(&hwloc_set("4-5"), Some(9), []).unwrap();
            editor.register_cpu_kind(&hwloc_set("0-3"), Some(3), []).unwrap();
        });
        let topology = described(&machine, None, &Limits::default()).unwrap();
        assert_eq!(topology.cores.iter().map(|core| core.kind).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn masks_and_limits_apply_as_they_do_to_sysfs() {
        let machine = machine("pack:2 [numa] core:2 pu:2");
        let limits = Limits { cpus: "2-6".parse().ok(), quota: Some(super::super::CpuQuota { milli_cpus: 2_500 }), nodes: None };
        let topology = described(&machine, "0-4".parse().ok().as_ref(), &limits).unwrap();
        assert_eq!((topology.allowed.to_string(), topology.quota), ("2-4".to_owned(), limits.quota));
        let nothing = described(&machine, Some(&CpuSet::from(99)), &limits);
        assert_eq!(nothing, Err(TopologyError::NoCpu { online: "0-7".parse().unwrap() }));
    }
}
