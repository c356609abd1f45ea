//! Plans as they are printed.

use std::num::NonZeroUsize;

use kv_index::lanes::{CpuQuota, PlacementError, PlacementOptions, Topology, Wanted, place};

use crate::machine::{Machine, cpus};

fn sensible(topology: &Topology) -> String {
    place(topology, Wanted::Sensible, &PlacementOptions::default()).unwrap().to_string()
}

fn lanes(topology: &Topology, lanes: usize, options: &PlacementOptions) -> String {
    place(topology, Wanted::Lanes(NonZeroUsize::new(lanes).unwrap()), options).unwrap().to_string()
}

fn shards_max(shards: usize) -> PlacementOptions {
    PlacementOptions { shards_max: NonZeroUsize::new(shards).unwrap(), ..PlacementOptions::default() }
}

fn reader_cores(cores: usize) -> PlacementOptions {
    PlacementOptions { reader_cores: Some(cores), ..PlacementOptions::default() }
}

fn quota(milli_cpus: u64, topology: Topology) -> Topology {
    Topology { quota: Some(CpuQuota { milli_cpus }), ..topology }
}

#[test]
fn one_socket_gives_half_its_cores_to_lanes() {
    let expected = "\
4 lanes on 1 shard
shard 0 on node 0: lanes 0-3 on CPUs 0, 2, 4, 6
readers on CPUs 8-15";
    assert_eq!(sensible(&Machine::regular(1, 1, 8, 2).topology()), expected);
}

#[test]
fn of_three_cores_two_carry_lanes() {
    let plan = place(&Machine::regular(1, 1, 3, 1).topology(), Wanted::Sensible, &PlacementOptions::default()).unwrap();
    assert_eq!((plan.lanes.len(), plan.readers), (2, cpus("2")));
}

#[test]
fn two_sockets_have_a_shard_and_eight_lanes_each() {
    let two = Machine::regular(2, 1, 32, 2).topology();
    assert_eq!(two.to_string(), "memory nodes: 2, packages: 2, cores: 64, CPUs: 128 (as given)");
    let expected = "\
16 lanes on 2 shards
shard 0 on node 0: lanes 0-7 on CPUs 0, 2, 4, 6, 8, 10, 12, 14
shard 1 on node 1: lanes 8-15 on CPUs 64, 66, 68, 70, 72, 74, 76, 78
readers on CPUs 16-63,80-127";
    assert_eq!(sensible(&two), expected);
    let expected = "\
3 lanes on 2 shards
shard 0 on node 0: lanes 0-1 on CPUs 0, 2
shard 1 on node 1: lane 2 on CPU 64
readers on CPUs 4-63,66-127";
    assert_eq!(lanes(&two, 3, &PlacementOptions::default()), expected);
    let expected = "\
1 lane on 1 shard
shard 0 on node 0: lane 0 on CPU 0
readers on CPUs 2-127
note: no shard on node 1: no lane is left";
    assert_eq!(lanes(&two, 1, &PlacementOptions::default()), expected);
}

#[test]
fn sub_numa_clusters_have_a_shard_each_unless_fewer_are_wanted() {
    let snc = Machine::regular(2, 4, 4, 1).topology();
    let expected = "\
16 lanes on 8 shards
shard 0 on node 0: lanes 0-1 on CPUs 0, 1
shard 1 on node 1: lanes 2-3 on CPUs 4, 5
shard 2 on node 2: lanes 4-5 on CPUs 8, 9
shard 3 on node 3: lanes 6-7 on CPUs 12, 13
shard 4 on node 4: lanes 8-9 on CPUs 16, 17
shard 5 on node 5: lanes 10-11 on CPUs 20, 21
shard 6 on node 6: lanes 12-13 on CPUs 24, 25
shard 7 on node 7: lanes 14-15 on CPUs 28, 29
readers on CPUs 2-3,6-7,10-11,14-15,18-19,22-23,26-27,30-31";
    assert_eq!(sensible(&snc), expected);
    let expected = "\
8 lanes on 2 shards
shard 0 on node 0: lanes 0-3 on CPUs 0, 1, 2, 3
shard 1 on node 4: lanes 4-7 on CPUs 16, 17, 18, 19
readers on CPUs 4-15,20-31
note: 8 lanes, not 9: the other cores are on nodes without a shard
note: no shard on nodes 1-3,5-7: there are as many shards as wanted";
    assert_eq!(lanes(&snc, 9, &shards_max(2)), expected, "one of each package");
}

