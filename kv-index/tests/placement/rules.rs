//! What holds for every plan of every machine.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use kv_index::lanes::{Core, CpuQuota, CpuSet, Note, PlacementOptions, Plan, Topology, Wanted, place};
use kv_index::limits::LANES_PER_SHARD_SENSIBLE;
use proptest::prelude::*;

use crate::machine::Machine;

proptest! {
    #[test]
    fn every_plan_keeps_the_rules(topology in any_topology(), wanted in any_wanted(), options in any_options()) {
        let plan = place(&topology, wanted, &options).unwrap();
        assert_lanes(&topology, &plan);
        assert_shards(&plan, &options);
        assert_bounds(&topology, wanted, &options, &plan);
        assert_readers(&topology, &options, &plan);
        prop_assert_eq!(place(&topology, wanted, &options).unwrap(), plan, "the same question has the same answer");
    }
}

/// Every lane runs on allowed CPUs of its node; on one of its own, unless they are shared.
fn assert_lanes(topology: &Topology, plan: &Plan) {
    for lane in &plan.lanes {
        let of_node: CpuSet =
            topology.cores.iter().filter(|core| core.node == lane.node).flat_map(|core| core.threads.iter()).collect();
        assert!(!lane.cpus.is_empty() && lane.cpus.difference(&of_node.intersection(&topology.allowed)).is_empty());
    }
    if !is_shared(plan) {
        let cpus: BTreeSet<_> = plan.lanes.iter().map(|lane| lane.cpus.first()).collect();
        assert!(cpus.len() == plan.lanes.len() && plan.lanes.iter().all(|lane| lane.cpus.len() == 1));
    }
}

/// Shards are on different nodes, and their lanes are all lanes in order.
fn assert_shards(plan: &Plan, options: &PlacementOptions) {
    let nodes: BTreeSet<_> = plan.shards.iter().map(|shard| shard.node).collect();
    assert!(!plan.lanes.is_empty() && nodes.len() == plan.shards.len() && nodes.len() <= options.shards_max.get());
    let mut next = 0;
    for (number, shard) in plan.shards.iter().enumerate() {
        assert!(shard.lanes.start == next && !shard.lanes.is_empty());
        next = shard.lanes.end;
        assert!(plan.lanes[shard.lanes.clone()].iter().all(|lane| (lane.shard, lane.node) == (number, shard.node)));
    }
    assert_eq!(next, plan.lanes.len());
}

/// No more lanes than wanted, than the quota, than cores if siblings are avoided; and a note where there are fewer.
fn assert_bounds(topology: &Topology, wanted: Wanted, options: &PlacementOptions, plan: &Plan) {
    assert!(topology.quota.is_none_or(|quota| plan.lanes.len() <= quota.whole_cpus()));
    if options.avoid_siblings {
        assert!(
            plan.shards.iter().all(|shard| shard.lanes.len() <= usable(topology).filter(|core| core.node == shard.node).count())
        );
    }
    match wanted {
        Wanted::Sensible => assert!(plan.shards.iter().all(|shard| shard.lanes.len() <= LANES_PER_SHARD_SENSIBLE)),
        Wanted::Lanes(wish) => {
            assert!(plan.lanes.len() <= wish.get());
            let noted = plan.notes.iter().any(|note| matches!(note, Note::FewerLanes { .. }));
            assert_eq!(noted, plan.lanes.len() < wish.get(), "{plan}");
        }
    }
}

/// Readers have the cores that were asked for, as far as a lane stays; and CPUs without lanes, unless they are shared.
fn assert_readers(topology: &Topology, options: &PlacementOptions, plan: &Plan) {
    if is_shared(plan) {
        assert_eq!(plan.readers, topology.allowed);
        return;
    }
    let taken: CpuSet = plan.lanes.iter().flat_map(|lane| lane.cpus.iter()).collect();
    let free = usable(topology).filter(|core| core.threads.intersection(&taken).is_empty());
    let all = usable(topology).count();
    assert!(free.clone().count() >= options.reader_cores.unwrap_or(0).min(all - 1), "{plan}");
    let free: CpuSet = free.flat_map(|core| core.threads.iter()).collect();
    assert_eq!(plan.readers, free.intersection(&topology.allowed));
}

fn is_shared(plan: &Plan) -> bool {
    plan.notes.iter().any(|note| matches!(note, Note::SharedCpus { .. }))
}

fn usable(topology: &Topology) -> impl Iterator<Item = &Core> + Clone {
    topology.cores.iter().filter(|core| !core.threads.intersection(&topology.allowed).is_empty())
}

fn any_topology() -> impl Strategy<Value = Topology> {
    let shape = (1..3_u32, 1..4_u32, 1..6_u32, 1..3_u32);
    let limits = (any::<u64>(), proptest::option::of(1..12_000_u64));
    (shape, limits, any::<u64>()).prop_map(|((packages, nodes, cores, threads), (mask, milli_cpus), kinds)| {
        let mut topology = Machine::regular(packages, nodes, cores, threads).topology();
        for (nth, core) in topology.cores.iter_mut().enumerate() {
            core.kind = u32::from(kinds >> (nth % 64) & 1 == 1);
        }
        // The first CPU stays, so that there is one.
        let allowed = topology.allowed.iter().filter(|&cpu| cpu == 0 || mask >> (cpu % 64) & 1 == 1).collect();
        Topology { allowed, quota: milli_cpus.map(|milli_cpus| CpuQuota { milli_cpus }), ..topology }
    })
}

fn any_wanted() -> impl Strategy<Value = Wanted> {
    prop_oneof![Just(Wanted::Sensible), (1..40_usize).prop_map(|lanes| Wanted::Lanes(NonZeroUsize::new(lanes).unwrap()))]
}

fn any_options() -> impl Strategy<Value = PlacementOptions> {
    let bools = (any::<bool>(), any::<bool>());
    (proptest::option::of(0..40_usize), bools, 1..8_usize).prop_map(|(reader_cores, (avoid, prefer), shards)| PlacementOptions {
        reader_cores,
        avoid_siblings: avoid,
        prefer_fast_cores: prefer,
        shards_max: NonZeroUsize::new(shards).unwrap(),
    })
}
