//! What one rank was given and what came of it: the one place where it is counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one rank. Each is exact on its own; a reader may see one request in some of them only.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Requests sent.
    pub(crate) requests: Count,
    /// Of these, with a salt.
    pub(crate) salted: Count,
    /// Requests that ended without a whole answer, for a reason of the engine's.
    pub(crate) failures: Count,
    /// Answers that told their cached tokens, to requests whose tokens were known. What follows is about these.
    pub(crate) compared: Count,
    /// Answers whose cached tokens were as predicted.
    pub(crate) equal: Count,
    /// Tokens of their prompts.
    pub(crate) prompt_tokens: Count,
    /// Tokens that were predicted to be cached.
    pub(crate) predicted_tokens: Count,
    /// Tokens that were.
    pub(crate) cached_tokens: Count,
}

/// A number that several threads change.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Tally {
    /// Takes in one answer whose cached tokens are known.
    pub(crate) fn compare(&self, prompt_tokens: u64, predicted_tokens: u64, cached_tokens: u64) {
        self.compared.add(1);
        self.equal.add(u64::from(predicted_tokens == cached_tokens));
        self.prompt_tokens.add(prompt_tokens);
        self.predicted_tokens.add(predicted_tokens);
        self.cached_tokens.add(cached_tokens);
    }

    /// Which share of the prompts' tokens was cached; nothing before the first answer that tells.
    pub(crate) fn hit_rate(&self) -> Option<f64> {
        let prompt_tokens = self.prompt_tokens.value();
        (prompt_tokens > 0).then(|| ratio(self.cached_tokens.value(), prompt_tokens))
    }
}

impl Count {
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: the counters order nothing else.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// `part` of `whole`, to the precision of a report.
#[expect(clippy::cast_precision_loss, reason = "beyond 2^53 tokens the last digits of a percentage do not matter")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
