//! What a rank says about its load.

use serde::Serialize;

use super::scheduler::{Pass, Scheduler};
use super::timing::float;

/// A load report, as of the end of the last pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Load {
    /// Requests that hold blocks.
    pub running: usize,
    /// Requests in the queue.
    pub waiting: usize,
    /// Prompt tokens still to be computed, as if nothing in the queue were cached.
    pub queued_tokens: usize,
    /// Tokens in the contexts of the running requests.
    pub running_tokens: usize,
    /// Tokens that the pool holds.
    pub capacity_tokens: usize,
    /// Named blocks, in use or idle.
    pub cached_blocks: usize,
    /// Output tokens a second of real time, smoothed over passes.
    pub tokens_per_s: f64,
    /// Share of prompt tokens served from the cache, 0 to 1, smoothed over requests.
    pub hit_rate: f64,
    /// Requests that lost their blocks, since the start.
    pub preemptions: u64,
    /// Batches with events, since the start.
    pub batches: u64,
    /// Prompt tokens of started requests, since the start.
    pub prompt_tokens: u64,
    /// Those of them that came from the cache.
    pub cached_tokens: u64,
    /// Output tokens, since the start.
    pub output_tokens: u64,
}

impl Load {
    /// Tokens of running requests as a share of the pool; above 1 while a lone request overdraws it.
    pub fn kv_usage(&self) -> f64 {
        if self.capacity_tokens == 0 { 0.0 } else { float(self.running_tokens) / float(self.capacity_tokens) }
    }

    /// Takes over what the scheduler holds now.
    pub(super) fn observe(&mut self, scheduler: &Scheduler) {
        self.running = scheduler.running();
        self.waiting = scheduler.waiting();
        self.queued_tokens = scheduler.queued_tokens();
        self.running_tokens = scheduler.running_tokens();
        self.cached_blocks = scheduler.pool().cached();
    }

    /// Adds up what a pass of `pass_s` seconds did. Requests that started are counted one by one.
    pub(super) fn count_pass(&mut self, pass: &Pass, pass_s: f64) {
        self.preemptions += pass.preempted as u64;
        self.batches += u64::from(!pass.events.is_empty());
        self.output_tokens += pass.emitted.len() as u64;
        let rate = float(pass.emitted.len()) / pass_s.max(f64::MIN_POSITIVE);
        self.tokens_per_s += THROUGHPUT_ALPHA * (rate - self.tokens_per_s);
    }

    pub(super) fn count_admission(&mut self, prompt_tokens: usize, cached_tokens: usize) {
        self.prompt_tokens += prompt_tokens as u64;
        self.cached_tokens += cached_tokens as u64;
        let share = float(cached_tokens) / float(prompt_tokens.max(1));
        self.hit_rate += HIT_RATE_ALPHA * (share - self.hit_rate);
    }
}

/// Weight of the newest pass.
const THROUGHPUT_ALPHA: f64 = 0.3;
/// Weight of the newest request.
const HIT_RATE_ALPHA: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_move_by_their_weight() {
        let mut load = Load { capacity_tokens: 200, running_tokens: 50, ..Load::default() };
        load.count_admission(100, 50);
        assert!((load.hit_rate - 0.1).abs() < 1e-12);
        load.count_pass(&Pass::default(), 0.01);
        assert!(load.tokens_per_s.abs() < 1e-12);
        assert!((load.kv_usage() - 0.25).abs() < 1e-12);
        assert_eq!((load.prompt_tokens, load.cached_tokens), (100, 50));
    }
}
