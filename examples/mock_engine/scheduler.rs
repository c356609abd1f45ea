//! The scheduler pass: which tokens of which request are computed next, and what that does to the block pool.
//!
//! Pure: no clock, no socket, no randomness. [`Scheduler::pass`] decides one pass and says what it computes, and its
//! caller sleeps for as long as that takes before it shows the effects to anyone. The order inside a pass is that of
//! vLLM's scheduler: a pending reset, the running requests in order of admission, new admissions first come first
//! served, completions.
//!
//! When room runs out, idle blocks go first, then the most recently admitted request goes back to the head of the
//! queue, and a request that is alone may overdraw the pool: a simulation must not deadlock on a prompt that is larger
//! than its pool.

use std::collections::VecDeque;

use super::events::CacheEvent;
use super::pool::BlockPool;
use super::sequence::{Request, Sequence};
use super::timing::PassWork;

/// How a scheduler decides.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerOptions {
    /// Tokens of a block, at least 1.
    pub block_size: usize,
    /// Blocks of the pool.
    pub kv_blocks: usize,
    /// Tokens that one pass computes at most, at least 1.
    pub max_batched_tokens: usize,
    /// Requests that run at once at most, at least 1.
    pub max_running: usize,
    /// Admit a request only if the pool can hold its whole prompt and one token more, not just its first chunk.
    pub reserve_full_prompt: bool,
    /// A pass that computes prompt tokens does not decode (SGLang).
    pub prefill_first: bool,
}

/// What one pass did.
#[derive(Debug, Default)]
pub struct Pass {
    /// What was computed.
    pub work: PassWork,
    /// What happened to the named blocks, in order.
    pub events: Vec<CacheEvent>,
    /// Requests that started, in order.
    pub admitted: Vec<Admitted>,
    /// One entry for each output token.
    pub emitted: Vec<Emitted>,
    /// Requests that lost their blocks and start over.
    pub preempted: usize,
}

/// A request that started for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// [`Request::id`]
    pub id: u64,
    /// Prompt tokens that were served from the cache.
    pub cached_tokens: usize,
}

/// An output token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emitted {
    /// [`Request::id`]
    pub id: u64,
    /// The token id.
    pub token: u32,
    /// Whether it is the request's last one.
    pub last: bool,
}

/// The state of one engine between passes.
#[derive(Debug)]
pub struct Scheduler {
    options: SchedulerOptions,
    pool: BlockPool,
    waiting: VecDeque<Sequence>,
    /// In order of admission.
    running: Vec<Sequence>,
    reset_pending: bool,
}

impl Scheduler {
    /// An idle scheduler with an empty pool.
    pub fn new(options: SchedulerOptions) -> Self {
        let pool = BlockPool::new(options.kv_blocks);
        Self { options, pool, waiting: VecDeque::new(), running: Vec::new(), reset_pending: false }
    }

    /// Queues a request.
    pub fn submit(&mut self, request: Request) {
        self.waiting.push_back(Sequence::new(request, self.options.block_size));
    }

    /// Drops a request wherever it is and frees its blocks. Returns whether it was there.
    pub fn cancel(&mut self, id: u64) -> bool {
        if let Some(index) = self.running.iter().position(|sequence| sequence.id == id) {
            let sequence = self.running.remove(index);
            self.free(&sequence);
            return true;
        }
        let before = self.waiting.len();
        self.waiting.retain(|sequence| sequence.id != id);
        self.waiting.len() < before
    }

    /// Asks the next pass to preempt everything and to drop the cache.
    pub fn request_reset(&mut self) {
        self.reset_pending = true;
    }

    /// Whether a pass would do anything.
    pub fn has_work(&self) -> bool {
        self.reset_pending || !self.running.is_empty() || !self.waiting.is_empty()
    }

    /// Decides one pass.
    pub fn pass(&mut self) -> Pass {
        let mut pass = Pass::default();
        let mut budget = self.options.max_batched_tokens;
        self.reset_if_pending(&mut pass);
        if self.options.prefill_first {
            self.advance_running(&mut budget, &mut pass, |sequence| !sequence.decoding);
            self.admit_waiting(&mut budget, &mut pass);
            if pass.work.prefill_tokens == 0 {
                self.advance_running(&mut budget, &mut pass, |sequence| sequence.decoding);
            }
        } else {
            self.advance_running(&mut budget, &mut pass, |_| true);
            self.admit_waiting(&mut budget, &mut pass);
        }
        self.complete();
        pass
    }

    /// The block pool, as the next pass would find it.
    pub fn pool(&self) -> &BlockPool {
        &self.pool
    }

    /// Requests that hold blocks.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Requests in the queue.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Tokens in the contexts of the running requests.
    pub fn running_tokens(&self) -> usize {
        self.running.iter().map(Sequence::computed).sum()
    }

    /// Prompt tokens that are still to be computed, as if nothing in the queue were cached.
    pub fn queued_tokens(&self) -> usize {
        let prefilling = self.running.iter().filter(|sequence| !sequence.decoding);
        prefilling.chain(&self.waiting).map(Sequence::remaining).sum()
    }

    fn reset_if_pending(&mut self, pass: &mut Pass) {
        if !std::mem::take(&mut self.reset_pending) {
            return;
        }
        while !self.running.is_empty() {
            self.preempt_last(pass);
        }
        let empty = self.pool.clear();
        debug_assert!(empty, "blocks are held by nobody");
        pass.events.push(CacheEvent::Cleared);
    }

    /// Victims of preemption are taken from the end, so the sequences in front of `index` stay where they are.
    fn advance_running(&mut self, budget: &mut usize, pass: &mut Pass, takes_part: impl Fn(&Sequence) -> bool) {
        let mut index = 0;
        while index < self.running.len() && *budget > 0 {
            if takes_part(&self.running[index]) {
                self.advance(index, budget, pass);
            }
            index += 1;
        }
    }

