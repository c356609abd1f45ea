//! The content of prompts: what a hash id stands for.

use super::trace::Row;
use crate::mock_engine::{SplitMix64, mix64};

/// Makes prompts out of hash ids. The same seed and id give the same content, wherever it stands.
#[derive(Debug, Clone)]
pub struct PromptSource {
    /// Seed of all content.
    pub seed: u64,
    /// Different words, and different token ids: `w0`, `w1`, ... and 0, 1, ...
    pub vocabulary: u32,
    /// Words that a hash id stands for in a text prompt.
    pub words_per_block: usize,
}

impl PromptSource {
    /// The prompt as token ids: 512 for each hash id, the last one cut so that the prompt has the row's length. A length
    /// that does not fit the number of ids is brought into the range that does.
    pub fn tokens(&self, row: &Row) -> Vec<u32> {
        let blocks = row.hash_ids.iter().flat_map(|&id| self.block(id).take(TOKENS_PER_BLOCK));
        let full = row.hash_ids.len() * TOKENS_PER_BLOCK;
        let len = usize::try_from(row.input_length).unwrap_or(full).clamp(full - TOKENS_PER_BLOCK + 1, full);
        blocks.take(len).collect()
    }

    /// The prompt as text: for each hash id a line of words.
    pub fn text(&self, row: &Row) -> String {
        let mut text = String::with_capacity(row.hash_ids.len() * self.words_per_block * 6);
        for (line, &id) in row.hash_ids.iter().enumerate() {
            for (place, word) in self.block(id).take(self.words_per_block).enumerate() {
                text.push_str(match (line, place) {
                    (0, 0) => "w",
                    (_, 0) => "\nw",
                    _ => " w",
                });
                text.push_str(&word.to_string());
            }
        }
        text
    }

    fn block(&self, id: u64) -> impl Iterator<Item = u32> + use<> {
        let mut random = SplitMix64::new(mix64(self.seed) ^ mix64(!id));
        let vocabulary = u64::from(self.vocabulary);
        std::iter::repeat_with(move || u32::try_from(random.below(vocabulary)).unwrap_or(0))
    }
}

/// What a hash id stands for in the Mooncake traces.
pub(super) const TOKENS_PER_BLOCK: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: PromptSource = PromptSource { seed: 7, vocabulary: 1_000, words_per_block: 3 };

    fn row(input_length: u64, hash_ids: &[u64]) -> Row {
        Row { timestamp: 0.0, input_length, output_length: 1, hash_ids: hash_ids.to_vec() }
    }

    #[test]
    fn tokens_have_the_rows_length_and_shared_ids_share_a_prefix() {
        let first = SOURCE.tokens(&row(1_000, &[1, 2]));
        let second = SOURCE.tokens(&row(1_030, &[1, 2, 3]));
        assert_eq!((first.len(), second.len()), (1_000, 1_030));
        assert_eq!(first[..], second[..1_000]);
        assert!(first.iter().all(|&token| token < 1_000));
        assert_ne!(first[..512], SOURCE.tokens(&row(512, &[9]))[..]);
    }

    #[test]
    fn a_length_that_does_not_fit_its_ids_is_brought_near() {
        assert_eq!(SOURCE.tokens(&row(5, &[1, 2])).len(), 513);
        assert_eq!(SOURCE.tokens(&row(9_999, &[1, 2])).len(), 1_024);
    }

    #[test]
    fn texts_are_lines_of_words() {
        let text = SOURCE.text(&row(1_000, &[1, 2]));
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
        assert!(lines.iter().all(|words| words.len() == 3 && words.iter().all(|word| word.starts_with('w'))));
        assert_eq!(lines.len(), 2);
        assert_eq!(text, SOURCE.text(&row(3, &[1, 2])));
    }
}
