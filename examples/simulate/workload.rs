//! Who asks for what, and when: open loop, from one seed.

use std::time::Duration;

use kv_routing::select::Draw;

use crate::mock_engine::Prompt;

/// One request.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// When it comes.
    pub at: Duration,
    /// Its tokens, with the names of its blocks.
    pub prompt: Prompt,
    /// Tokens of its answer.
    pub output_tokens: usize,
}

/// Arrivals in the making.
#[derive(Debug)]
pub struct Workload {
    /// In the order of their time, once [`finish`](Self::finish) has sorted them.
    arrivals: Vec<Arrival>,
    block_size: usize,
    draw: Draw,
    segments: u64,
}

/// A run of tokens that is the same wherever it occurs.
pub(super) type Segment = (u64, usize);

impl Workload {
    /// Nothing yet.
    pub fn new(block_size: usize, seed: u64) -> Self {
        Self { arrivals: Vec::new(), block_size, draw: Draw::new(seed), segments: 0 }
    }

    /// A run of tokens that nothing else has.
    pub fn segment(&mut self, tokens: usize) -> (u64, usize) {
        self.segments += 1;
        (self.segments, tokens)
    }

    /// A request of these runs.
    pub fn arrive(&mut self, at: Duration, segments: &[(u64, usize)], output_tokens: usize) {
        let prompt = self.prompt(segments);
        self.arrivals.push(Arrival { at, prompt, output_tokens });
    }

    /// A prompt of these runs.
    pub fn prompt(&self, segments: &[(u64, usize)]) -> Prompt {
        let tokens = segments.iter().flat_map(|&segment| tokens(segment)).collect();
        Prompt::new(tokens, self.block_size)
    }

    /// Times of a Poisson process of so many a second, until `end`.
    pub fn times(&mut self, per_s: f64, end: Duration) -> Vec<Duration> {
        let mut at = 0.0;
        let gaps = std::iter::from_fn(|| {
            at -= (1.0 - self.draw.fraction()).ln() / per_s;
            (at < end.as_secs_f64()).then(|| Duration::from_secs_f64(at))
        });
        gaps.collect()
    }

    /// A number from `low` to `high`, evenly.
    pub fn within(&mut self, low: usize, high: usize) -> usize {
        low + self.draw.place(high - low + 1).unwrap_or(0)
    }

    /// Whether something of this probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.draw.fraction() < probability
    }

    /// All arrivals, by time.
    pub fn finish(mut self) -> Vec<Arrival> {
        self.arrivals.sort_by_key(|arrival| arrival.at);
        self.arrivals
    }
}

fn tokens((segment, count): Segment) -> impl Iterator<Item = u32> {
    let mut draw = Draw::new(segment);
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are as random as the others")]
    (0..count).map(move |_| draw.next_u64() as u32)
}