#[test]
fn big_cores_carry_the_lanes_and_share_themselves_with_readers() {
    let machine = Machine::big_little(4, 4).topology();
    assert_eq!(machine.to_string(), "memory nodes: 1, packages: 1, cores: 8, CPUs: 8, kinds of core: 2 (as given)");
    let expected = "\
2 lanes on 1 shard
shard 0 on node 0: lanes 0-1 on CPUs 0, 1
readers on CPUs 2-7";
    assert_eq!(sensible(&machine), expected);
    let expected = "\
6 lanes on 1 shard
shard 0 on node 0: lanes 0-5 on CPUs 0, 1, 2, 3, 4, 5
readers on CPUs 6-7";
    assert_eq!(lanes(&machine, 6, &PlacementOptions::default()), expected);
}

#[test]
fn little_cores_that_come_first_come_last_unless_kinds_do_not_matter() {
    let mut machine = Machine::big_little(4, 4).topology();
    machine.cores.iter_mut().for_each(|core| core.kind = 1 - core.kind);
    let expected = "\
2 lanes on 1 shard
shard 0 on node 0: lanes 0-1 on CPUs 4, 5
readers on CPUs 0-3,6-7";
    assert_eq!(sensible(&machine), expected);
    let alike = PlacementOptions { prefer_fast_cores: false, ..PlacementOptions::default() };
    let plan = place(&machine, Wanted::Sensible, &alike).unwrap();
    assert_eq!(plan.lanes.iter().map(|lane| lane.cpus.to_string()).collect::<Vec<_>>(), ["0", "1", "2", "3"]);
}

#[test]
fn a_container_of_two_cores_has_a_lane_and_a_reader() {
    let container = Topology { allowed: cpus("34-35"), ..Machine::regular(2, 1, 32, 1).topology() };
    let container = quota(2_000, container);
    let described = "memory nodes: 2, packages: 2, cores: 64, CPUs: 64, allowed: 34-35, quota: 2 CPUs (as given)";
    assert_eq!(container.to_string(), described);
    let expected = "\
1 lane on 1 shard
shard 0 on node 1: lane 0 on CPU 34
readers on CPU 35
note: no shard on node 0: no CPU there is allowed";
    assert_eq!(sensible(&container), expected);
    let expected = "\
2 lanes on 1 shard
shard 0 on node 1: lanes 0-1 on CPUs 34, 35
readers on the lanes' CPUs
note: 2 lanes, not 4: each core has one
note: no shard on node 0: no CPU there is allowed";
    assert_eq!(lanes(&container, 4, &PlacementOptions::default()), expected);
}

#[test]
fn a_share_of_a_large_machine_is_pinned_to_a_node_and_not_to_its_first_cpus() {
    let share = quota(4_500, Machine::regular(2, 1, 32, 2).topology());
    let expected = "\
2 lanes on 1 shard
shard 0 on node 0: lanes 0-1 on CPUs 0-63
readers on CPUs 0-127
note: others use the 128 allowed CPUs too, as the quota is 4.5 CPUs: no lane is kept on one
note: no shard on node 1: the CPU quota fills no more nodes";
    assert_eq!(sensible(&share), expected);
    let expected = "\
4 lanes on 1 shard
shard 0 on node 0: lanes 0-3 on CPUs 0-63
readers on CPUs 0-127
note: others use the 128 allowed CPUs too, as the quota is 4.5 CPUs: no lane is kept on one
note: 4 lanes, not 8: the CPU quota allows no more
note: no shard on node 1: the CPU quota fills no more nodes";
    assert_eq!(lanes(&share, 8, &PlacementOptions::default()), expected);
    let larger = place(&quota(40_000, share), Wanted::Sensible, &PlacementOptions::default()).unwrap();
    assert_eq!((larger.shards.len(), larger.lanes.len()), (2, 16));
}

#[test]
fn a_quota_below_one_cpu_still_has_a_lane() {
    let expected = "\
1 lane on 1 shard
shard 0 on node 0: lane 0 on CPUs 0-1
readers on CPUs 0-1
note: others use the 2 allowed CPUs too, as the quota is 0.3 CPUs: no lane is kept on one";
    let small = quota(300, Machine::regular(1, 1, 2, 1).topology());
    assert_eq!(sensible(&small), expected);
    assert_eq!(place(&small, Wanted::Sensible, &reader_cores(1)).unwrap().to_string(), expected);
}

