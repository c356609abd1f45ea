//! A machine as Linux describes it under `/sys` and `/proc`.
//!
//! | what | from |
//! |---|---|
//! | CPUs | `/sys/devices/system/cpu/online` |
//! | cores, packages | `cpuN/topology/core_cpus_list` (`thread_siblings_list` before Linux 5.3), `physical_package_id` |
//! | shared caches | `cpuN/cache/indexM/{level, shared_cpu_list}` |
//! | kinds of core | `cpuN/cpu_capacity`; else Intel's `/sys/devices/{cpu_core, cpu_atom, cpu_lowpower}/cpus` |
//! | memory nodes | `/sys/devices/system/node/{online, has_memory}`, `nodeN/{cpulist, distance}` |
//! | cpuset, quota | `/proc/self/{cgroup, mountinfo}` and the control groups, version 1 and 2, that they lead to |
//!
//! A file that is not there makes the description coarser: without caches, a package shares one; without nodes, there is
//! one. A file that cannot be read or understood is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::cgroup::{self, Limits};
use super::tree::Tree;
use super::{Core, NodeId, Source, Topology, TopologyError};
use crate::lanes::CpuSet;
use crate::limits::CACHES_MAX;

/// The machine described by `sys` and `proc` below `root`, which is `/` for this one, for a thread that may run on
/// `affinity`, or everywhere.
///
/// # Errors
/// A [`TopologyError`] with the file that is to blame.
pub fn read(root: &Path, affinity: Option<&CpuSet>) -> Result<Topology, TopologyError> {
    let tree = Tree::new(root);
    let online = online_cpus(tree)?;
    let limits = cgroup::limits(tree)?;
    let (nodes, node_of) = memory_nodes(tree, &online, limits.nodes.as_ref())?;
    let cores = cores(tree, &online, &node_of)?;
    let allowed = allowed(&online, affinity, &limits)?;
    Ok(Topology { source: Source::Sysfs, nodes, cores, allowed, quota: limits.quota })
}

fn online_cpus(tree: Tree<'_>) -> Result<CpuSet, TopologyError> {
    let file = "sys/devices/system/cpu/online";
    let missing = || TopologyError::Unreadable { path: tree.path(file), kind: std::io::ErrorKind::NotFound };
    tree.list(file)?.ok_or_else(missing)
}

fn allowed(online: &CpuSet, affinity: Option<&CpuSet>, limits: &Limits) -> Result<CpuSet, TopologyError> {
    let masks = [affinity, limits.cpus.as_ref()];
    let allowed = masks.into_iter().flatten().fold(online.clone(), |allowed, mask| allowed.intersection(mask));
    if allowed.is_empty() { Err(TopologyError::NoCpu { online: online.clone() }) } else { Ok(allowed) }
}

/// The nodes that this process may take memory from, and the node of each CPU.
///
/// A CPU on a node without such memory (none is plugged in, or the cpuset denies it) gets the nearest node that has some: that is where
/// the kernel takes its memory from.
fn memory_nodes(
    tree: Tree<'_>,
    online: &CpuSet,
    granted: Option<&CpuSet>,
) -> Result<(Vec<NodeId>, BTreeMap<u32, NodeId>), TopologyError> {
    let Some(all) = tree.list("sys/devices/system/node/online")?.filter(|all| !all.is_empty()) else {
        return Ok((vec![NodeId(0)], online.iter().map(|cpu| (cpu, NodeId(0))).collect()));
    };
    let memory = nodes_with_memory(tree, &all, granted)?;
    let mut node_of = BTreeMap::new();
    for node in all.iter() {
        let file = format!("sys/devices/system/node/node{node}/cpulist");
        let cpus = tree.list(&file)?.unwrap_or_default();
        let home = if memory.contains(node) { node } else { nearest(tree, node, &all, &memory)? };
        for cpu in cpus.iter() {
            if node_of.insert(cpu, NodeId(home)).is_some() {
                return Err(TopologyError::Contradiction { path: tree.path(&file), cpu });
            }
        }
    }
    let lowest = NodeId(memory.first().unwrap_or(0));
    online.iter().for_each(|cpu| _ = node_of.entry(cpu).or_insert(lowest));
    Ok((memory.iter().map(NodeId).collect(), node_of))
}

/// Never empty, as `all` is not.
fn nodes_with_memory(tree: Tree<'_>, all: &CpuSet, granted: Option<&CpuSet>) -> Result<CpuSet, TopologyError> {
    let plugged = tree.list("sys/devices/system/node/has_memory")?;
    let mut nodes = all.clone();
    for mask in [plugged.as_ref(), granted].into_iter().flatten() {
        let fewer = nodes.intersection(mask);
        // A process without any memory cannot be: the file is wrong or means something else.
        if !fewer.is_empty() {
            nodes = fewer;
        }
    }
    Ok(nodes)
}

/// The node of `memory` with the least distance from `node`. The file has one number for each online node, in order.
fn nearest(tree: Tree<'_>, node: u32, all: &CpuSet, memory: &CpuSet) -> Result<u32, TopologyError> {
    let numbers = |text: &str| text.split_whitespace().map(|number| number.parse::<u32>().ok()).collect::<Option<Vec<_>>>();
    let file = format!("sys/devices/system/node/node{node}/distance");
    let distances = tree.parsed(&file, "distances such as 10 21", numbers)?.unwrap_or_default();
    let known = all.iter().zip(distances).filter(|&(other, _)| memory.contains(other));
    Ok(known.min_by_key(|&(other, distance)| (distance, other)).map_or(memory.first().unwrap_or(node), |(other, _)| other))
}

