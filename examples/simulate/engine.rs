//! One engine in virtual time.

use std::time::Duration;

use crate::mock_engine::{CacheEvent, Pass, Prompt, Request, Scheduler, SchedulerOptions, Timing};

/// What all engines of a scene are like.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Tokens of a block.
    pub block_size: usize,
    /// Blocks of the KV cache.
    pub kv_blocks: usize,
    /// Prompt tokens that one pass computes at most.
    pub max_batched_tokens: usize,
    /// What a pass costs.
    pub timing: Timing,
}

/// An engine: idle, or in a pass whose effects show when it ends.
#[derive(Debug)]
pub(super) struct Engine {
    scheduler: Scheduler,
    timing: Timing,
    pass: Option<Pass>,
    stalled: bool,
}

impl EngineOptions {
    fn scheduler(&self) -> SchedulerOptions {
        SchedulerOptions {
            block_size: self.block_size,
            kv_blocks: self.kv_blocks,
            max_batched_tokens: self.max_batched_tokens,
            max_running: 256,
            reserve_full_prompt: true,
            prefill_first: false,
        }
    }
}

impl Engine {
    pub(super) fn new(options: &EngineOptions) -> Self {
        let (scheduler, timing) = (Scheduler::new(options.scheduler()), options.timing.clone());
        Self { scheduler, timing, pass: None, stalled: false }
    }

    pub(super) fn submit(&mut self, request: Request) {
        self.scheduler.submit(request);
    }

    /// Serves prompts before the scene begins, in no time. What its cache has to say of that.
    pub(super) fn serve(&mut self, prompts: &[Prompt]) -> Vec<CacheEvent> {
        let requests = (0..).zip(prompts).map(|(id, prompt)| Request { id, prompt: prompt.clone(), max_tokens: 1 });
        requests.for_each(|request| self.scheduler.submit(request));
        let mut events = Vec::new();
        while self.scheduler.has_work() {
            events.extend(self.scheduler.pass().events);
        }
        events
    }

    /// Begins a pass if there is something to do and none is under way. How long it takes.
    pub(super) fn begin(&mut self) -> Option<Duration> {
        if self.pass.is_some() || self.stalled || !self.scheduler.has_work() {
            return None;
        }
        let pass = self.scheduler.pass();
        let takes = self.timing.real(pass.work);
        self.pass = Some(pass);
        Some(takes)
    }

    /// Ends the pass that is under way.
    pub(super) fn end(&mut self) -> Pass {
        self.pass.take().unwrap_or_default()
    }

    /// Stops it from beginning passes, or lets it begin them again.
    pub(super) fn stall(&mut self, stalled: bool) {
        self.stalled = stalled;
    }

    /// Empties its cache with the next pass.
    pub(super) fn reset(&mut self) {
        self.scheduler.request_reset();
    }

    /// How many of a prompt's blocks it could serve now.
    pub(super) fn matched(&self, names: &[u64]) -> usize {
        self.scheduler.pool().matched(names)
    }

    pub(super) fn running(&self) -> usize {
        self.scheduler.running()
    }

    pub(super) fn waiting(&self) -> usize {
        self.scheduler.waiting()
    }

    /// The share of its blocks that running requests hold.
    pub(super) fn usage(&self) -> f64 {
        ratio(self.scheduler.pool().in_use(), self.scheduler.pool().capacity()).min(1.0)
    }
}

/// A share of counts.
#[expect(clippy::cast_precision_loss, reason = "a simulation counts far below 2^52")]
pub(super) fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
