//! What the control groups (version 1 and 2) of this process allow: CPUs, memory nodes, CPU time.

use super::tree::Tree;
use super::{CpuQuota, TopologyError};
use crate::lanes::CpuSet;

/// None where nothing is limited.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) cpus: Option<CpuSet>,
    pub(super) nodes: Option<CpuSet>,
    pub(super) quota: Option<CpuQuota>,
}

/// Goes from the groups that `/proc/self/cgroup` names up to where each hierarchy is mounted: a group has its
/// ancestors' limits too.
pub(super) fn limits(tree: Tree<'_>) -> Result<Limits, TopologyError> {
    let memberships = tree.text("proc/self/cgroup")?.unwrap_or_default();
    let mounts = tree.text("proc/self/mountinfo")?.unwrap_or_default();
    let mut limits = Limits::default();
    for mount in mounts.lines().filter_map(Mount::parse) {
        for folder in mount.folders(&memberships) {
            limits.tighten(tree, &mount, &folder)?;
        }
    }
    Ok(limits)
}

impl Limits {
    fn tighten(&mut self, tree: Tree<'_>, mount: &Mount<'_>, folder: &str) -> Result<(), TopologyError> {
        let (quota, cpus, nodes) = match mount.version {
            Version::One => (quota_1(tree, folder)?, "cpuset.effective_cpus", "cpuset.effective_mems"),
            Version::Two => (quota_2(tree, folder)?, "cpuset.cpus.effective", "cpuset.mems.effective"),
        };
        self.quota = self.quota.into_iter().chain(quota).min();
        for (name, limit) in [(cpus, &mut self.cpus), (nodes, &mut self.nodes)] {
            // The nearest group that says something has taken its ancestors into account.
            if limit.is_none() {
                *limit = tree.list(&format!("{folder}/{name}"))?.filter(|list| !list.is_empty());
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A hierarchy of control groups, as a line of `mountinfo` says.
struct Mount<'a> {
    version: Version,
    /// Which group is at `folder`: `/` unless part of a hierarchy is mounted, as in containers.
    root: &'a str,
    folder: &'a str,
    /// Among others, the controllers of a hierarchy of version 1.
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// `30 23 0:26 ROOT FOLDER rw,nosuid - cgroup cgroup OPTIONS`, with any number of fields before the dash.
    fn parse(line: &'a str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut kind = kind.split(' ');
        let version = match kind.next()? {
            "cgroup" => Version::One,
            "cgroup2" => Version::Two,
            _ => return None,
        };
        Some(Self { version, root: place.next()?, folder: place.next()?, options: kind.nth(1)? })
    }

    /// The folders of this process's group and of all groups above it in this mount, the nearest first.
    fn folders(&self, memberships: &str) -> Vec<String> {
        let Some(group) = memberships.lines().find_map(|line| self.group(line)) else { return Vec::new() };
        let mut inside = group.strip_prefix(self.root).filter(|inside| self.is_group(inside)).unwrap_or("").trim_matches('/');
        let mut folders = Vec::new();
        while !inside.is_empty() {
            folders.push(format!("{}/{inside}", self.folder));
            inside = inside.rsplit_once('/').map_or("", |(above, _)| above);
        }
        folders.push(self.folder.to_owned());
        folders
    }

    /// The group in `ID:CONTROLLERS:GROUP`, if it is of this hierarchy. Version 2 has no controllers there.
    fn group<'m>(&self, line: &'m str) -> Option<&'m str> {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let here = match self.version {
            Version::Two => controllers.is_empty(),
            Version::One => controllers.split(',').any(|name| self.options.split(',').any(|option| option == name)),
        };
        here.then_some(group)
    }

    /// Whether what stands after the mounted root is the rest of a path, and does not leave the mount: a process seen
    /// from another namespace has `..` in it.
    fn is_group(&self, inside: &str) -> bool {
        (self.root.ends_with('/') || inside.is_empty() || inside.starts_with('/')) && !inside.split('/').any(|name| name == "..")
    }
}

/// `cpu.cfs_quota_us`, -1 for none, of `cpu.cfs_period_us`.
fn quota_1(tree: Tree<'_>, folder: &str) -> Result<Option<CpuQuota>, TopologyError> {
    let quota = tree.number(&format!("{folder}/cpu.cfs_quota_us"))?;
    let period = tree.number(&format!("{folder}/cpu.cfs_period_us"))?;
    Ok(quota.zip(period).and_then(|(quota, period)| ratio(quota.try_into().ok()?, period.try_into().ok()?)))
}

/// `cpu.max`: `250000 100000`, or `max 100000` for none.
fn quota_2(tree: Tree<'_>, folder: &str) -> Result<Option<CpuQuota>, TopologyError> {
    let parse = |text: &str| {
        let (quota, period) = text.trim().split_once(' ')?;
        let period: u64 = period.parse().ok()?;
        if quota == "max" { Some(None) } else { ratio(quota.parse().ok()?, period).map(Some) }
    };
    Ok(tree.parsed(&format!("{folder}/cpu.max"), "a quota such as 250000 100000 or max 100000", parse)?.flatten())
}

fn ratio(quota: u64, period: u64) -> Option<CpuQuota> {
    quota.checked_mul(1_000)?.checked_div(period).map(|milli_cpus| CpuQuota { milli_cpus })
}
