//! Engines that serve a trace, and the router's view of them.

use super::engine::Engine;
use super::{BLOCK_TOKENS, Row, TRACE_BLOCK_TOKENS};
use crate::random::scatter;
use crate::workload::names::chain;
use crate::workload::{Batch, Block};

/// Engines of the fleet.
const ENGINES: usize = 16;
/// Blocks of one engine's cache: 640,000 tokens, a 70B model's on eight 80 GB devices. The fleet holds about a tenth of
/// what the trace touches, so that it evicts all the time, as engines do.
const ENGINE_BLOCKS: usize = 40_000;
/// An engine with the longest cached prefix is passed over when it has been given so much more than the least busy one:
/// the blocks of a hundred usual requests.
const SLACK_BLOCKS: usize = 80_000;

/// One request: what is looked up, and what the engine that serves it announces.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub worker: u32,
    start: usize,
    /// Blocks that the engine had.
    hits: usize,
    input: usize,
    /// Input and output.
    blocks: usize,
    removed: (usize, usize),
}

/// A whole trace, as requests and events.
#[derive(Debug, Default)]
pub struct Replay {
    pub workers: u32,
    pub steps: Vec<Step>,
    /// Blocks that the engines hold at the end.
    pub held: usize,
    blocks: Vec<Block>,
    removed: Vec<u64>,
}

impl Replay {
    /// Serves `rows` with the fleet: each by the engine that has most of it, unless that one is far busier than others.
    pub fn of(rows: &[Row]) -> Self {
        let mut engines: Vec<Engine> = (0..ENGINES).map(|_| Engine::new(ENGINE_BLOCKS)).collect();
        let mut given = [0; ENGINES];
        let mut replay = Self { workers: ENGINES as u32, ..Self::default() };
        for (number, row) in (0..).zip(rows) {
            let path = path(row, number);
            let worker = choose(&engines, &given, &path);
            given[worker] += path.len();
            replay.serve(&mut engines[worker], worker, row, &path);
        }
        replay.held = engines.iter().map(Engine::held).sum();
        replay
    }

    fn serve(&mut self, engine: &mut Engine, worker: usize, row: &Row, path: &[Block]) {
        let (start, from) = (self.blocks.len(), self.removed.len());
        let hits = engine.hits(path);
        engine.serve(path, &mut self.removed);
        self.blocks.extend_from_slice(path);
        let input = (row.input_tokens / BLOCK_TOKENS) as usize;
        let removed = (from, self.removed.len());
        self.steps.push(Step { worker: worker as u32, start, hits, input, blocks: path.len(), removed });
    }

    /// What the router looks up for `step`.
    pub fn request(&self, step: &Step) -> Vec<u64> {
        self.blocks[step.start..step.start + step.input].iter().map(|block| block.content).collect()
    }

    /// Adds what the engine announces: evictions, the prompt's new blocks, and each block of the output by itself.
    pub fn announce(&self, step: &Step, batch: &mut Batch) {
        if step.removed.0 < step.removed.1 {
            batch.remove(step.worker, self.removed[step.removed.0..step.removed.1].iter().copied());
        }
        let path = &self.blocks[step.start..step.start + step.blocks];
        let parent = |at: usize| at.checked_sub(1).map(|before| path[before].name);
        if step.hits < step.input {
            batch.store(step.worker, parent(step.hits), path[step.hits..step.input].iter().copied());
        }
        for at in step.hits.max(step.input)..step.blocks {
            batch.store(step.worker, parent(at), [path[at]]);
        }
    }
}

impl Step {
    /// Blocks requested, stored and removed.
    pub const fn operations(&self) -> usize {
        self.input + (self.blocks - self.hits) + (self.removed.1 - self.removed.0)
    }
}

/// A request's blocks: those of its hash ids, then its output's, which no other request shares.
fn path(row: &Row, number: u64) -> Vec<Block> {
    let input = row.input_tokens / BLOCK_TOKENS;
    let total = (row.input_tokens + row.output_tokens) / BLOCK_TOKENS;
    let per_id = TRACE_BLOCK_TOKENS / BLOCK_TOKENS;
    let content = |at: u32| match row.hash_ids.get((at / per_id) as usize) {
        Some(id) if at < input => scatter(id << 8 | u64::from(at % per_id)),
        _ => scatter(!(number << 24 | u64::from(at))),
    };
    let step = |parent: &mut u64, at| {
        *parent = chain(*parent, content(at));
        Some(Block { name: *parent, content: content(at) })
    };
    (0..total).scan(0, step).collect()
}

/// The engine with the longest cached prefix, the least busy of equals; the least busy of all, if that one is far busier.
fn choose(engines: &[Engine], given: &[usize], path: &[Block]) -> usize {
    let idlest = (0..engines.len()).min_by_key(|&at| given[at]).expect("a fleet has engines");
    let best = (0..engines.len()).max_by_key(|&at| (engines[at].hits(path), usize::MAX - given[at]));
    best.filter(|&best| given[best] <= given[idlest] + SLACK_BLOCKS).unwrap_or(idlest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Event;

    fn row(hash_ids: &[u64], input_tokens: u32, output_tokens: u32) -> Row {
        Row { timestamp_ms: 0, input_tokens, output_tokens, hash_ids: hash_ids.to_vec() }
    }

    #[test]
    fn equal_ids_are_equal_prefixes_and_outputs_are_shared_by_nobody() {
        let rows = [row(&[7, 8], 1_000, 40), row(&[7, 9], 1_000, 40)];
        let [left, right] = [path(&rows[0], 0), path(&rows[1], 1)];
        assert_eq!([left.len(), right.len()], [65, 65]);
        assert_eq!(left[..32], right[..32]);
        assert!((32..65).all(|at| left[at] != right[at]));
    }

    #[test]
    fn a_repeated_request_announces_only_its_output() {
        let replay = Replay::of(&[row(&[1], 512, 32), row(&[1], 512, 32)]);
        let mut batch = Batch::default();
        replay.announce(&replay.steps[1], &mut batch);
        assert_eq!(batch.blocks.len(), 2);
        let parent = replay.blocks[31].name;
        assert!(matches!(batch.events[0], Event::Store { parent: Some(name), start: 0, end: 1, .. } if name == parent));
        assert_eq!(replay.steps[1].operations(), 32 + 2);
        assert_eq!(replay.held, 36);
    }
}
