//! Times of single calls, and their percentiles.

use std::time::Instant;

/// Times of many calls, in ns.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    ns: Vec<u64>,
}

/// A stopwatch that knows what reading it costs.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    overhead_ns: u64,
}

impl Stopwatch {
    /// Measures the stopwatch itself: the median of an empty call.
    pub fn calibrated() -> Self {
        let mut empty = Latencies::default();
        let raw = Self { overhead_ns: 0 };
        (0..10_001).for_each(|_| empty.push(raw.time(|| ()).1));
        Self { overhead_ns: empty.percentile(50.0) as u64 }
    }

    /// Runs `call` once and says what it took, in ns, without the stopwatch's own share.
    pub fn time<T>(self, call: impl FnOnce() -> T) -> (T, u64) {
        let began = Instant::now();
        let answer = call();
        let ns = began.elapsed().as_nanos() as u64;
        (answer, ns.saturating_sub(self.overhead_ns))
    }
}

impl Latencies {
    pub fn push(&mut self, ns: u64) {
        self.ns.push(ns);
    }

    /// Takes another's times in.
    pub fn extend(&mut self, other: Self) {
        self.ns.extend(other.ns);
    }

    pub fn len(&self) -> usize {
        self.ns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ns.is_empty()
    }

    /// The smallest time that `percent` of all calls did not exceed; 0 of none.
    pub fn percentile(&mut self, percent: f64) -> f64 {
        if self.ns.is_empty() {
            return 0.0;
        }
        self.ns.sort_unstable();
        let rank = (percent / 100.0 * self.ns.len() as f64).ceil() as usize;
        self.ns[rank.clamp(1, self.ns.len()) - 1] as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_value_at_its_rank() {
        let mut times = Latencies::default();
        (1..=200).rev().for_each(|ns| times.push(ns));
        assert_eq!([50.0, 99.0, 100.0].map(|percent| times.percentile(percent)), [100.0, 198.0, 200.0]);
    }
}
