//! How long a scheduler pass takes.
//!
//! The polynomial is fitted to measurements of one accelerator serving an 8-billion-parameter class model; the linear
//! model is easy to reason about in tests; a calibration file replays a table measured elsewhere.

use std::time::Duration;

use super::calibration::Calibration;

/// What one pass computes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassWork {
    /// Prompt tokens computed, that is, not served from the cache.
    pub prefill_tokens: usize,
    /// The largest share of one sequence in `prefill_tokens`.
    pub largest_prefill_tokens: usize,
    /// Sequences whose prompt was advanced.
    pub prefill_sequences: usize,
    /// Sequences that decoded one token.
    pub decode_sequences: usize,
    /// Tokens in the contexts of those sequences.
    pub decode_context_tokens: usize,
}

/// The cost of a pass.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TimingModel {
    /// Prefill is a quadratic of the tokens, decode of the share of [`REFERENCE_TOKENS`] that is being decoded.
    Polynomial,
    /// 8,000 prompt tokens a second; a decode step is 6 ms and 0.35 ms for each sequence.
    Linear,
    /// A measured table.
    Calibrated(Calibration),
}

/// A cost model and the rate at which its time passes.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// The cost of a pass.
    pub model: TimingModel,
    /// Simulated time over real time, finite and above 0: at 10, a pass of 30 ms takes 3 ms. Replays at a high speedup
    /// need engines that are faster by about as much.
    pub speed: f64,
}

impl Timing {
    /// The duration of a pass in simulated time, never below 1 ms: a pass without length would let a simulation spin.
    pub fn simulated(&self, work: PassWork) -> Duration {
        let ms = match &self.model {
            TimingModel::Polynomial => polynomial_ms(work),
            TimingModel::Linear => linear_ms(work),
            TimingModel::Calibrated(table) => table.pass_ms(work) + decode_ms(work, table.reference_tokens()),
        };
        Duration::from_secs_f64(ms.max(SHORTEST_PASS_MS) / 1_000.0)
    }

    /// The duration of a pass on the clock.
    pub fn real(&self, work: PassWork) -> Duration {
        self.simulated(work).div_f64(self.speed)
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self { model: TimingModel::Polynomial, speed: 1.0 }
    }
}

fn polynomial_ms(work: PassWork) -> f64 {
    let prefill_ms = if work.prefill_tokens == 0 {
        0.0
    } else {
        let tokens = float(work.prefill_tokens);
        PREFILL_MS + PREFILL_MS_PER_TOKEN * tokens + PREFILL_MS_PER_TOKEN_SQUARED * tokens * tokens
    };
    prefill_ms + decode_ms(work, REFERENCE_TOKENS)
}

/// The cost of decoding grows with the context that the attention reads, as a share of a reference capacity. The
/// reference is a constant of the accelerator, not the configured pool: a test that shrinks the pool must not slow the
/// engine down.
fn decode_ms(work: PassWork, reference_tokens: usize) -> f64 {
    if work.decode_sequences == 0 {
        return 0.0;
    }
    let share = (float(work.decode_context_tokens) / float(reference_tokens)).min(1.0);
    (DECODE_MS + DECODE_MS_PER_SHARE * share + DECODE_MS_PER_SHARE_SQUARED * share * share).max(SHORTEST_PASS_MS)
}

fn linear_ms(work: PassWork) -> f64 {
    let prefill_ms = float(work.prefill_tokens) / LINEAR_PREFILL_TOKENS_PER_MS;
    if work.decode_sequences == 0 {
        return prefill_ms;
    }
    prefill_ms + LINEAR_DECODE_MS + LINEAR_DECODE_MS_PER_SEQUENCE * float(work.decode_sequences)
}

/// Exact for every count that a simulation can reach (below 2^53).
#[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^53")]
pub(super) fn float(count: usize) -> f64 {
    count as f64
}

/// The pool that the decode polynomial was fitted on, in tokens.
pub const REFERENCE_TOKENS: usize = 524_288;

const SHORTEST_PASS_MS: f64 = 1.0;
const PREFILL_MS: f64 = 16.501_42;
const PREFILL_MS_PER_TOKEN: f64 = 1.518_344e-2;
const PREFILL_MS_PER_TOKEN_SQUARED: f64 = 4.209_989e-7;
const DECODE_MS: f64 = 5.74;
const DECODE_MS_PER_SHARE: f64 = 54.01;
const DECODE_MS_PER_SHARE_SQUARED: f64 = -25.74;
const LINEAR_PREFILL_TOKENS_PER_MS: f64 = 8.0;
const LINEAR_DECODE_MS: f64 = 6.0;
const LINEAR_DECODE_MS_PER_SEQUENCE: f64 = 0.35;

#[cfg(test)]
mod tests {
    use super::*;

    fn prefill(tokens: usize) -> PassWork {
        PassWork { prefill_tokens: tokens, largest_prefill_tokens: tokens, prefill_sequences: 1, ..PassWork::default() }
    }

    fn decode(sequences: usize, context_tokens: usize) -> PassWork {
        PassWork { decode_sequences: sequences, decode_context_tokens: context_tokens, ..PassWork::default() }
    }

    fn ms(model: TimingModel, work: PassWork) -> f64 {
        Timing { model, speed: 1.0 }.simulated(work).as_secs_f64() * 1_000.0
    }

    #[track_caller]
    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 0.005, "expected {expected} ms, got {got} ms");
    }

    #[test]
    fn polynomial_pins() {
        close(ms(TimingModel::Polynomial, prefill(1_024)), 32.49);
        close(ms(TimingModel::Polynomial, decode(1, 1_024)), 5.85);
        close(ms(TimingModel::Polynomial, decode(256, 10 * REFERENCE_TOKENS)), 5.74 + 54.01 - 25.74);
    }

    #[test]
    fn linear_pins() {
        close(ms(TimingModel::Linear, prefill(8_000)), 1_000.0);
        close(ms(TimingModel::Linear, decode(10, 1)), 9.5);
    }

    #[test]
    fn no_pass_is_free_and_speed_divides() {
        close(ms(TimingModel::Linear, PassWork::default()), 1.0);
        let fast = Timing { model: TimingModel::Polynomial, speed: 10.0 };
        close(fast.real(prefill(1_024)).as_secs_f64() * 10_000.0, 32.49);
    }
}
