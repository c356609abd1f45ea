//! What a plan's reader might not expect.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use super::{Layout, PlacementOptions, Wanted, free_cores, is_shared, layout};
use crate::lanes::{Limit, NodeId, Note, Plan, Source, Topology, Unused};

pub(super) fn notes(
    topology: &Topology,
    layout: &Layout<'_>,
    plan: &Plan,
    wanted: Wanted,
    options: &PlacementOptions,
) -> Vec<Note> {
    let unknown = matches!(topology.source, Source::Flat { .. }).then_some(Note::LayoutUnknown);
    let shared = topology.quota.filter(|_| is_shared(topology));
    let shared = shared.map(|quota| Note::SharedCpus { quota, allowed: topology.allowed.len() });
    let mut notes: Vec<Note> = unknown.into_iter().chain(shared).collect();
    notes.extend(fewer_lanes(topology, plan.lanes.len(), wanted, options));
    notes.extend(fewer_reader_cores(topology, plan, options));
    notes.extend(unused_nodes(topology, layout, plan, options));
    notes
}

fn fewer_lanes(topology: &Topology, lanes: usize, wanted: Wanted, options: &PlacementOptions) -> Option<Note> {
    let Wanted::Lanes(wish) = wanted else { return None };
    if lanes >= wish.get() {
        return None;
    }
    let unlimited = Topology { quota: None, ..topology.clone() };
    let with_readers = PlacementOptions { reader_cores: None, ..options.clone() };
    let with_siblings = PlacementOptions { avoid_siblings: false, ..options.clone() };
    let with_shards = PlacementOptions { shards_max: NonZeroUsize::MAX, ..options.clone() };
    let relaxed = [
        (topology, &with_readers, Limit::ReaderCores),
        (topology, &with_siblings, Limit::Siblings),
        (topology, &with_shards, Limit::ShardsMax),
        (&unlimited, options, Limit::Quota),
    ];
    let allows_more =
        |(topology, options, _): &(&Topology, &PlacementOptions, Limit)| layout(topology, wanted, options).lanes() > lanes;
    let limit = relaxed.into_iter().find(allows_more).map_or(Limit::Cores, |(.., limit)| limit);
    Some(Note::FewerLanes { wanted: wish.get(), lanes, limit })
}

fn fewer_reader_cores(topology: &Topology, plan: &Plan, options: &PlacementOptions) -> Option<Note> {
    let (wanted, left) = (options.reader_cores?, free_cores(topology, &plan.lanes).count());
    (left < wanted && !is_shared(topology)).then_some(Note::FewerReaderCores { wanted, left })
}

/// One note for each reason, in the order of the nodes.
fn unused_nodes(topology: &Topology, layout: &Layout<'_>, plan: &Plan, options: &PlacementOptions) -> Vec<Note> {
    let cores = || topology.cores.iter();
    let with_cores: BTreeSet<_> = cores().map(|core| core.node).collect();
    let usable = cores().filter(|core| !core.threads.intersection(&topology.allowed).is_empty());
    let usable: BTreeSet<_> = usable.map(|core| core.node).collect();
    let because = |node| match node {
        node if !with_cores.contains(&node) => Unused::NoCore,
        node if !usable.contains(&node) => Unused::NotAllowed,
        node if layout.sites.iter().any(|site| site.node == node) => Unused::FewLanes,
        _ if layout.sites.len() == options.shards_max.get() => Unused::ShardsMax,
        _ => Unused::Quota,
    };
    let mut unused: Vec<(Unused, Vec<NodeId>)> = Vec::new();
    for &node in topology.nodes.iter().filter(|node| !plan.shards.iter().any(|shard| shard.node == **node)) {
        match unused.iter_mut().find(|(reason, _)| *reason == because(node)) {
            Some((_, nodes)) => nodes.push(node),
            None => unused.push((because(node), vec![node])),
        }
    }
    unused.into_iter().map(|(because, nodes)| Note::Unused { nodes, because }).collect()
}

impl Layout<'_> {
    fn lanes(&self) -> usize {
        self.dealt.iter().sum()
    }
}
