//! Machines made up for tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use kv_index::lanes::{Core, CpuSet, NodeId, Source, Topology};

/// A machine whose CPUs are numbered core by core, and whose nodes have a last-level cache each.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) cores: Vec<Core>,
    pub(crate) memory_only_nodes: Vec<u32>,
    /// The kernel's measure of each kind of core, slowest first.
    pub(crate) capacities: Vec<u32>,
}

impl Machine {
    pub(crate) fn regular(packages: u32, nodes: u32, cores: u32, threads: u32) -> Self {
        let core = |nth: u32| {
            let (node, package) = (nth / cores, nth / cores / nodes);
            let cache = node * cores * threads;
            Core { threads: (nth * threads..(nth + 1) * threads).collect(), node: NodeId(node), package, cache, kind: 0 }
        };
        let cores = (0..packages * nodes * cores).map(core).collect();
        Self { cores, memory_only_nodes: Vec::new(), capacities: vec![1_024] }
    }

    /// One node with `big` fast cores and then `little` slow ones, each four sharing a cache.
    pub(crate) fn big_little(big: u32, little: u32) -> Self {
        let mut machine = Self::regular(1, 1, big + little, 1);
        for (cpu, core) in (0..).zip(&mut machine.cores) {
            core.kind = u32::from(cpu < big);
            core.cache = cpu / 4 * 4;
        }
        Self { capacities: vec![446, 1_024], ..machine }
    }

    pub(crate) fn cpus(&self) -> CpuSet {
        self.cores.iter().flat_map(|core| core.threads.iter()).collect()
    }

    /// As plain data.
    pub(crate) fn topology(&self) -> Topology {
        let mut nodes: Vec<_> = self.nodes().into_keys().chain(self.memory_only_nodes.iter().copied()).map(NodeId).collect();
        nodes.sort_unstable();
        Topology { source: Source::Given, nodes, cores: self.cores.clone(), allowed: self.cpus(), quota: None }
    }

    /// As the files of Linux.
    pub(crate) fn root(&self) -> Root {
        let root = Root::new();
        root.write("sys/devices/system/cpu/online", &self.cpus());
        for core in &self.cores {
            core.threads.iter().for_each(|cpu| self.write_cpu(&root, cpu, core));
        }
        let nodes = self.nodes();
        let all: CpuSet = nodes.keys().chain(&self.memory_only_nodes).copied().collect();
        root.write("sys/devices/system/node/online", &all);
        root.write("sys/devices/system/node/has_memory", &all);
        for node in all.iter() {
            let cpus = nodes.get(&node).cloned().unwrap_or_default();
            root.write(&format!("sys/devices/system/node/node{node}/cpulist"), &cpus);
            let distance = |other: u32| (10 + 11 * other.abs_diff(node)).to_string();
            let distances: Vec<_> = all.iter().map(distance).collect();
            root.write(&format!("sys/devices/system/node/node{node}/distance"), &distances.join(" "));
        }
        root
    }

    fn write_cpu(&self, root: &Root, cpu: u32, core: &Core) {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}");
        root.write(&format!("{folder}/topology/core_cpus_list"), &core.threads);
        root.write(&format!("{folder}/topology/physical_package_id"), &core.package);
        root.write(&format!("{folder}/cpu_capacity"), &self.capacities[core.kind as usize]);
        let sharing: CpuSet =
            self.cores.iter().filter(|other| other.cache == core.cache).flat_map(|core| core.threads.iter()).collect();
        let alone = core.threads.clone();
        let caches = [(1, "Data", &alone), (1, "Instruction", &alone), (2, "Unified", &alone), (3, "Unified", &sharing)];
        for (index, (level, kind, shared)) in caches.into_iter().enumerate() {
            root.write(&format!("{folder}/cache/index{index}/level"), &level);
            root.write(&format!("{folder}/cache/index{index}/type"), &kind);
            root.write(&format!("{folder}/cache/index{index}/shared_cpu_list"), shared);
        }
    }

    fn nodes(&self) -> BTreeMap<u32, CpuSet> {
        let mut nodes: BTreeMap<u32, CpuSet> = BTreeMap::new();
        self.cores.iter().for_each(|core| nodes.entry(core.node.0).or_default().extend(core.threads.iter()));
        nodes
    }
}

/// A folder in which files stand as below `/`, until it is dropped.
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("placement-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file with a line end, as the kernel does.
    pub(crate) fn write(&self, file: &str, text: &impl ToString) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.to_string() + "\n").unwrap();
    }

    /// Writes a file anew: some file systems wait for the disk when one is cut short and written again.
    pub(crate) fn write_bytes(&self, file: &str, bytes: &[u8]) {
        let path = self.0.join(file);
        fs::remove_file(&path).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn remove(&self, file: &str) {
        let path = self.0.join(file);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}
