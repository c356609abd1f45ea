//! Where lanes run and what lies where: a pure function of the machine and of what is wanted.
//!
//! 1. Memory nodes with an allowed CPU are candidates for a shard; one of each package comes first, then those with more
//!    cores. A process with a CPU quota takes no more of them than its quota fills: a shard more is a lookup more.
//! 2. On each node, cores are ordered: the fastest kind, then the last-level cache that most of these share, then the
//!    lowest number. Lanes of one shard write the same tables, and a cache line changes hands several times faster inside a
//!    shared cache than across.
//! 3. Some cores of every node are kept for readers, the rest may carry a lane.
//! 4. Lanes are dealt to the nodes in turn, so that shards are served alike: [`Sharded`](crate::Sharded) gives them workers in turn.

mod notes;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use thiserror::Error;

use super::{Core, CpuQuota, CpuSet, LanePlan, NodeId, Plan, ShardPlan, Topology};
use crate::limits::LANES_PER_SHARD_SENSIBLE;

/// How many lanes there should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// As many as a router can use while it looks up and serves: on each node half of the fastest cores, rounded
    /// up, or all that [`reader_cores`](PlacementOptions::reader_cores) leaves of them, and at most
    /// [`LANES_PER_SHARD_SENSIBLE`].
    Sensible,
    /// So many, or as many as fit.
    Lanes(NonZeroUsize),
}

/// What a placement has to respect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementOptions {
    /// Cores to keep free of lanes, for the threads that look up and serve. None leaves it to [`Wanted`]: half of them for
    /// [`Wanted::Sensible`], those that are left over for [`Wanted::Lanes`].
    pub reader_cores: Option<usize>,
    /// Whether a core carries one lane at most. Two lanes on one core's threads share its caches and its misses in flight, and lanes
    /// mostly wait for memory.
    pub avoid_siblings: bool,
    /// Whether the fastest kind of core carries lanes first. Otherwise kinds do not matter.
    pub prefer_fast_cores: bool,
    /// The most shards. Every lookup asks every shard, so a machine with many small nodes (sub-NUMA clustering) may do better
    /// with fewer. The other nodes then carry no lane.
    pub shards_max: NonZeroUsize,
}

impl Default for PlacementOptions {
    /// Half of the cores for readers, no siblings, fast cores first, a shard for every memory node.
    fn default() -> Self {
        Self { reader_cores: None, avoid_siblings: true, prefer_fast_cores: true, shards_max: NonZeroUsize::MAX }
    }
}

/// No lane can be placed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// No core has a CPU that this process may use.
    #[error("none of the machine's {cores} cores has one of the allowed CPUs {allowed}")]
    NoCpu {
        /// Cores of the topology.
        cores: usize,
        /// Its allowed CPUs.
        allowed: CpuSet,
    },
}

/// Places lanes on a machine and gives each memory node that has some a shard.
///
/// Never more than the machine, its quota and the options allow: where that is fewer than wanted, the plan's notes
/// say so. One lane there is in any case.
///
/// # Errors
/// [`PlacementError::NoCpu`], which no topology that was read from a machine leads to.
pub fn place(topology: &Topology, wanted: Wanted, options: &PlacementOptions) -> Result<Plan, PlacementError> {
    let layout = layout(topology, wanted, options);
    if layout.sites.is_empty() {
        return Err(PlacementError::NoCpu { cores: topology.cores.len(), allowed: topology.allowed.clone() });
    }
    let mut plan = plan(topology, &layout);
    plan.notes = notes::notes(topology, &layout, &plan, wanted, options);
    Ok(plan)
}

/// Which nodes carry lanes, and how many.
struct Layout<'a> {
    /// The nodes that may have a shard, ascending.
    sites: Vec<Site<'a>>,
    /// The CPUs for lanes on each of them, the best first.
    seats: Vec<Vec<u32>>,
    /// How many of these have one.
    dealt: Vec<usize>,
}

