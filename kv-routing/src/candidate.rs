//! What a decision is made from.

use serde::{Deserialize, Serialize};

use crate::Threshold;

/// The request to place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// Tokens of the prompt; 0 when they are not known, which leaves only load to decide.
    pub prompt_tokens: u64,
    /// The worker that served the session before, as [`Sessions`](crate::select::Sessions) remembers it. It is kept while it may
    /// be chosen and its queue is no outlier.
    pub home: Option<u32>,
}

/// One worker that could serve it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each has another source, and records tell them apart")]
pub struct Candidate {
    /// The caller's number for the worker.
    pub worker: u32,
    /// What it will reuse of the prompt.
    pub overlap: Overlap,
    /// The worker may not have all of it any more, as after a loss of its events: the overlap is discounted.
    #[serde(skip_serializing_if = "is_default")]
    pub degraded: bool,
    /// Healthy, and its circuit breaker lets requests through.
    pub ready: bool,
    /// Unreachable or wedged: chosen only when nobody else is there.
    #[serde(skip_serializing_if = "is_default")]
    pub vetoed: bool,
    /// Above the thresholds of overload: chosen only when all are, and not even then if overload is shed.
    #[serde(skip_serializing_if = "is_default")]
    pub overloaded: bool,
    /// How busy it is.
    pub load: Load,
    /// Where it differs from the router's settings.
    #[serde(skip_serializing_if = "is_default")]
    pub overrides: Overrides,
}

/// What a worker will reuse of a prompt, in tokens. Each part follows the one before it in the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overlap {
    /// In the accelerator's memory.
    pub device_tokens: u64,
    /// Beyond that, in host memory: copied in, not computed.
    #[serde(skip_serializing_if = "is_default")]
    pub host_tokens: u64,
    /// Beyond that, on disk.
    #[serde(skip_serializing_if = "is_default")]
    pub disk_tokens: u64,
    /// Beyond that, expected and not announced: sent there a moment ago, or held without having been told.
    #[serde(skip_serializing_if = "is_default")]
    pub predicted_tokens: u64,
}

/// How busy a worker is, as far as the caller knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Requests of ours that it has not answered completely.
    pub in_flight: u32,
    /// Requests that it computes, as reported.
    #[serde(skip_serializing_if = "is_default")]
    pub running: u32,
    /// Requests in its queue, as reported.
    #[serde(skip_serializing_if = "is_default")]
    pub waiting: u32,
    /// Uncached prompt tokens that it must still compute: reported, and sent since.
    pub queued_tokens: u64,
    /// Tokens that our requests in flight add to its memory, prompts beyond their overlap and answers, by our own books: a report of
    /// memory is old by the time that it matters, and what requests share is there once. 0 without books; each request then
    /// counts as [`WAITING_TOKENS`](crate::limits::WAITING_TOKENS).
    #[serde(skip_serializing_if = "is_default")]
    pub kept_tokens: u64,
    /// Prompt tokens that it computes in a second, as measured.
    #[serde(skip_serializing_if = "is_default")]
    pub rate_tokens_per_s: Option<f32>,
    /// The share of its KV memory that running requests use, 0 to 1.
    #[serde(skip_serializing_if = "is_default")]
    pub kv_usage: Option<f32>,
    /// Whether the worker has reported at all. What others sent to one that has not is unknown.
    #[serde(skip_serializing_if = "is_default")]
    pub reported: bool,
}

/// One worker's own settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overrides {
    /// Its own limit of [`Router::max_waiting`](crate::Router::max_waiting); `None` is the router's.
    pub max_waiting: Option<Threshold>,
    /// Prompt tokens that it computes in a second, in place of what was measured: for a worker of another kind.
    pub tokens_per_s: Option<f32>,
    /// Seconds added to each of its costs: to drain it, or to keep it for later. Negative attracts.
    pub handicap_s: f32,
}

/// What the workers that may be chosen have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fleet {
    /// How many there are.
    pub eligible: u32,
    /// Requests in flight of each, on average.
    pub in_flight_mean: f64,
    /// Prompt tokens that one computes in a second: the mean over those that compute something now, at least the router's setting.
    pub tokens_per_s: f64,
    /// The shortest queue among those that report, in seconds: what those that do not are taken to have. Nothing where all report.
    pub least_wait_s: Option<f64>,
}

impl Candidate {
    /// The same candidate for every decision, in numbers that every format can store.
    pub(crate) fn storable(&self) -> Self {
        let number = |number: Option<f32>| number.filter(|number| number.is_finite());
        let mut stored = *self;
        stored.load.rate_tokens_per_s = number(stored.load.rate_tokens_per_s);
        stored.load.kv_usage = number(stored.load.kv_usage);
        stored.overrides.tokens_per_s = number(stored.overrides.tokens_per_s);
        stored.overrides.max_waiting = stored.overrides.max_waiting.map(Threshold::storable);
        stored.overrides.handicap_s = number(Some(stored.overrides.handicap_s)).unwrap_or(0.0);
        stored
    }

    /// Whether nothing speaks against choosing it.
    pub const fn is_eligible(&self) -> bool {
        self.ready && !self.vetoed && !self.overloaded
    }
}

impl Overlap {
    /// All of it in the accelerator's memory.
    pub const fn device(tokens: u64) -> Self {
        Self { device_tokens: tokens, host_tokens: 0, disk_tokens: 0, predicted_tokens: 0 }
    }

    /// The tokens of all tiers, the predicted ones too.
    pub const fn tokens(&self) -> u64 {
        self.announced_tokens().saturating_add(self.predicted_tokens)
    }

    /// The tokens that the worker has announced.
    pub const fn announced_tokens(&self) -> u64 {
        self.device_tokens.saturating_add(self.host_tokens).saturating_add(self.disk_tokens)
    }
}

impl Load {
    /// The rate, if it is one and the worker is working: what an idle one last did is old.
    pub(crate) fn live_rate(&self) -> Option<f64> {
        self.rate_tokens_per_s.filter(|rate| self.running > 0 && rate.is_finite() && *rate > 0.0).map(f64::from)
    }

    /// The usage, if it is one.
    pub(crate) fn usage(&self) -> Option<f64> {
        self.kv_usage.filter(|usage| usage.is_finite()).map(|usage| f64::from(usage).clamp(0.0, 1.0))
    }
}

impl Default for Candidate {
    fn default() -> Self {
        Self {
            worker: 0,
            overlap: Overlap::default(),
            degraded: false,
            ready: true,
            vetoed: false,
            overloaded: false,
            load: Load::default(),
            overrides: Overrides::default(),
        }
    }
}

/// Records leave out what is as it is by default.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