fn cores(tree: Tree<'_>, online: &CpuSet, node_of: &BTreeMap<u32, NodeId>) -> Result<Vec<Core>, TopologyError> {
    let kinds = kinds(tree, online)?;
    let mut packages = BTreeMap::new();
    let (mut cores, mut placed) = (Vec::new(), CpuSet::new());
    for cpu in online.iter() {
        if placed.contains(cpu) {
            continue;
        }
        let threads = threads(tree, cpu, online, &placed)?;
        placed.extend(threads.iter());
        let package = package(tree, cpu)?;
        let first_of_package = *packages.entry(package).or_insert(cpu);
        let cache = last_level_cache(tree, cpu)?.unwrap_or(first_of_package);
        cores.push(Core { threads, node: node_of[&cpu], package, cache, kind: kinds[&cpu] });
    }
    Ok(cores)
}

/// The online threads of `cpu`'s core, of which `cpu` must be the lowest and none may be `placed` already.
fn threads(tree: Tree<'_>, cpu: u32, online: &CpuSet, placed: &CpuSet) -> Result<CpuSet, TopologyError> {
    for name in ["core_cpus_list", "thread_siblings_list"] {
        let file = format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}");
        let Some(threads) = tree.list(&file)? else { continue };
        let threads = threads.intersection(online);
        let alone = threads.intersection(placed).is_empty();
        return if alone && threads.contains(cpu) {
            Ok(threads)
        } else {
            Err(TopologyError::Contradiction { path: tree.path(&file), cpu })
        };
    }
    Ok(CpuSet::from(cpu))
}

/// Machines that number no packages say -1, and are taken to have one.
fn package(tree: Tree<'_>, cpu: u32) -> Result<u32, TopologyError> {
    let file = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
    Ok(tree.number(&file)?.and_then(|package| u32::try_from(package).ok()).unwrap_or(0))
}

/// The lowest CPU that shares `cpu`'s last-level cache.
fn last_level_cache(tree: Tree<'_>, cpu: u32) -> Result<Option<u32>, TopologyError> {
    let mut last = None;
    for index in 0..CACHES_MAX {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
        let Some(level) = tree.number(&format!("{folder}/level"))? else { break };
        let shared = tree.list(&format!("{folder}/shared_cpu_list"))?.unwrap_or_default();
        if let Some(lowest) = shared.first()
            && last.is_none_or(|(deepest, _)| level > deepest)
        {
            last = Some((level, lowest));
        }
    }
    Ok(last.map(|(_, lowest)| lowest))
}

/// The rank of each online CPU's kind of core.
fn kinds(tree: Tree<'_>, online: &CpuSet) -> Result<BTreeMap<u32, u32>, TopologyError> {
    let speeds = match capacities(tree, online)? {
        Some(capacities) => capacities,
        None => intel_kinds(tree, online)?,
    };
    let ranks = ranks(speeds.values().copied().collect());
    Ok(speeds.into_iter().map(|(cpu, speed)| (cpu, ranks[&speed])).collect())
}

/// The kernel's measure of each CPU, the fastest of which has 1,024. None where it does not measure all of them.
fn capacities(tree: Tree<'_>, online: &CpuSet) -> Result<Option<BTreeMap<u32, u32>>, TopologyError> {
    let mut capacities = BTreeMap::new();
    for cpu in online.iter() {
        let capacity = tree.number(&format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"))?;
        let Some(capacity) = capacity.and_then(|capacity| u32::try_from(capacity).ok()) else { return Ok(None) };
        capacities.insert(cpu, capacity);
    }
    Ok(Some(capacities))
}

/// Intel's hybrid processors have a performance monitoring unit for each kind of core. Only their order is known, so
/// the numbers are far enough apart to stay kinds of their own.
fn intel_kinds(tree: Tree<'_>, online: &CpuSet) -> Result<BTreeMap<u32, u32>, TopologyError> {
    let mut speeds: BTreeMap<u32, u32> = online.iter().map(|cpu| (cpu, 1_024)).collect();
    for (unit, speed) in [("cpu_core", 1_024), ("cpu_atom", 512), ("cpu_lowpower", 256)] {
        let cpus = tree.list(&format!("sys/devices/{unit}/cpus"))?.unwrap_or_default();
        cpus.intersection(online).iter().for_each(|cpu| _ = speeds.insert(cpu, speed));
    }
    Ok(speeds)
}

/// Ranks speeds from 0. A speed is of the next faster one's kind unless it is less than 7/8 of that kind's fastest: cores of one
/// design are clocked a few per cent apart, designs differ by more (little cores have 1/4 to 3/4 of a big one).
fn ranks(speeds: BTreeSet<u32>) -> BTreeMap<u32, u32> {
    let mut kinds: Vec<Vec<u32>> = Vec::new();
    for speed in speeds.into_iter().rev() {
        match kinds.last_mut() {
            Some(kind) if u64::from(speed) * 8 >= u64::from(kind[0]) * 7 => kind.push(speed),
            _ => kinds.push(vec![speed]),
        }
    }
    (0..).zip(kinds.into_iter().rev()).flat_map(|(rank, kind)| kind.into_iter().map(move |speed| (speed, rank))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_bins_are_one_kind_and_designs_are_several() {
        let kinds = |speeds: &[u32]| ranks(speeds.iter().copied().collect()).into_values().collect::<Vec<_>>();
        assert_eq!(kinds(&[1_024]), [0]);
        assert_eq!(kinds(&[0]), [0]);
        assert_eq!(kinds(&[980, 1_024]), [0, 0]);
        assert_eq!(kinds(&[300, 980, 1_024]), [0, 1, 1]);
        assert_eq!(kinds(&[250, 446, 1_024]), [0, 1, 2]);
        assert_eq!(kinds(&[800, 900, 1_024]), [0, 1, 1], "against the kind's fastest, or a slope would be one kind");
    }
}
