//! What one gateway knows, and whom it chooses.

use std::time::Duration;

use kv_index::{ChainIndex, ContentHash, Index, Matches, View, WorkerId};
use kv_routing::select::Scratch;
use kv_routing::{Candidate, Load, Overlap, Request};

use super::books::Books;
use super::contender::Contender;
use super::workload::Arrival;

/// A gateway: its books, and the reports that it has.
pub(super) struct Gateway {
    workers: Vec<Known>,
    books: Books,
    matches: Matches,
    scratch: Scratch,
    hashes: Vec<ContentHash>,
    block_size: usize,
}

/// What it knows of one worker.
#[derive(Clone, Default)]
struct Known {
    load: Load,
    vetoed: bool,
    kept_blocks: usize,
}

/// What it expects of a request that it has placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) engine: usize,
    /// Tokens that the engine was booked for.
    pub(super) uncached_tokens: u64,
    /// Tokens of the prompt and the answer that it adds to the engine's memory: what is shared is there once.
    pub(super) kept_tokens: u64,
    /// Blocks of the whole prompt and the answer.
    pub(super) kept_blocks: usize,
}

/// What an engine reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) running: usize,
    pub(super) waiting: usize,
    pub(super) usage: f64,
    /// Prompt tokens in a second since the last report.
    pub(super) tokens_per_s: f64,
}

impl Gateway {
    pub(super) fn new(engines: usize, block_size: usize) -> Self {
        Self {
            workers: vec![Known::default(); engines],
            books: Books::default(),
            matches: Matches::new(),
            scratch: Scratch::new(),
            hashes: Vec::new(),
            block_size,
        }
    }

    /// Chooses an engine and books the request there.
    pub(super) fn place(
        &mut self,
        now: Duration,
        arrival: &Arrival,
        index: &ChainIndex,
        contender: &Contender,
        seed: u64,
    ) -> Placed {
        let block_size = self.block_size;
        let (names, prompt) = (arrival.prompt.servable(), arrival.prompt.tokens().len());
        self.hashes.clear();
        self.hashes.extend(names.iter().copied().map(ContentHash));
        index.find(&self.hashes, &mut self.matches);
        let expected = self.books.expected(now, names);
        let candidates: Vec<Candidate> =
            (0..).zip(&self.workers).map(|(worker, known)| self.candidate(worker, known, expected)).collect();
        let kept: Vec<usize> = self.workers.iter().map(|known| known.kept_blocks).collect();
        let request = Request { prompt_tokens: prompt as u64, home: None };
        let engine = contender.choose(request, &candidates, &kept, block_size as u64, seed, &mut self.scratch);
        let uncached_tokens = (prompt as u64).saturating_sub(candidates[engine].overlap.tokens());
        let kept_blocks = (prompt + arrival.output_tokens).div_ceil(block_size);
        let known = &mut self.workers[engine];
        known.load.in_flight += 1;
        known.load.queued_tokens += uncached_tokens;
        let kept_tokens = uncached_tokens + arrival.output_tokens as u64;
        known.load.kept_tokens += kept_tokens;
        known.kept_blocks += kept_blocks;
        self.books.note(now, names, u32::try_from(engine).unwrap_or(0));
        Placed { engine, uncached_tokens, kept_tokens, kept_blocks }
    }

    fn candidate(&self, worker: u32, known: &Known, expected: Option<(u32, usize)>) -> Candidate {
        let block_size = self.block_size;
        let announced = u64::from(self.matches.depth(WorkerId(worker), View::MAIN)) * block_size as u64;
        let predicted = expected.filter(|(holder, _)| *holder == worker).map_or(0, |(_, blocks)| (blocks * block_size) as u64);
        let overlap = Overlap { predicted_tokens: predicted.saturating_sub(announced), ..Overlap::device(announced) };
        Candidate { worker, overlap, vetoed: known.vetoed, load: known.load, ..Candidate::default() }
    }

    pub(super) fn first_token(&mut self, placed: Placed) {
        let load = &mut self.workers[placed.engine].load;
        load.queued_tokens = load.queued_tokens.saturating_sub(placed.uncached_tokens);
    }

    pub(super) fn done(&mut self, placed: Placed) {
        let known = &mut self.workers[placed.engine];
        known.load.in_flight = known.load.in_flight.saturating_sub(1);
        known.kept_blocks = known.kept_blocks.saturating_sub(placed.kept_blocks);
        known.load.kept_tokens = known.load.kept_tokens.saturating_sub(placed.kept_tokens);
    }

    #[expect(clippy::cast_possible_truncation, reason = "reports are told in single precision")]
    pub(super) fn report(&mut self, engine: usize, report: Report) {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let load = &mut self.workers[engine].load;
        (load.running, load.waiting) = (count(report.running), count(report.waiting));
        (load.kv_usage, load.reported) = (Some(report.usage as f32), true);
        load.rate_tokens_per_s = Some(report.tokens_per_s as f32).filter(|rate| *rate > 0.0);
    }

    pub(super) fn veto(&mut self, engine: usize, vetoed: bool) {
        self.workers[engine].vetoed = vetoed;
    }
}
