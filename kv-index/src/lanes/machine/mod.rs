//! Where lanes run.
//!
//! A *lane* is a thread that applies events to the workers it owns. On a machine with several memory nodes (sockets, or
//! parts of one), a write to another node's memory costs about twice one to its own, so each node gets an index of its own, a
//! shard of a [`Sharded`](crate::Sharded) one, and lanes that write to no other.
//!
//! Three steps, each usable without the others: a [`Topology`] says what the machine is, [`place`] makes a [`Plan`] of it, [`pin`]
//! carries the plan out. The second is a pure function: try it on a machine that you do not have.
//!
//! # A machine with two sockets
//! Sixty-four cores of two threads each, numbered as Linux does on most of them. Half of each node's cores could carry lanes, and
//! eight are [enough](crate::limits::LANES_PER_SHARD_SENSIBLE):
//!
//! ```
//! use kv_index::lanes::{Core, CpuSet, NodeId, PlacementOptions, Source, Topology, Wanted, place};
//!
//! let core = |cpu: u32| {
//!     let socket = cpu / 32;
//!     let threads = CpuSet::from_iter([cpu, cpu + 64]);
//!     Core { threads, node: NodeId(socket), package: socket, cache: socket * 32, kind: 0 }
//! };
//! let machine = Topology {
//!     source: Source::Given, // on the machine itself: Topology::detect()
//!     nodes: vec![NodeId(0), NodeId(1)],
//!     cores: (0..64).map(core).collect(),
//!     allowed: (0..128).collect(),
//!     quota: None,
//! };
//! let plan = place(&machine, Wanted::Sensible, &PlacementOptions::default())?;
//! assert_eq!(
//!     plan.to_string(),
//!     "16 lanes on 2 shards
//! shard 0 on node 0: lanes 0-7 on CPUs 0, 1, 2, 3, 4, 5, 6, 7
//! shard 1 on node 1: lanes 8-15 on CPUs 32, 33, 34, 35, 36, 37, 38, 39
//! readers on CPUs 8-31,40-63,72-95,104-127"
//! );
//! # Ok::<(), kv_index::lanes::PlacementError>(())
//! ```
//!
//! The second threads of the lanes' cores (64-71, 96-103) are in no list: whoever runs there slows a lane down.
//!
//! On the machine itself, the plan goes to the log first, with what was made of the machine. Then each shard is made on its
//! own node, and a stream of events gets a worker in one of them, which decides about the lanes that may apply its events:
//!
//! ```
//! use kv_index::lanes::{self, PlacementOptions, Topology, Wanted, pin};
//! use kv_index::{Index, ReferenceIndex, Sharded};
//! use std::thread;
//!
//! let topology = Topology::detect();
//! let plan = lanes::place(&topology, Wanted::Sensible, &PlacementOptions::default())?;
//! println!("{topology}\n{plan}");
//!
//! // Memory lies where the thread runs that first writes to it.
//! let shards = thread::scope(|scope| {
//!     let make = |shard: &lanes::ShardPlan| {
//!         let cpus = &plan.lanes[shard.lanes.start].cpus;
//!         scope.spawn(move || {
//!             if let Err(error) = pin::current_thread(cpus) {
//!                 println!("slower than it could be: {error}");
//!             }
//!             ReferenceIndex::new()
//!         })
//!     };
//!     let made: Vec<_> = plan.shards.iter().map(make).collect();
//!     made.into_iter().map(|thread| thread.join().expect("it makes an index")).collect()
//! });
//! let index = Sharded::new(shards)?;
//!
//! let worker = index.add_worker()?; // in the shard with the fewest, or `add_worker_in`
//! let lanes = plan.shards[worker.shard()].lanes.clone();
//! assert!(lanes.contains(&lanes.start), "any of these may own the worker");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! How a lane pins itself is shown at [`pin`].
//!
//! # In containers
//! Affinity masks, cpusets and CPU quotas are respected. A quota is rounded [down](CpuQuota::whole_cpus). Where it is less than
//! the allowed CPUs, other processes use these too: then lanes are kept on one node and not on a CPU each, since every such
//! process would choose the same ones. If the layout cannot be read, the plan says so and takes every CPU for a core.

mod cpu_set;
// Two calls of the C library. On other systems there is nothing to expect.
#[cfg_attr(target_os = "linux", expect(unsafe_code, reason = "affinity masks are calls of the C library"))]
pub mod pin;
mod placement;
mod plan;
pub mod topology;

pub use cpu_set::{CpuSet, CpuSetError};
pub use placement::{PlacementError, PlacementOptions, Wanted, place};
pub use plan::{LanePlan, Limit, Note, Plan, ShardPlan, Unused};
pub use topology::{Core, CpuQuota, NodeId, Source, Topology, TopologyError};
