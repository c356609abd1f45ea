//! hwloc's synthetic machines are the same machines.

use kv_index::lanes::topology::hwloc::{self, HwlocError};
use kv_index::lanes::{NodeId, PlacementOptions, Source, Topology, Wanted, pin, place};

use crate::machine::Machine;

#[test]
fn synthetic_machines_are_the_machines_that_sysfs_describes() {
    for (description, machine) in [
        ("pack:1 [numa] l3:1 core:1 pu:1", Machine::regular(1, 1, 1, 1)),
        ("pack:1 [numa] l3:1 core:8 pu:2", Machine::regular(1, 1, 8, 2)),
        ("pack:2 [numa] l3:1 l2:16 core:1 pu:2", Machine::regular(2, 1, 16, 2)),
        ("pack:2 group:4 [numa] l3:1 core:3 pu:1", Machine::regular(2, 4, 3, 1)),
    ] {
        let expected = Topology { source: Source::Hwloc, ..machine.topology() };
        assert_eq!(hwloc::synthetic(description).unwrap(), expected, "{description}");
    }
}

#[test]
fn what_a_description_leaves_out_is_coarser() {
    let topology = hwloc::synthetic("node:2 core:4 pu:2").unwrap();
    assert_eq!(topology.nodes, [NodeId(0), NodeId(1)]);
    let cores: Vec<_> =
        topology.cores.iter().map(|core| (core.threads.to_string(), core.node.0, core.package, core.cache)).collect();
    let plan = place(&topology, Wanted::Sensible, &PlacementOptions::default()).unwrap();
    let expected = "\
4 lanes on 2 shards
shard 0 on node 0: lanes 0-1 on CPUs 0, 2
shard 1 on node 1: lanes 2-3 on CPUs 8, 10
readers on CPUs 4-7,12-15";
    assert_eq!(plan.to_string(), expected);
    assert_eq!(cores[3..5], [("6-7".to_owned(), 0, 0, 0), ("8-9".to_owned(), 1, 0, 0)]);
}

#[test]
fn memory_for_the_whole_machine_is_no_cpus_own() {
    // Node 0 is next to both packages, nodes 1 and 2 to one each.
    let topology = hwloc::synthetic("[numa] pack:2 [numa(indexes=1,2,0)] l3:1 core:2 pu:1").unwrap();
    assert_eq!(topology.nodes, [0, 1, 2].map(NodeId));
    assert_eq!(topology.cores.iter().map(|core| core.node.0).collect::<Vec<_>>(), [1, 1, 2, 2]);
}

#[test]
fn no_machine_is_named() {
    let description = "two sockets, please".to_owned();
    assert_eq!(hwloc::synthetic(&description), Err(HwlocError::Description { description }));
}

#[test]
fn this_machine_is_the_one_that_sysfs_describes() {
    let ours = Topology::detect();
    let Source::Sysfs = ours.source else {
        println!("skipped: {ours}");
        return;
    };
    let theirs = hwloc::detect().unwrap();
    assert_eq!((&theirs.source, theirs.quota), (&Source::Hwloc, ours.quota));
    assert_eq!(Some(&theirs.allowed), pin::affinity().as_ref());
    assert_eq!(theirs.allowed, ours.allowed);
    let usable = |topology: &Topology| {
        let threads = topology.cores.iter().map(|core| (core.threads.intersection(&topology.allowed), core.node, core.package));
        threads.filter(|core| !core.0.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(usable(&theirs), usable(&ours));
}
