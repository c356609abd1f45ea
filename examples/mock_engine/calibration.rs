//! Prefill times measured on a real engine.
//!
//! ```json
//! {"prefill": [[1, 14.2], [512, 21.0], [8192, 171.3]],
//!  "batch": {"intercept_ms": 12.0, "ms_per_token": 0.0191},
//!  "capacity_tokens": 390000,
//!  "request_overhead_ms": 3.5}
//! ```

use std::path::Path;

use serde::Deserialize;

use super::error::MockError;
use super::timing::{PassWork, float};

/// A measured cost table.
///
/// One request alone costs what the table says. Several together cost `intercept + slope * tokens`, but never less than
/// the largest of them would cost alone.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Points of (uncached tokens, ms), by rising tokens; straight lines between them.
    prefill: Vec<(usize, f64)>,
    batch: BatchLine,
    /// Tokens of the pool that was measured: the reference of the decode cost.
    capacity_tokens: usize,
    /// What HTTP and tokenizer add before anything of a request is seen.
    #[serde(default)]
    request_overhead_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchLine {
    intercept_ms: f64,
    ms_per_token: f64,
}

impl Calibration {
    /// Reads and checks a calibration file.
    ///
    /// # Errors
    /// [`MockError::Calibration`] with the path and what is wrong: unreadable, not this JSON, fewer than two points,
    /// tokens that do not rise, times that are negative or not finite, no capacity.
    pub fn read(path: &Path) -> Result<Self, MockError> {
        let fail = |reason: String| MockError::Calibration { path: path.display().to_string(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        let table: Self = serde_json::from_str(&text).map_err(|error| fail(error.to_string()))?;
        table.fault().map_or(Ok(table), |reason| Err(fail(reason)))
    }

    /// The prefill part of a pass.
    pub(super) fn pass_ms(&self, work: PassWork) -> f64 {
        match work.prefill_sequences {
            0 => 0.0,
            1 => self.alone_ms(work.prefill_tokens),
            _ => {
                let line = self.batch.intercept_ms + self.batch.ms_per_token * float(work.prefill_tokens);
                line.max(self.alone_ms(work.largest_prefill_tokens))
            }
        }
    }

    /// Tokens of the pool that was measured.
    pub(super) fn reference_tokens(&self) -> usize {
        self.capacity_tokens
    }

    /// What is added in front of every event of a request.
    pub(super) fn request_overhead_ms(&self) -> f64 {
        self.request_overhead_ms
    }

    /// Piecewise linear; beyond the ends the first and last pieces go on, the last one never downwards: a table whose
    /// last two points fall by noise must not make long prompts free.
    fn alone_ms(&self, tokens: usize) -> f64 {
        let last = self.prefill.len() - 2;
        let piece = self.prefill[1..].iter().position(|&(end, _)| tokens <= end).unwrap_or(last);
        let ((start, start_ms), (end, end_ms)) = (self.prefill[piece], self.prefill[piece + 1]);
        let slope = (end_ms - start_ms) / float(end - start);
        if tokens > end {
            return end_ms + slope.max(0.0) * float(tokens - end);
        }
        start_ms + slope * (float(tokens) - float(start))
    }

    fn fault(&self) -> Option<String> {
        let bad_ms = |ms: f64| !ms.is_finite() || ms < 0.0;
        if self.prefill.len() < 2 {
            return Some(format!("`prefill` needs at least 2 points, got {}", self.prefill.len()));
        }
        if let Some(pair) = self.prefill.windows(2).find(|pair| pair[1].0 <= pair[0].0) {
            return Some(format!("`prefill` must rise in tokens, got {} after {}", pair[1].0, pair[0].0));
        }
        if let Some((tokens, ms)) = self.prefill.iter().find(|point| bad_ms(point.1)) {
            return Some(format!("`prefill` has {ms} ms at {tokens} tokens"));
        }
        if [self.batch.intercept_ms, self.batch.ms_per_token, self.request_overhead_ms].into_iter().any(bad_ms) {
            return Some("`batch` and `request_overhead_ms` must be finite and not negative".to_owned());
        }
        (self.capacity_tokens == 0).then(|| "`capacity_tokens` must be at least 1".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(points: &str) -> Calibration {
        let text = format!(
            r#"{{"prefill": {points}, "batch": {{"intercept_ms": 10.0, "ms_per_token": 0.01}}, "capacity_tokens": 1000}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn alone(table: &Calibration, tokens: usize) -> f64 {
        table.pass_ms(PassWork { prefill_tokens: tokens, prefill_sequences: 1, ..PassWork::default() })
    }

    #[track_caller]
    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-9, "expected {expected}, got {got}");
    }

    #[test]
    fn a_lone_request_follows_the_table() {
        let table = table("[[100, 10.0], [200, 30.0], [400, 20.0]]");
        close(alone(&table, 100), 10.0);
        close(alone(&table, 150), 20.0);
        close(alone(&table, 300), 25.0);
        close(alone(&table, 800), 20.0);
    }

    #[test]
    fn a_batch_follows_the_line_but_not_below_its_largest() {
        let table = table("[[0, 0.0], [100, 50.0]]");
        let mut work = PassWork { prefill_tokens: 110, largest_prefill_tokens: 100, prefill_sequences: 2, ..Default::default() };
        close(table.pass_ms(work), 50.0);
        work.largest_prefill_tokens = 10;
        close(table.pass_ms(work), 11.1);
    }

    #[test]
    fn faults_are_named() {
        let fault = |points: &str| table(points).fault().unwrap();
        assert!(fault("[[1, 1.0]]").contains("got 1"));
        assert!(fault("[[2, 1.0], [2, 2.0]]").contains("got 2 after 2"));
        assert!(fault("[[1, 1.0], [2, -2.0]]").contains("-2 ms at 2 tokens"));
    }
}
