//! A tokenizer without a vocabulary file: one token for each word between white space.
//!
//! The id of a word is a hash of it, the same in every process, so a router that asks `/tokenize` and an engine that
//! gets the text agree. Words that the mock engines produced themselves map back to the id they came from: an answer
//! that comes back in the next turn of a chat finds the blocks that were decoded for it.

use super::sequence::{OUTPUT_TOKENS_END, OUTPUT_TOKENS_START};
use super::splitmix::{mix30, mix64};

/// The token ids of `text`.
pub fn tokenize(text: &str) -> Vec<u32> {
    text.split_whitespace().map(word_token).collect()
}

/// The text of output tokens: one word for each, each with a blank in front, so that the texts of a stream can simply be
/// joined.
pub(super) fn output_text(tokens: &[u32]) -> String {
    tokens.iter().fold(String::new(), |mut text, token| {
        text.push_str(" t");
        text.push_str(&token.to_string());
        text
    })
}

/// A chat as the text of a completion: `role: content` lines. With `open_answer`, a line that waits for the assistant.
///
/// A longer chat of the same messages starts with the same words, which is what makes prefixes reusable.
pub fn render_chat<'a>(messages: impl Iterator<Item = (&'a str, &'a str)>, open_answer: bool) -> String {
    let mut text = String::new();
    for (role, content) in messages {
        text.extend([role, ": ", content, "\n"]);
    }
    if open_answer {
        text.push_str("assistant:");
    }
    text
}

fn word_token(word: &str) -> u32 {
    output_word(word).unwrap_or_else(|| {
        let hash = word.bytes().fold(0, |hash, byte| mix64(hash ^ u64::from(byte)));
        mix30(hash).max(1)
    })
}

fn output_word(word: &str) -> Option<u32> {
    let digits = word.strip_prefix('t').filter(|digits| digits.starts_with(|first: char| first.is_ascii_digit()))?;
    let token = digits.parse::<u32>().ok()?;
    (OUTPUT_TOKENS_START..OUTPUT_TOKENS_END).contains(&token).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock_engine::sequence::output_token;

    #[test]
    fn words_are_tokens_below_the_output_vocabulary() {
        let tokens = tokenize("the quick\n brown  the t12 t9999999999");
        assert_eq!(tokens.len(), 6);
        assert_eq!(tokens[0], tokens[3]);
        assert!(tokens.iter().all(|token| (1..OUTPUT_TOKENS_START).contains(token)));
    }

    #[test]
    fn output_maps_back_to_its_tokens() {
        let tokens: Vec<u32> = (0..100).map(|position| output_token(7, position)).collect();
        assert_eq!(tokenize(&output_text(&tokens)), tokens);
    }

    #[test]
    fn the_next_turn_starts_with_the_last_one_and_its_answer() {
        let first = [("system", "be brief"), ("user", "hello there")];
        let answer = output_text(&[OUTPUT_TOKENS_START]);
        let prompt = tokenize(&(render_chat(first.into_iter(), true) + &answer));
        let next = [first[0], first[1], ("assistant", &answer), ("user", "more")];
        let longer = tokenize(&render_chat(next.into_iter(), true));
        assert_eq!(longer[..prompt.len()], prompt);
    }
}
