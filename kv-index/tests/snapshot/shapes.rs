//! How large a snapshot is and how long it takes, on the three shapes that the index is measured on. In a release build:
//! `cargo test --release -p kv-index --test snapshot -- --ignored --nocapture`.

use std::collections::HashSet;

use kv_index::snapshot::{Writer, load};
use kv_index::testing::Driver;
use kv_index::{Block, BlockName, ChainIndex, ChainWorker, ContentHash, Digest, Index, View, Worker};

use crate::shared::{chain, written};

/// How a fleet's prompts look.
struct Shape {
    name: &'static str,
    workers: usize,
    heads: usize,
    head_blocks: (u64, u64),
    prompts: usize,
    prompt_blocks: (u64, u64),
    /// Holders of a prompt, in tenths.
    holders: u64,
}

const SHAPES: [Shape; 3] = [
    Shape {
        name: "shared",
        workers: 128,
        heads: 100,
        head_blocks: (10, 40),
        prompts: 1_900,
        prompt_blocks: (50, 90),
        holders: 200,
    },
    Shape { name: "private", workers: 8, heads: 0, head_blocks: (0, 0), prompts: 22_000, prompt_blocks: (50, 90), holders: 13 },
    Shape {
        name: "long",
        workers: 16,
        heads: 20,
        head_blocks: (300, 300),
        prompts: 680,
        prompt_blocks: (1_000, 1_000),
        holders: 40,
    },
];

/// `SplitMix64`.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn within(&mut self, (least, most): (u64, u64)) -> usize {
        usize::try_from(least + self.next() % (most - least + 1)).unwrap()
    }
}

/// A prompt: its contents, its group's number and how many of its blocks are the group's head.
struct Prompt {
    contents: Vec<ContentHash>,
    head: usize,
    shared: usize,
}

impl Shape {
    fn prompts(&self, draw: &mut Draw) -> Vec<Prompt> {
        let fresh = |count: usize, draw: &mut Draw| (0..count).map(|_| ContentHash(draw.next())).collect::<Vec<_>>();
        let heads: Vec<_> = (0..self.heads).map(|_| (draw.within(self.head_blocks), draw.next())).collect();
        let heads: Vec<_> = heads.into_iter().map(|(blocks, seed)| fresh(blocks, &mut Draw(seed))).collect();
        let prompts = (0..self.prompts).map(|nth| {
            let head = if heads.is_empty() { nth } else { draw.within((0, heads.len() as u64 - 1)) };
            let mut contents = heads.get(head).cloned().unwrap_or_default();
            let shared = contents.len();
            let length = draw.within(self.prompt_blocks);
            contents.extend(fresh(length - shared, draw));
            Prompt { contents, head, shared }
        });
        prompts.collect()
    }

    /// Who stores which prompt, in the order of the stores.
    fn pairs(&self, draw: &mut Draw) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for prompt in 0..self.prompts {
            let count = self.holders / 10 + u64::from(draw.next() % 10 < self.holders % 10);
            let mut holders = HashSet::new();
            while (holders.len() as u64) < count {
                holders.insert(draw.within((0, self.workers as u64 - 1)));
            }
            let mut holders: Vec<usize> = holders.into_iter().collect();
            holders.sort_unstable();
            pairs.extend(holders.into_iter().map(|worker| (prompt, worker)));
        }
        for at in (1..pairs.len()).rev() {
            pairs.swap(at, draw.within((0, at as u64)));
        }
        pairs
    }

    /// The index with everything stored; of 100 workers, `disagree` name every block in their own way.
    fn build(&self, disagree: usize) -> Driver<ChainIndex> {
        let mut draw = Draw(7);
        let prompts = self.prompts(&mut draw);
        let pairs = self.pairs(&mut draw);
        let index = chain();
        let mut workers: Vec<ChainWorker> = (0..self.workers).map(|_| index.add_worker().unwrap()).collect();
        let (mut met, mut out) = (HashSet::new(), Vec::new());
        for (prompt, worker) in pairs {
            let prompt = &prompts[prompt];
            let salt = if worker * 100 < disagree * self.workers { worker as u64 + 1 } else { 0 };
            let blocks = named(&prompt.contents, salt);
            let known = if met.insert((prompt.head, worker)) { 0 } else { prompt.shared };
            let parent = known.checked_sub(1).and_then(|last| blocks[last].name);
            workers[worker].store(View::MAIN, parent, &blocks[known..], &mut out).unwrap();
        }
        Driver::with_workers(index, workers)
    }
}

/// Blocks named by a chain hash that begins with `salt`.
fn named(contents: &[ContentHash], salt: u64) -> Vec<Block> {
    let mut chain = salt;
    let name = |&content: &ContentHash| {
        chain = Draw(chain ^ content.0).next();
        Block::named(BlockName(chain), content)
    };
    contents.iter().map(name).collect()
}

fn digests(driver: &Driver<ChainIndex>) -> Vec<Digest> {
    driver.workers().map(|worker| driver.index().digest(worker.id(), View::MAIN)).collect()
}

/// The least of five, in µs of this thread's processor time.
fn least_us<T>(mut run: impl FnMut() -> T) -> u64 {
    let once = |run: &mut dyn FnMut() -> T| {
        let start = cpu_us();
        let kept = run();
        let took = cpu_us() - start;
        drop(kept);
        took
    };
    (0..5).map(|_| once(&mut run)).min().expect("five")
}

/// Processor time of this thread so far, to a tick: other builds on the machine do not count.
fn cpu_us() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    stat.split(' ').next().unwrap().parse::<u64>().unwrap() / 1_000
}

#[test]
#[ignore = "a measurement, for a release build"]
fn two_million_memberships_load_in_well_under_a_second() {
    println!("shape    disagree  memberships      bytes  per 100 write us  load us");
    for (shape, disagree) in SHAPES.iter().flat_map(|shape| [0, 50, 100].map(|disagree| (shape, disagree))) {
        let driver = shape.build(disagree);
        let count: u64 = digests(&driver).iter().map(|digest| digest.count).sum();
        let bytes = written(&driver);
        let write_us = least_us(|| {
            let mut snapshot = Writer::new(std::io::sink()).unwrap();
            driver.workers().for_each(|worker| snapshot.worker(b"", worker).unwrap());
            snapshot.finish().unwrap()
        });
        let load_us = least_us(|| {
            let index = chain();
            (load(&bytes[..], &index).unwrap(), index)
        });
        assert_eq!(load(&bytes[..], &chain()).unwrap().len(), shape.workers);
        let (name, size) = (shape.name, bytes.len() as u64);
        let hundred = size * 100 / count;
        println!("{name:<8} {disagree:>7}% {count:>12} {size:>10} {hundred:>8} {write_us:>8} {load_us:>8}");
        assert!(load_us < 1_000_000);
    }
}
