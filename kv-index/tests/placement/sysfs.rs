//! The files of Linux, whole and broken.

use std::io::ErrorKind;
use std::path::PathBuf;

use kv_index::lanes::topology::sysfs;
use kv_index::lanes::{Core, NodeId, PlacementOptions, Source, Topology, TopologyError, Wanted, place};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::machine::{Machine, Root, cpus};

fn read(root: &Root) -> Result<Topology, TopologyError> {
    sysfs::read(root.path(), None)
}

fn machines() -> Vec<Machine> {
    let mut with_memory = Machine::regular(2, 1, 2, 2);
    with_memory.memory_only_nodes = vec![2, 7];
    vec![
        Machine::regular(1, 1, 1, 1),
        Machine::regular(1, 1, 8, 2),
        Machine::regular(2, 1, 4, 2),
        Machine::regular(2, 4, 3, 1),
        Machine::big_little(4, 4),
        with_memory,
    ]
}

#[test]
fn every_machine_is_read_as_it_is() {
    for machine in machines() {
        let expected = Topology { source: Source::Sysfs, ..machine.topology() };
        assert_eq!(read(&machine.root()).unwrap(), expected);
    }
}

#[test]
fn offline_cpus_are_not_there_whatever_lists_name_them() {
    let root = Machine::regular(1, 1, 4, 2).root();
    root.write("sys/devices/system/cpu/online", &"0,2-5");
    let topology = read(&root).unwrap();
    let threads: Vec<_> = topology.cores.iter().map(|core| core.threads.to_string()).collect();
    assert_eq!(threads, ["0", "2-3", "4-5"]);
    assert_eq!(topology.allowed, cpus("0,2-5"));
}

#[test]
fn siblings_numbered_in_a_second_row_are_one_core() {
    let mut machine = Machine::regular(1, 1, 4, 1);
    for (cpu, core) in (0..).zip(&mut machine.cores) {
        core.threads.insert(cpu + 4);
    }
    let topology = read(&machine.root()).unwrap();
    let threads: Vec<_> = topology.cores.iter().map(|core| core.threads.to_string()).collect();
    assert_eq!(threads, ["0,4", "1,5", "2,6", "3,7"]);
}

#[test]
fn the_affinity_mask_is_respected_and_must_leave_something() {
    let root = Machine::regular(2, 1, 2, 1).root();
    let allowed = |mask: &str| sysfs::read(root.path(), Some(&cpus(mask))).map(|topology| topology.allowed);
    assert_eq!(allowed("1-2,99").unwrap(), cpus("1-2"));
    assert_eq!(allowed("99"), Err(TopologyError::NoCpu { online: cpus("0-3") }));
}

#[test]
fn a_kernel_that_tells_less_makes_a_coarser_machine() {
    let root = Root::new();
    root.write("sys/devices/system/cpu/online", &"0-1");
    let core = |cpu: u32| Core { threads: cpu.into(), node: NodeId(0), package: 0, cache: 0, kind: 0 };
    let expected = Topology {
        source: Source::Sysfs,
        nodes: vec![NodeId(0)],
        cores: vec![core(0), core(1)],
        allowed: cpus("0-1"),
        quota: None,
    };
    assert_eq!(read(&root).unwrap(), expected);
    root.write("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", &"0-1");
    root.write("sys/devices/system/cpu/cpu0/topology/physical_package_id", &"-1");
    assert_eq!(read(&root).unwrap().cores, [Core { threads: cpus("0-1"), ..core(0) }], "the older name of the file");
}

