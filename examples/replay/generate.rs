//! A made-up trace: conversations that grow turn by turn behind a few system prompts.

use crate::mock_engine::SplitMix64;

use super::prompt::TOKENS_PER_BLOCK;
use super::trace::Row;

/// What to make up.
#[derive(Debug, Clone, Copy)]
pub struct GeneratorOptions {
    /// Requests.
    pub rows: usize,
    /// The same seed gives the same trace.
    pub seed: u64,
}

/// Makes a trace up, in order of time.
///
/// A conversation starts every two seconds on average, with one of four system prompts of 1 to 3 blocks. It has 1 to 8
/// turns; a turn adds a question, asks for an answer, and is followed by a pause for reading. The next turn's prompt
/// starts with the last one and its answer, so it shares all full blocks of the last prompt, and the block that was not
/// full then has another id now. The trace ends with its last row, not with the last turn of every conversation.
pub fn generate(options: GeneratorOptions) -> Vec<Row> {
    let mut random = SplitMix64::new(options.seed);
    let mut ids = 0..;
    let systems: Vec<Vec<u64>> = (1..=SYSTEM_PROMPTS).map(|n| ids.by_ref().take(1 + n % 3).collect()).collect();
    let (mut rows, mut start_ms) = (Vec::new(), 0);
    // Each conversation has a row at its start, so as many conversations are more than enough.
    for _ in 0..options.rows {
        let system = pick(&mut random, &systems).clone();
        rows.extend(conversation(&mut random, &mut ids, system, start_ms));
        start_ms += random.below(2 * MEAN_GAP_MS);
    }
    rows.sort_by(|a, b| a.timestamp.total_cmp(&b.timestamp));
    rows.truncate(options.rows);
    rows
}

fn conversation(
    random: &mut SplitMix64,
    ids: &mut impl Iterator<Item = u64>,
    mut hash_ids: Vec<u64>,
    mut now_ms: u64,
) -> Vec<Row> {
    let mut context = hash_ids.len() * TOKENS_PER_BLOCK;
    let mut rows = Vec::new();
    for _ in 0..=random.below(8) {
        context += between(random, 40, 700);
        hash_ids.truncate(rows.last().map_or(hash_ids.len(), |row: &Row| full_blocks(row.input_length)));
        hash_ids.extend(ids.take(context.div_ceil(TOKENS_PER_BLOCK).saturating_sub(hash_ids.len())));
        let answer = between(random, 10, 300);
        rows.push(Row {
            timestamp: milliseconds(now_ms),
            input_length: context as u64,
            output_length: answer as u64,
            hash_ids: hash_ids.clone(),
        });
        context += answer;
        now_ms += between(random, 3_000, 20_000) as u64;
    }
    rows
}

fn full_blocks(tokens: u64) -> usize {
    usize::try_from(tokens).unwrap_or(usize::MAX) / TOKENS_PER_BLOCK
}

fn pick<'a, T>(random: &mut SplitMix64, items: &'a [T]) -> &'a T {
    &items[usize::try_from(random.below(items.len() as u64)).unwrap_or(0)]
}

fn between(random: &mut SplitMix64, low: u64, high: u64) -> usize {
    usize::try_from(low + random.below(high - low)).unwrap_or(usize::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a trace of 2^53 ms lasts 285,000 years")]
fn milliseconds(ms: u64) -> f64 {
    ms as f64
}

const SYSTEM_PROMPTS: usize = 4;
const MEAN_GAP_MS: u64 = 2_000;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::replay::read_trace;

    #[test]
    fn the_trace_in_the_repository_is_seed_7() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/small.jsonl");
        assert_eq!(read_trace(&path).unwrap(), generate(GeneratorOptions { rows: 300, seed: 7 }));
    }

    #[test]
    fn rows_are_sorted_and_have_an_id_for_every_started_block() {
        let rows = generate(GeneratorOptions { rows: 300, seed: 1 });
        assert_eq!(rows.len(), 300);
        assert!(rows.windows(2).all(|pair| pair[0].timestamp <= pair[1].timestamp));
        assert!(rows.iter().all(|row| row.input_length.div_ceil(512) == row.hash_ids.len() as u64));
    }

    #[test]
    fn turns_share_full_blocks_only() {
        let (mut random, mut ids) = (SplitMix64::new(3), 10..);
        let rows = std::iter::repeat_with(|| conversation(&mut random, &mut ids, vec![0], 0)).find(|rows| rows.len() > 3);
        let rows = rows.unwrap();
        for pair in rows.windows(2) {
            let full = full_blocks(pair[0].input_length);
            assert_eq!(pair[0].hash_ids[..full], pair[1].hash_ids[..full]);
            let tail = &pair[0].hash_ids[full..];
            assert!(tail.iter().all(|id| !pair[1].hash_ids.contains(id)));
        }
    }
}