    fn advance(&mut self, index: usize, budget: &mut usize, pass: &mut Pass) {
        let sequence = &self.running[index];
        let chunk = sequence.chunk(*budget);
        let blocks = sequence.missing_blocks(sequence.computed() + chunk);
        if self.make_room(index, blocks, pass) {
            self.compute(index, chunk, blocks, pass);
            *budget -= chunk;
        }
    }

    /// Frees room for `blocks` of the sequence at `index`. Returns false if that sequence had to go itself.
    fn make_room(&mut self, index: usize, blocks: usize, pass: &mut Pass) -> bool {
        let mut evicted = Vec::new();
        let stays = loop {
            if self.pool.shortfall(blocks) == 0 {
                break true;
            }
            if let Some(name) = self.pool.evict() {
                evicted.push(name);
            } else if self.running.len() == 1 {
                break true;
            } else {
                self.preempt_last(pass);
                if index == self.running.len() {
                    break false;
                }
            }
        };
        if !evicted.is_empty() {
            pass.events.push(CacheEvent::Removed(evicted));
        }
        stays
    }

    fn preempt_last(&mut self, pass: &mut Pass) {
        if let Some(mut sequence) = self.running.pop() {
            self.free(&sequence);
            sequence.start_over();
            self.waiting.push_front(sequence);
            pass.preempted += 1;
        }
    }

    /// First come, first served: the head of the queue blocks those behind it. A pass that had to preempt admits
    /// nobody, or the victim would come straight back for the room that was just made.
    fn admit_waiting(&mut self, budget: &mut usize, pass: &mut Pass) {
        while *budget > 0 && self.running.len() < self.options.max_running && pass.preempted == 0 {
            let Some(head) = self.waiting.front() else { return };
            let cached = self.pool.matched(head.servable());
            if !self.may_admit(head, cached, *budget) {
                return;
            }
            self.admit_head(cached, budget, pass);
        }
    }

    fn may_admit(&self, head: &Sequence, cached: usize, budget: usize) -> bool {
        let block_size = self.options.block_size;
        let first_chunk_end = head.len().min(cached * block_size + budget);
        let reserved = if self.options.reserve_full_prompt { head.len() + 1 } else { first_chunk_end };
        let blocks = reserved.div_ceil(block_size) - cached;
        let kept_idle = self.pool.idle_among(&head.servable()[..cached]);
        self.pool.has_room(blocks, kept_idle) || self.running.is_empty()
    }

    /// References on the cached blocks come first, or making room could evict them.
    fn admit_head(&mut self, cached: usize, budget: &mut usize, pass: &mut Pass) {
        let Some(mut sequence) = self.waiting.pop_front() else { return };
        for &name in &sequence.servable()[..cached] {
            self.pool.acquire(name);
        }
        sequence.start_behind(cached);
        if !std::mem::replace(&mut sequence.admitted_before, true) {
            pass.admitted.push(Admitted { id: sequence.id, cached_tokens: sequence.computed() });
        }
        self.running.push(sequence);
        self.advance(self.running.len() - 1, budget, pass);
    }

    fn compute(&mut self, index: usize, chunk: usize, blocks: usize, pass: &mut Pass) {
        let sequence = &mut self.running[index];
        count_work(&mut pass.work, sequence, chunk);
        self.pool.allocate(blocks);
        sequence.add_anonymous(blocks);
        let filled = sequence.compute(chunk);
        seal(&mut self.pool, sequence, filled, &mut pass.events);
        if sequence.remaining() == 0 {
            let token = sequence.emit();
            pass.emitted.push(Emitted { id: sequence.id, token, last: sequence.finished() });
        }
    }

    fn complete(&mut self) {
        let (finished, running) = std::mem::take(&mut self.running).into_iter().partition(Sequence::finished);
        self.running = running;
        let finished: Vec<Sequence> = finished;
        finished.iter().for_each(|sequence| self.free(sequence));
    }

    /// Tail first: a block is of use only together with those in front of it, so heads must outlive tails.
    fn free(&mut self, sequence: &Sequence) {
        self.pool.discard(sequence.anonymous());
        for &name in sequence.held().iter().rev() {
            self.pool.release(name);
        }
    }
}

fn count_work(work: &mut PassWork, sequence: &Sequence, chunk: usize) {
    if sequence.decoding {
        work.decode_sequences += 1;
        work.decode_context_tokens += sequence.computed() + chunk;
    } else {
        work.prefill_sequences += 1;
        work.prefill_tokens += chunk;
        work.largest_prefill_tokens = work.largest_prefill_tokens.max(chunk);
    }
}

/// Names the `filled` blocks. One event for each run of blocks that nobody had: a block that another request filled
/// first is shared and interrupts the run.
fn seal(pool: &mut BlockPool, sequence: &Sequence, filled: std::ops::Range<usize>, events: &mut Vec<CacheEvent>) {
    let mut run = filled.start..filled.start;
    for block in filled {
        if pool.seal(sequence.name(block)) {
            run.end = block + 1;
        } else {
            store_run(sequence, run, events);
            run = block + 1..block + 1;
        }
    }
    store_run(sequence, run, events);
}

fn store_run(sequence: &Sequence, run: std::ops::Range<usize>, events: &mut Vec<CacheEvent>) {
    if run.is_empty() {
        return;
    }
    events.push(CacheEvent::Stored {
        parent: sequence.parent(run.start),
        names: run.clone().map(|block| sequence.name(block)).collect(),
        tokens: sequence.block_tokens(run).to_vec(),
    });
}

#[cfg(test)]
mod tests;
