//! Which lane runs where, and what it serves.

use std::fmt;
use std::ops::Range;

use super::{CpuQuota, CpuSet, NodeId};

/// A placement. Prints as a person wants to read it in a log: one line for each shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The lanes, by number: those of the first shard first. Never empty.
    pub lanes: Vec<LanePlan>,
    /// The shards, by number: one for each memory node that has a lane. Never empty.
    pub shards: Vec<ShardPlan>,
    /// The allowed CPUs of cores without a lane. Where there are none, lookups share the lanes' CPUs.
    pub readers: CpuSet,
    /// Where the plan is not what was asked for, and why.
    pub notes: Vec<Note>,
}

/// One lane of a [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanePlan {
    /// The CPUs to keep its thread on, for [`pin::current_thread`](super::pin::current_thread). One, unless
    /// other processes have a share of them: see [`Note::SharedCpus`].
    pub cpus: CpuSet,
    /// The memory node of these CPUs.
    pub node: NodeId,
    /// The shard whose workers it serves.
    pub shard: usize,
}

/// One shard of a [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPlan {
    /// The memory node that it lies on.
    pub node: NodeId,
    /// The lanes that serve it. Never empty.
    pub lanes: Range<usize>,
}

/// Something about a [`Plan`] that its reader might not expect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The machine could not be read: see [`Source`](super::Source). Lanes may share a core, and memory may be far.
    LayoutUnknown,
    /// There are fewer lanes than were wanted.
    FewerLanes {
        /// Lanes wanted.
        wanted: usize,
        /// Lanes in the plan.
        lanes: usize,
        /// What is in the way.
        limit: Limit,
    },
    /// Fewer cores are left to readers than were asked for: there must be a lane.
    FewerReaderCores {
        /// Cores asked for.
        wanted: usize,
        /// Cores without a lane.
        left: usize,
    },
    /// Memory nodes without a shard.
    Unused {
        /// The nodes, ascending. Never empty.
        nodes: Vec<NodeId>,
        /// Why they have none.
        because: Unused,
    },
    /// The quota is less than the allowed CPUs, so others run there too. Processes that choose CPUs by one rule choose the same ones, and
    /// a thread that is pinned cannot make room: lanes are kept on their node, not on a CPU each.
    SharedCpus {
        /// CPU time for this process.
        quota: CpuQuota,
        /// CPUs that it may run on.
        allowed: usize,
    },
}

/// What would have to give way for more lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`reader_cores`](super::PlacementOptions::reader_cores).
    ReaderCores,
    /// [`avoid_siblings`](super::PlacementOptions::avoid_siblings).
    Siblings,
    /// [`shards_max`](super::PlacementOptions::shards_max).
    ShardsMax,
    /// The CPU quota.
    Quota,
    /// The machine, or several of the others at once.
    Cores,
}

/// Why a memory node has no shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unused {
    /// No core stands next to it.
    NoCore,
    /// This process may use none of its CPUs.
    NotAllowed,
    /// [`shards_max`](super::PlacementOptions::shards_max) other nodes have one.
    ShardsMax,
    /// The CPU quota is no more than the cores of the other nodes.
    Quota,
    /// There are more nodes than lanes.
    FewLanes,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}", count(self.lanes.len(), "lane"), count(self.shards.len(), "shard"))?;
        for (number, shard) in self.shards.iter().enumerate() {
            writeln!(f, "shard {number} on {}: {}", shard.node, self.printed_lanes(shard))?;
        }
        if self.readers.is_empty() {
            f.write_str("readers on the lanes' CPUs")?;
        } else {
            write!(f, "readers on {}", named("CPU", &self.readers))?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"))
    }
}

impl Plan {
    /// `lanes 0-3 on CPUs 0, 2, 4, 6`: one for each lane in order, or all that each of them has.
    fn printed_lanes(&self, shard: &ShardPlan) -> String {
        let numbers: CpuSet = shard.lanes.clone().filter_map(|lane| u32::try_from(lane).ok()).collect();
        let lanes = &self.lanes[shard.lanes.clone()];
        match lanes.iter().map(LanePlan::only_cpu).collect::<Option<Vec<_>>>() {
            Some(cpus) if cpus.len() > 1 => format!("{} on CPUs {}", named("lane", &numbers), cpus.join(", ")),
            _ => format!("{} on {}", named("lane", &numbers), named("CPU", &lanes[0].cpus)),
        }
    }
}

impl LanePlan {
    fn only_cpu(&self) -> Option<String> {
        (self.cpus.len() == 1).then(|| self.cpus.to_string())
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LayoutUnknown => f.write_str("the machine's layout is unknown, every CPU is taken for a core"),
            Self::FewerLanes { wanted, lanes, limit } => write!(f, "{}, not {wanted}: {limit}", count(*lanes, "lane")),
            Self::FewerReaderCores { wanted, left } => write!(f, "{} without a lane, not {wanted}", count(*left, "core")),
            Self::Unused { nodes, because } => {
                let nodes = nodes.iter().map(|node| node.0).collect();
                write!(f, "no shard on {}: {because}", named("node", &nodes))
            }
            Self::SharedCpus { quota, allowed } => {
                write!(f, "others use the {allowed} allowed CPUs too, as the quota is {quota}: no lane is kept on one")
            }
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReaderCores => "the other cores are for readers",
            Self::Siblings => "each core has one, and siblings are avoided",
            Self::ShardsMax => "the other cores are on nodes without a shard",
            Self::Quota => "the CPU quota allows no more",
            Self::Cores => "each core has one",
        })
    }
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCore => "no CPU stands there",
            Self::NotAllowed => "no CPU there is allowed",
            Self::ShardsMax => "there are as many shards as wanted",
            Self::Quota => "the CPU quota fills no more nodes",
            Self::FewLanes => "no lane is left",
        })
    }
}

fn named(what: &str, numbers: &CpuSet) -> String {
    format!("{what}{} {numbers}", if numbers.len() == 1 { "" } else { "s" })
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
