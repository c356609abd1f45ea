//! Percentiles, and the bars that they are held against.

/// What a 99th percentile may be, and what it should be, in us.
#[derive(Clone, Copy)]
pub struct Bar {
    pub most: f64,
    pub goal: f64,
}

/// The times of one row, in ns: hashing, finding, choosing.
pub struct Row {
    times: Vec<[u64; 3]>,
    /// Bytes that were live at the end and not after the warm-up.
    pub allocated: i64,
}

pub const HEAD: &str = "\
                                            find + choose, us           find, us       choose, us         hash, us   bytes
                                            p50    p99  p99.9        p50    p99      p50    p99       p50    p99    left";

impl Row {
    pub fn with_room(count: usize) -> Self {
        Self { times: Vec::with_capacity(count), allocated: 0 }
    }

    pub fn push(&mut self, times: [u64; 3]) {
        self.times.push(times);
    }

    /// The time of which so many in a thousand were shorter, in us.
    fn us(&self, part: fn(&[u64; 3]) -> u64, per_mille: usize) -> f64 {
        let mut sorted: Vec<u64> = self.times.iter().map(part).collect();
        sorted.sort_unstable();
        sorted[(sorted.len() - 1) * per_mille / 1_000] as f64 / 1_000.0
    }

    pub fn line(&self, name: &str, bar: Option<Bar>) -> String {
        let both: fn(&[u64; 3]) -> u64 = |times| times[1] + times[2];
        let parts: [fn(&[u64; 3]) -> u64; 3] = [|times| times[1], |times| times[2], |times| times[0]];
        let total = [500, 990, 999].map(|share| format!("{:7.2}", self.us(both, share))).concat();
        let parts = parts.map(|part| format!("    {:7.2}{:7.2}", self.us(part, 500), self.us(part, 990))).concat();
        let p99 = self.us(both, 990);
        let verdict = bar.map_or(String::new(), |Bar { most, goal }| {
            let word = if p99 <= goal {
                "goal"
            } else if p99 <= most {
                "held"
            } else {
                "MISSED"
            };
            format!("   {word}: at most {most}, goal {goal}")
        });
        format!("{name:40}{total}{parts}{:8}{verdict}", self.allocated)
    }
}