#[test]
fn one_cpu_is_for_the_lane_and_the_readers() {
    let expected = "\
1 lane on 1 shard
shard 0 on node 0: lane 0 on CPU 0
readers on the lanes' CPUs";
    assert_eq!(sensible(&Machine::regular(1, 1, 1, 1).topology()), expected);
}

#[test]
fn memory_without_cores_and_cores_without_permission_have_no_shard() {
    let mut machine = Machine::regular(2, 1, 2, 1);
    machine.memory_only_nodes = vec![2, 3];
    let machine = Topology { allowed: cpus("0-1"), ..machine.topology() };
    let expected = "\
1 lane on 1 shard
shard 0 on node 0: lane 0 on CPU 0
readers on CPU 1
note: no shard on node 1: no CPU there is allowed
note: no shard on nodes 2-3: no CPU stands there";
    assert_eq!(sensible(&machine), expected);
}

#[test]
fn siblings_carry_lanes_after_every_core_has_one_if_they_may() {
    let machine = Machine::regular(1, 1, 4, 2).topology();
    let expected = "\
4 lanes on 1 shard
shard 0 on node 0: lanes 0-3 on CPUs 0, 2, 4, 6
readers on the lanes' CPUs
note: 4 lanes, not 6: each core has one, and siblings are avoided";
    assert_eq!(lanes(&machine, 6, &PlacementOptions::default()), expected);
    let siblings = PlacementOptions { avoid_siblings: false, ..PlacementOptions::default() };
    let expected = "\
6 lanes on 1 shard
shard 0 on node 0: lanes 0-5 on CPUs 0, 2, 4, 6, 1, 3
readers on the lanes' CPUs";
    assert_eq!(lanes(&machine, 6, &siblings), expected);
    let expected = "\
4 lanes on 1 shard
shard 0 on node 0: lanes 0-3 on CPUs 0, 2, 1, 3
readers on CPUs 4-7
note: 4 lanes, not 6: the other cores are for readers";
    assert_eq!(lanes(&machine, 6, &PlacementOptions { reader_cores: Some(2), ..siblings }), expected);
}

#[test]
fn readers_get_their_cores_from_every_node_and_a_lane_stays() {
    let machine = Machine::regular(2, 1, 4, 1).topology();
    let expected = "\
5 lanes on 2 shards
shard 0 on node 0: lanes 0-2 on CPUs 0, 1, 2
shard 1 on node 1: lanes 3-4 on CPUs 4, 5
readers on CPUs 3,6-7";
    assert_eq!(place(&machine, Wanted::Sensible, &reader_cores(3)).unwrap().to_string(), expected);
    let expected = "\
1 lane on 1 shard
shard 0 on node 0: lane 0 on CPU 0
readers on CPUs 1-7
note: 1 lane, not 2: the other cores are for readers
note: 7 cores without a lane, not 8
note: no shard on node 1: no lane is left";
    assert_eq!(lanes(&machine, 2, &reader_cores(8)), expected);
}

#[test]
fn lanes_of_a_shard_stay_in_one_cache_as_long_as_they_fit() {
    let mut machine = Machine::regular(1, 1, 12, 1).topology();
    machine.cores.iter_mut().zip([0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8]).for_each(|(core, cache)| core.cache = cache);
    machine.allowed = cpus("2-11");
    let expected = "\
5 lanes on 1 shard
shard 0 on node 0: lanes 0-4 on CPUs 4, 5, 6, 7, 8
readers on CPUs 2-3,9-11";
    assert_eq!(sensible(&machine), expected, "the cache of which only two cores may be used comes last");
}

#[test]
fn an_unknown_layout_is_said() {
    let expected = "\
1 lane on 1 shard
shard 0 on node 0: lane 0 on CPU 0
readers on CPU 1
note: the machine's layout is unknown, every CPU is taken for a core";
    assert_eq!(sensible(&Topology { quota: None, ..Topology::flat(cpus("0-1"), None) }), expected);
}

#[test]
fn no_cpu_is_an_error_with_both_sides() {
    let machine = Topology { allowed: cpus("9"), ..Machine::regular(1, 1, 2, 2).topology() };
    let error = place(&machine, Wanted::Sensible, &PlacementOptions::default()).unwrap_err();
    assert_eq!(error, PlacementError::NoCpu { cores: 2, allowed: cpus("9") });
    assert_eq!(error.to_string(), "none of the machine's 2 cores has one of the allowed CPUs 9");
}
