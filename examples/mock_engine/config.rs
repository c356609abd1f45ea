//! What a fleet looks like.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};

use super::error::MockError;
use super::events::Dialect;
use super::limits;
use super::scheduler::SchedulerOptions;
use super::timing::{REFERENCE_TOKENS, Timing};

/// A fleet of equal engines. [`Default`] gives two vLLM-like engines on ports that the system chooses.
#[derive(Debug, Clone)]
pub struct MockConfig {
    /// Engines, 1 to 256.
    pub engines: usize,
    /// Data-parallel ranks of each engine, 1 to 16. Each has its own cache and its own event stream; the ports of
    /// one engine's ranks follow each other.
    pub ranks: usize,
    /// Name that `/v1/models` serves.
    pub model: String,
    /// Whose events and whose side endpoints.
    pub dialect: Dialect,
    /// Tokens of a block, 1 to 4,096.
    pub block_size: usize,
    /// Blocks of each rank's pool, at least 1.
    pub kv_blocks: usize,
    /// Tokens of prompt and output together, at least 2.
    pub max_model_len: usize,
    /// Tokens that one pass computes at most, at least 1.
    pub max_batched_tokens: usize,
    /// Requests that a rank runs at once, at least 1.
    pub max_running: usize,
    /// Admit a prompt only when the pool can hold all of it.
    pub reserve_full_prompt: bool,
    /// A pass that computes prompt tokens does not decode.
    pub prefill_first: bool,
    /// How long passes take, and how fast time runs.
    pub timing: Timing,
    /// ZeroMQ topic; `None` is `kv@host:port@model` for vLLM, as llm-d names it, and empty for SGLang.
    pub topic: Option<String>,
    /// How the replay socket answers.
    pub replay_layout: ReplayLayout,
    /// Batches that the replay socket can repeat, 1 to 10,000.
    pub replay_batches: usize,
    /// Address of all listeners.
    pub host: IpAddr,
    /// HTTP port of the first engine, the others follow; 0 lets the system choose each.
    pub http_port: u16,
    /// First ZeroMQ port, two for each rank, the event streams of an engine in front of its replay sockets; 0 lets the
    /// system choose.
    pub events_port: u16,
}

/// The frames of a replay answer behind the empty delimiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayLayout {
    /// `topic, sequence, payload`: vLLM from 0.26, SGLang from 0.5.22.
    WithTopic,
    /// `sequence, payload`: everything before.
    Bare,
}

impl MockConfig {
    pub(super) fn scheduler(&self) -> SchedulerOptions {
        SchedulerOptions {
            block_size: self.block_size,
            kv_blocks: self.kv_blocks,
            max_batched_tokens: self.max_batched_tokens,
            max_running: self.max_running,
            reserve_full_prompt: self.reserve_full_prompt,
            prefill_first: self.prefill_first,
        }
    }

    pub(super) fn check(&self) -> Result<(), MockError> {
        within("engines", self.engines, 1, limits::ENGINES)?;
        within("ranks", self.ranks, 1, limits::RANKS)?;
        within("block_size", self.block_size, 1, limits::BLOCK_SIZE)?;
        within("kv_blocks", self.kv_blocks, 1, usize::MAX)?;
        within("max_model_len", self.max_model_len, 2, usize::MAX)?;
        within("max_batched_tokens", self.max_batched_tokens, 1, usize::MAX)?;
        within("max_running", self.max_running, 1, usize::MAX)?;
        within("replay_batches", self.replay_batches, 1, limits::REPLAY_BATCHES)?;
        self.check_ports()?;
        let speed = self.timing.speed;
        if !speed.is_finite() || speed <= 0.0 {
            return Err(refused("timing.speed", "finite and above 0", speed));
        }
        if self.model.is_empty() { Err(refused("model", "a name", "an empty text")) } else { Ok(()) }
    }

    fn check_ports(&self) -> Result<(), MockError> {
        let fits = |first: u16, count: usize| first == 0 || usize::from(first) + count <= 1 << 16;
        if !fits(self.http_port, self.engines) {
            return Err(refused("http_port", "low enough for one port an engine below 65,536", self.http_port));
        }
        if !fits(self.events_port, 2 * self.engines * self.ranks) {
            return Err(refused("events_port", "low enough for two ports a rank below 65,536", self.events_port));
        }
        Ok(())
    }
}

impl Default for MockConfig {
    fn default() -> Self {
        Self {
            engines: 2,
            ranks: 1,
            model: "mock".to_owned(),
            dialect: Dialect::Vllm,
            block_size: 16,
            kv_blocks: REFERENCE_TOKENS / 16,
            // The longest request of the published Mooncake traces has 191,378 + 512 tokens.
            max_model_len: 1 << 18,
            max_batched_tokens: 8_192,
            max_running: 256,
            reserve_full_prompt: true,
            prefill_first: false,
            timing: Timing::default(),
            topic: None,
            replay_layout: ReplayLayout::WithTopic,
            replay_batches: limits::REPLAY_BATCHES,
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            http_port: 0,
            events_port: 0,
        }
    }
}

fn within(field: &'static str, got: usize, low: usize, high: usize) -> Result<(), MockError> {
    if (low..=high).contains(&got) {
        return Ok(());
    }
    let expected = if high == usize::MAX { format!("at least {low}") } else { format!("from {low} to {high}") };
    Err(refused(field, &expected, got))
}

fn refused(field: &'static str, expected: &str, got: impl Display) -> MockError {
    MockError::Config { field, expected: expected.to_owned(), got: got.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_pass_and_each_fault_names_its_field() {
        assert!(MockConfig::default().check().is_ok());
        let message = |change: fn(&mut MockConfig)| {
            let mut config = MockConfig::default();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert_eq!(message(|c| c.ranks = 17), "mock engine: `ranks` must be from 1 to 16, got 17");
        assert_eq!(message(|c| c.kv_blocks = 0), "mock engine: `kv_blocks` must be at least 1, got 0");
        assert!(message(|c| c.timing.speed = f64::NAN).contains("`timing.speed`"));
        assert!(message(|c| c.http_port = 65_535).contains("`http_port`"));
        assert!(message(|c| c.model.clear()).contains("`model`"));
    }
}
