//! Percentiles, and the bars that they are held against.

use std::fmt;

use serde::Serialize;

/// What a 99th percentile may be, and what it should be, in us.
#[derive(Clone, Copy, Serialize)]
pub struct Bar {
    pub most: f64,
    pub goal: f64,
}

/// The times of one round, in ns: hashing, finding, choosing.
#[derive(Clone)]
pub struct Row {
    times: Vec<[u64; 3]>,
    /// Bytes that were live at the end and not after the warm-up.
    pub allocated: i64,
}

/// One contender's figures: medians over rounds, in us.
#[derive(Clone, Serialize)]
pub struct Line {
    workers: u32,
    contender: String,
    /// Finding and choosing together, at 50, 99 and 99.9 %.
    decision_us: [f64; 3],
    /// The lowest and the highest 99th percentile of the rounds.
    p99_range_us: [f64; 2],
    /// At 50 and 99 %.
    find_us: [f64; 2],
    choose_us: [f64; 2],
    hash_us: [f64; 2],
    bytes_left: i64,
    bar_us: Option<Bar>,
}

pub const HEAD: &str = "\
                                            find + choose, us      p99 of rounds      find, us       choose, us         hash, us   bytes
                                            p50    p99  p99.9      least   most    p50    p99      p50    p99       p50    p99    left";

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
}

impl Line {
    /// The medians of `rows`.
    pub fn of(workers: u32, contender: &str, rows: &[Row], bar_us: Option<Bar>) -> Self {
        let both: fn(&[u64; 3]) -> u64 = |times| times[1] + times[2];
        let all = |part, per_mille| {
            let mut all: Vec<f64> = rows.iter().map(|row| row.us(part, per_mille)).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let us = |part: fn(&[u64; 3]) -> u64, per_mille| all(part, per_mille)[rows.len() / 2];
        let pair = |part| [us(part, 500), us(part, 990)];
        let p99s = all(both, 990);
        Self {
            workers,
            contender: contender.to_owned(),
            decision_us: [500, 990, 999].map(|per_mille| us(both, per_mille)),
            p99_range_us: [p99s[0], p99s[p99s.len() - 1]],
            find_us: pair(|times| times[1]),
            choose_us: pair(|times| times[2]),
            hash_us: pair(|times| times[0]),
            bytes_left: rows.iter().map(|row| row.allocated).max().unwrap_or(0),
            bar_us,
        }
    }

    fn verdict(&self) -> String {
        self.bar_us.map_or(String::new(), |Bar { most, goal }| {
            let p99 = self.decision_us[1];
            let word = if p99 <= goal {
                "goal"
            } else if p99 <= most {
                "held"
            } else {
                "MISSED"
            };
            format!("   {word}: at most {most}, goal {goal}")
        })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = |values: &[f64]| values.iter().map(|us| format!("{us:7.2}")).collect::<String>();
        let name = format!("{} workers, {}", self.workers, self.contender);
        write!(f, "{name:40}{}    {}", columns(&self.decision_us), columns(&self.p99_range_us))?;
        let parts = [self.find_us, self.choose_us, self.hash_us].map(|part| columns(&part) + "   ");
        write!(f, "{}{:8}{}", parts.concat(), self.bytes_left, self.verdict())
    }
}