#[test]
fn without_caches_a_package_shares_one() {
    let root = Machine::regular(2, 1, 2, 1).root();
    let caches = || read(&root).unwrap().cores.iter().map(|core| core.cache).collect::<Vec<_>>();
    (0..4).for_each(|cpu| root.write(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/shared_cpu_list"), &""));
    assert_eq!(caches(), [0, 1, 2, 3], "the next cache, where the last does not say who shares it");
    (0..4).for_each(|cpu| root.remove(&format!("sys/devices/system/cpu/cpu{cpu}/cache")));
    assert_eq!(caches(), [0, 0, 2, 2]);
}

#[test]
fn intels_units_tell_kinds_where_capacities_do_not() {
    let root = Machine::regular(1, 1, 6, 1).root();
    (0..6).for_each(|cpu| root.remove(&format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity")));
    let kinds = || read(&root).unwrap().cores.iter().map(|core| core.kind).collect::<Vec<_>>();
    assert_eq!(kinds(), [0; 6]);
    root.write("sys/devices/cpu_core/cpus", &"0-1");
    root.write("sys/devices/cpu_atom/cpus", &"2-5");
    assert_eq!(kinds(), [1, 1, 0, 0, 0, 0]);
    root.write("sys/devices/cpu_lowpower/cpus", &"4-5");
    assert_eq!(kinds(), [2, 2, 1, 1, 0, 0]);
}

#[test]
fn cpus_of_a_node_without_memory_belong_to_the_nearest_with_some() {
    let root = Machine::regular(4, 1, 1, 1).root();
    root.write("sys/devices/system/node/has_memory", &"0,3");
    let topology = read(&root).unwrap();
    assert_eq!(topology.nodes, [NodeId(0), NodeId(3)]);
    assert_eq!(topology.cores.iter().map(|core| core.node.0).collect::<Vec<_>>(), [0, 0, 3, 3]);
    root.remove("sys/devices/system/node/node2/distance");
    assert_eq!(read(&root).unwrap().cores[2].node, NodeId(0), "the lowest, where no distance is known");
}

#[test]
fn a_process_without_any_memory_cannot_be() {
    let root = Machine::regular(2, 1, 1, 1).root();
    for nodes in ["", "5"] {
        root.write("sys/devices/system/node/has_memory", &nodes);
        assert_eq!(read(&root).unwrap().nodes, [NodeId(0), NodeId(1)], "such a file means something else");
    }
}

#[test]
fn what_is_broken_is_named_with_its_file() {
    let broken = |file: &str, text: &str| {
        let root = Machine::regular(2, 1, 2, 2).root();
        root.write(file, &text);
        let path: PathBuf = root.path().join(file);
        (read(&root).unwrap_err(), path)
    };
    for (file, text, expected) in [
        ("sys/devices/system/cpu/online", "all", "a list of numbers such as 0-3,8"),
        ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0-99999999", "a list of numbers such as 0-3,8"),
        ("sys/devices/system/cpu/cpu0/topology/physical_package_id", "", "a number"),
        ("sys/devices/system/cpu/cpu0/cache/index3/level", "three", "a number"),
        ("sys/devices/system/cpu/cpu7/cpu_capacity", "0x400", "a number"),
        ("sys/devices/system/node/node1/cpulist", "4-", "a list of numbers such as 0-3,8"),
    ] {
        let (error, path) = broken(file, text);
        assert_eq!(error, TopologyError::Malformed { path, expected, found: text.to_owned() });
    }
    for (file, text, cpu) in [
        ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "1-2", 2),
        ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "3", 2),
        ("sys/devices/system/node/node1/cpulist", "3-7", 3),
    ] {
        let (error, path) = broken(file, text);
        assert_eq!(error, TopologyError::Contradiction { path, cpu });
    }
}

#[test]
fn a_file_that_is_none_or_too_large_is_named() {
    let root = Machine::regular(1, 1, 1, 1).root();
    let online = root.path().join("sys/devices/system/cpu/online");
    root.write_bytes("sys/devices/system/cpu/online", &vec![b'0'; 5 << 20]);
    assert_eq!(read(&root), Err(TopologyError::TooLarge { path: online.clone(), max: 4 << 20 }));
    root.remove("sys/devices/system/cpu/online");
    assert_eq!(read(&root), Err(TopologyError::Unreadable { path: online.clone(), kind: ErrorKind::NotFound }));
    std::fs::create_dir(&online).unwrap();
    assert_eq!(read(&root), Err(TopologyError::Unreadable { path: online, kind: ErrorKind::IsADirectory }));
}

#[test]
fn no_file_makes_it_panic() {
    let mut machine = Machine::regular(1, 2, 1, 2);
    machine.memory_only_nodes = vec![2];
    let root = machine.root();
    root.write("proc/self/cgroup", &"0::/here");
    root.write("proc/self/mountinfo", &"30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
    root.write("sys/fs/cgroup/here/cpu.max", &"max 100000");
    root.write("sys/fs/cgroup/here/cpuset.mems.effective", &"0-2");
    assert!(read(&root).is_ok());
    let content =
        prop_oneof![proptest::collection::vec(any::<u8>(), 0..40), "[-0-9, maxmin:/]{0,12}".prop_map(String::into_bytes)];
    let mut runner = TestRunner::new(ProptestConfig::with_cases(200));
    let result = runner.run(&(0..FILES.len(), content), |(file, content)| {
        let whole = std::fs::read(root.path().join(FILES[file])).unwrap();
        root.write_bytes(FILES[file], &content);
        let topology = read(&root);
        root.write_bytes(FILES[file], &whole);
        if let Ok(topology) = topology {
            prop_assert!(!topology.allowed.is_empty());
            prop_assert!(place(&topology, Wanted::Sensible, &PlacementOptions::default()).is_ok());
        }
        Ok(())
    });
    result.unwrap();
}

const FILES: [&str; 13] = [
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id",
    "sys/devices/system/cpu/cpu0/cpu_capacity",
    "sys/devices/system/cpu/cpu0/cache/index2/level",
    "sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list",
    "sys/devices/system/node/online",
    "sys/devices/system/node/has_memory",
    "sys/devices/system/node/node0/cpulist",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "sys/fs/cgroup/here/cpu.max",
    "sys/fs/cgroup/here/cpuset.mems.effective",
];