fn layout<'a>(topology: &'a Topology, wanted: Wanted, options: &PlacementOptions) -> Layout<'a> {
    let all = sites(topology, options.prefer_fast_cores);
    let total = all.iter().map(|site| site.cores.len()).sum();
    let sites = choose(all, topology.quota, options.shards_max.get());
    let lane_cores = lane_cores(&sites, total, wanted, options);
    let seats: Vec<_> = sites.iter().zip(lane_cores).map(|(site, cores)| site.seats(cores, wanted, options)).collect();
    let dealt = deal(&seats, lanes_max(topology.quota, wanted, options));
    Layout { sites, seats, dealt }
}

/// A memory node with its usable cores, the best for a lane first. At least one.
struct Site<'a> {
    node: NodeId,
    cores: Vec<Usable<'a>>,
}

/// A core, and those of its threads that are allowed. At least one.
struct Usable<'a> {
    core: &'a Core,
    threads: CpuSet,
}

fn sites(topology: &Topology, prefer_fast: bool) -> Vec<Site<'_>> {
    let mut sites: BTreeMap<NodeId, Vec<Usable<'_>>> = BTreeMap::new();
    for core in &topology.cores {
        let threads = core.threads.intersection(&topology.allowed);
        if !threads.is_empty() {
            sites.entry(core.node).or_default().push(Usable { core, threads });
        }
    }
    sites.into_iter().map(|(node, cores)| Site { node, cores: ordered(cores, prefer_fast) }).collect()
}

