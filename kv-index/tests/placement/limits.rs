//! Control groups of both versions, as processes on hosts and in containers find them.

use kv_index::lanes::topology::sysfs;
use kv_index::lanes::{CpuQuota, NodeId, Topology, TopologyError};

use crate::machine::{Machine, Root, cpus};

const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
const V1: &str = "\
31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:15 - cgroup cgroup rw,cpu,cpuacct
32 30 0:29 / /sys/fs/cgroup/cpuset rw,nosuid - cgroup cgroup rw,cpuset
33 30 0:30 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
24 1 254:0 / / rw,relatime - ext4 /dev/vda rw";

/// Two packages of four cores, and a process in `group` of hierarchies that are mounted so.
fn host(group: &str, mounts: &str) -> Root {
    let root = Machine::regular(2, 1, 4, 1).root();
    root.write("proc/self/cgroup", &group);
    root.write("proc/self/mountinfo", &mounts);
    root
}

fn read(root: &Root) -> Topology {
    sysfs::read(root.path(), None).unwrap()
}

fn milli_cpus(root: &Root) -> Option<u64> {
    read(root).quota.map(|quota| quota.milli_cpus)
}

#[test]
fn without_groups_or_limits_there_is_none() {
    let root = host("0::/user.slice", V2);
    assert_eq!((read(&root).quota, read(&root).allowed), (None, cpus("0-7")));
    root.write("sys/fs/cgroup/user.slice/cpu.max", &"max 100000");
    assert_eq!(milli_cpus(&root), None);
    root.remove("proc/self/mountinfo");
    root.remove("proc/self/cgroup");
    assert_eq!(milli_cpus(&root), None);
}

#[test]
fn version_2_takes_the_least_quota_up_to_the_mount() {
    let root = host("0::/a/b/c", V2);
    root.write("sys/fs/cgroup/a/b/c/cpu.max", &"400000 100000");
    assert_eq!(milli_cpus(&root), Some(4_000));
    root.write("sys/fs/cgroup/a/cpu.max", &"125000 50000");
    assert_eq!(milli_cpus(&root), Some(2_500));
    root.write("sys/fs/cgroup/other/cpu.max", &"1000 100000");
    root.write("cpu.max", &"1000 100000");
    assert_eq!(milli_cpus(&root), Some(2_500), "neither another group nor what is above the mount");
}

#[test]
fn version_1_finds_its_controllers_among_the_mounts() {
    let root = host("12:cpu,cpuacct:/box\n9:memory:/m\n3:cpuset:/set/inner", V1);
    root.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", &"-1");
    root.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", &"100000");
    assert_eq!(milli_cpus(&root), None);
    root.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", &"150000");
    root.write("sys/fs/cgroup/cpuset/set/cpuset.effective_cpus", &"2-5");
    root.write("sys/fs/cgroup/cpuset/set/inner/cpuset.effective_cpus", &"3-4");
    root.write("sys/fs/cgroup/cpuset/set/inner/cpuset.effective_mems", &"1");
    let topology = read(&root);
    assert_eq!(topology.quota, Some(CpuQuota { milli_cpus: 1_500 }));
    assert_eq!(topology.allowed, cpus("3-4"), "the nearest group's");
    assert_eq!(topology.nodes, [NodeId(1)]);
    assert!(topology.cores.iter().all(|core| core.node == NodeId(1)), "memory comes from the only node that is granted");
}

#[test]
fn a_cpuset_of_version_2_and_the_affinity_mask_both_count() {
    let root = host("0::/a/b", V2);
    root.write("sys/fs/cgroup/a/cpuset.cpus.effective", &"0-3");
    root.write("sys/fs/cgroup/a/b/cpuset.cpus.effective", &"");
    let topology = sysfs::read(root.path(), Some(&cpus("2-7"))).unwrap();
    assert_eq!(topology.allowed, cpus("2-3"));
}

#[test]
fn a_container_finds_its_group_at_the_mount() {
    // With the host's namespace, the process sees the host's path, and the mount says which group is at its root.
    let root = host("0::/docker/f00d", "30 23 0:26 /docker/f00d /sys/fs/cgroup ro - cgroup2 cgroup rw");
    root.write("sys/fs/cgroup/cpu.max", &"200000 100000");
    assert_eq!(milli_cpus(&root), Some(2_000));
    root.write("proc/self/cgroup", &"0::/docker/f00d/inner");
    root.write("sys/fs/cgroup/inner/cpu.max", &"100000 100000");
    assert_eq!(milli_cpus(&root), Some(1_000));
    // A sibling whose name begins the same is not below.
    root.write("proc/self/cgroup", &"0::/docker/f00d2/inner");
    root.write("sys/fs/cgroup/2/inner/cpu.max", &"1000 100000");
    assert_eq!(milli_cpus(&root), Some(2_000));
}

#[test]
fn a_group_outside_the_mount_does_not_lead_out_of_it() {
    let root = host("0::/../elsewhere", V2);
    root.write("sys/fs/cgroup/cpu.max", &"200000 100000");
    root.write("sys/fs/elsewhere/cpu.max", &"1000 100000");
    assert_eq!(milli_cpus(&root), Some(2_000));
}

#[test]
fn version_1_beside_version_2_takes_what_each_knows() {
    let mounts = format!("{V1}\n{}", V2.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"));
    let root = host("1:cpu:/\n0::/", &mounts);
    root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", &"300000");
    root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", &"100000");
    assert_eq!(milli_cpus(&root), Some(3_000));
    root.write("sys/fs/cgroup/unified/cpu.max", &"250000 100000");
    assert_eq!(milli_cpus(&root), Some(2_500));
}

#[test]
fn a_quota_that_is_none_is_named() {
    let root = host("0::/a", V2);
    for text in ["", "max", "1e5 100000", "100000 0", "-1 100000"] {
        root.write("sys/fs/cgroup/a/cpu.max", &text);
        let path = root.path().join("sys/fs/cgroup/a/cpu.max");
        let expected = "a quota such as 250000 100000 or max 100000";
        let error = TopologyError::Malformed { path, expected, found: text.to_owned() };
        assert_eq!(sysfs::read(root.path(), None), Err(error));
    }
}

#[test]
fn a_quota_is_rounded_down_and_never_to_nothing() {
    for (milli_cpus, whole) in [(1, 1), (999, 1), (1_000, 1), (2_500, 2), (2_999, 2), (3_000, 3)] {
        assert_eq!(CpuQuota { milli_cpus }.whole_cpus(), whole);
    }
}
