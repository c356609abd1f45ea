//! Two decoders in turns over the same payloads.

use std::fmt;
use std::hint::black_box;

use contest::measure::clock::thread_ns;
use kv_events::wire::decode_batch;

use crate::peer;

/// How a race went.
pub struct Figures {
    /// Their time over ours, for each turn, ascending.
    ratios: Vec<f64>,
    /// CPU time of all turns for a byte, in ns.
    ours: f64,
    theirs: f64,
}

/// CPU time of one turn, about, in ns.
const TURN_NS: u64 = 4_000_000;

pub fn race(payloads: &[&[u8]], turns: usize) -> Figures {
    let bytes: usize = payloads.iter().map(|payload| payload.len()).sum();
    let ours = |passes| pass(payloads, passes, |payload| drop(black_box(decode_batch(black_box(payload)))));
    let theirs = |passes| pass(payloads, passes, |payload| _ = black_box(peer::decode(black_box(payload))));
    // Warm, and long enough for the clock.
    let once = ours(1).min(ours(1)).max(1);
    let passes = if turns > 1 { (TURN_NS / once).max(1) } else { 1 };
    let (mut figures, mut sums) = (Figures { ratios: Vec::new(), ours: 0.0, theirs: 0.0 }, (0, 0));
    for turn in 0..turns {
        // Whoever comes second finds the payloads in the cache: both do, in turns.
        let (mine, other) = if turn % 2 == 0 { (ours(passes), theirs(passes)) } else { swap(theirs(passes), ours(passes)) };
        figures.ratios.push(other as f64 / mine as f64);
        sums = (sums.0 + mine, sums.1 + other);
    }
    figures.ratios.sort_by(f64::total_cmp);
    let all = (bytes as u64 * passes * turns as u64) as f64;
    Figures { ours: sums.0 as f64 / all, theirs: sums.1 as f64 / all, ..figures }
}

fn swap(first: u64, second: u64) -> (u64, u64) {
    (second, first)
}

/// CPU time of `passes` over all payloads, in ns.
fn pass(payloads: &[&[u8]], passes: u64, decode: impl Fn(&[u8])) -> u64 {
    let began = thread_ns();
    for _ in 0..passes {
        payloads.iter().for_each(|payload| decode(payload));
    }
    thread_ns() - began
}

impl Figures {
    pub const HEADER: &str = "\
| payloads | raced | read by ours alone | by theirs alone | ours, ns a byte | theirs | theirs / ours, median | lower and upper tenth |
|---|---|---|---|---|---|---|---|
";
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |part: usize| self.ratios[(self.ratios.len() - 1) * part / 10];
        let (ours, theirs) = (self.ours, self.theirs);
        write!(f, "{ours:.3} | {theirs:.3} | {:.2} | {:.2} - {:.2} |", at(5), at(1), at(9))
    }
}