/// The best cores for lanes first.
fn ordered(mut cores: Vec<Usable<'_>>, prefer_fast: bool) -> Vec<Usable<'_>> {
    let kind = |usable: &Usable<'_>| if prefer_fast { usable.core.kind } else { 0 };
    let mut sharing: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    cores.iter().for_each(|usable| *sharing.entry((kind(usable), usable.core.cache)).or_default() += 1);
    cores.sort_by_key(|usable| {
        let (kind, cache) = (kind(usable), usable.core.cache);
        (Reverse(kind), Reverse(sharing[&(kind, cache)]), cache, usable.threads.first())
    });
    cores
}

/// At most `most` sites, and no more than the quota keeps busy, ascending by node.
fn choose(mut sites: Vec<Site<'_>>, quota: Option<CpuQuota>, most: usize) -> Vec<Site<'_>> {
    sites.sort_by_key(|site| (Reverse(site.cores.len()), site.node));
    let largest = sites.first().map_or(1, |site| site.cores.len());
    let filled = quota.map_or(usize::MAX, |quota| quota.whole_cpus().div_ceil(largest));
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    // A node's turn is how many of its package came before.
    let mut turns: Vec<_> =
        sites.into_iter().map(|site| (post_increment(seen.entry(site.package()).or_default()), site)).collect();
    turns.sort_by_key(|&(turn, _)| turn);
    let mut chosen: Vec<_> = turns.into_iter().take(most.min(filled)).map(|(_, site)| site).collect();
    chosen.sort_by_key(|site| site.node);
    chosen
}

fn post_increment(count: &mut usize) -> usize {
    *count += 1;
    *count - 1
}

/// How many cores of each site may carry lanes, when `total` cores are usable in all.
fn lane_cores(sites: &[Site<'_>], total: usize, wanted: Wanted, options: &PlacementOptions) -> Vec<usize> {
    let share = |site: &Site<'_>| match (wanted, options.reader_cores) {
        (Wanted::Sensible, None) => site.fastest(options.prefer_fast_cores).div_ceil(2),
        (Wanted::Sensible, Some(_)) => site.fastest(options.prefer_fast_cores),
        (Wanted::Lanes(_), _) => site.cores.len(),
    };
    let mut cores: Vec<usize> = sites.iter().map(share).collect();
    let most = total.saturating_sub(options.reader_cores.unwrap_or(0)).max(1);
    while cores.iter().sum::<usize>() > most {
        let largest = (0..cores.len()).max_by_key(|&site| (cores[site], site));
        cores[largest.expect("a sum above 1 has a summand")] -= 1;
    }
    cores
}

/// The most lanes that the wish and the quota allow.
fn lanes_max(quota: Option<CpuQuota>, wanted: Wanted, options: &PlacementOptions) -> usize {
    let wish = if let Wanted::Lanes(lanes) = wanted { lanes.get() } else { usize::MAX };
    let Some(cpus) = quota.map(CpuQuota::whole_cpus) else { return wish };
    let readers = options.reader_cores.unwrap_or(if wanted == Wanted::Sensible { cpus / 2 } else { 0 });
    wish.min(cpus.saturating_sub(readers).max(1))
}

impl Site<'_> {
    fn package(&self) -> u32 {
        self.cores[0].core.package
    }

    /// How many cores are of the fastest kind here, or all.
    fn fastest(&self, prefer_fast: bool) -> usize {
        let kind = self.cores[0].core.kind;
        self.cores.iter().filter(|usable| !prefer_fast || usable.core.kind == kind).count()
    }

    /// The CPUs for lanes on the first `cores` cores: one of each, and then their siblings.
    fn seats(&self, cores: usize, wanted: Wanted, options: &PlacementOptions) -> Vec<u32> {
        let cores = &self.cores[..cores];
        let threads = if options.avoid_siblings { 1 } else { cores.iter().map(|core| core.threads.len()).max().unwrap_or(0) };
        let seats = (0..threads).flat_map(|nth| cores.iter().filter_map(move |core| core.threads.iter().nth(nth)));
        seats.take(if wanted == Wanted::Sensible { LANES_PER_SHARD_SENSIBLE } else { usize::MAX }).collect()
    }

    fn allowed(&self) -> CpuSet {
        self.cores.iter().flat_map(|usable| usable.threads.iter()).collect()
    }
}

/// Gives up to `most` lanes to the sites in turn: how many each gets.
fn deal(seats: &[Vec<u32>], most: usize) -> Vec<usize> {
    let mut dealt = vec![0; seats.len()];
    let most = most.min(seats.iter().map(Vec::len).sum());
    for site in (0..seats.len()).cycle() {
        if dealt.iter().sum::<usize>() == most {
            break;
        }
        dealt[site] += usize::from(dealt[site] < seats[site].len());
    }
    dealt
}

fn plan(topology: &Topology, layout: &Layout<'_>) -> Plan {
    let crowded = is_shared(topology);
    let (mut lanes, mut shards) = (Vec::new(), Vec::new());
    for ((site, seats), &count) in layout.sites.iter().zip(&layout.seats).zip(&layout.dealt).filter(|&(_, &count)| count > 0) {
        let cpus = |&seat: &u32| if crowded { site.allowed() } else { CpuSet::from(seat) };
        let (shard, first) = (shards.len(), lanes.len());
        lanes.extend(seats[..count].iter().map(|seat| LanePlan { cpus: cpus(seat), node: site.node, shard }));
        shards.push(ShardPlan { node: site.node, lanes: first..lanes.len() });
    }
    let readers = if crowded { topology.allowed.clone() } else { free_cpus(topology, &lanes) };
    Plan { lanes, shards, readers, notes: Vec::new() }
}

/// Whether other processes use the allowed CPUs too.
fn is_shared(topology: &Topology) -> bool {
    topology.quota.is_some_and(|quota| quota.milli_cpus < 1_000 * topology.allowed.len() as u64)
}

/// The allowed CPUs of cores without a lane.
fn free_cpus(topology: &Topology, lanes: &[LanePlan]) -> CpuSet {
    free_cores(topology, lanes).flat_map(|core| core.threads.iter()).filter(|&cpu| topology.allowed.contains(cpu)).collect()
}

fn free_cores<'a>(topology: &'a Topology, lanes: &[LanePlan]) -> impl Iterator<Item = &'a Core> {
    let taken: CpuSet = lanes.iter().flat_map(|lane| lane.cpus.iter()).collect();
    let usable = |core: &&Core| !core.threads.intersection(&topology.allowed).is_empty();
    topology.cores.iter().filter(usable).filter(move |core| core.threads.intersection(&taken).is_empty())
}
