//! The prompt of a request in the forms that OpenAI's API has for it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Chat;
use crate::gateway::api::ApiError;

/// What the engine will make tokens of.
#[derive(Debug)]
pub(crate) enum Prompt {
    /// Tokens already.
    Ids(Vec<u32>),
    Text {
        text: String,
        add_special_tokens: bool,
    },
    Chat(Arc<Chat>),
    /// Input that has no tokens of ours.
    Opaque(Untokenized),
}

/// Why a request is routed without its tokens. It is counted, and told in `x-kv-unpredicted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Untokenized {
    /// Images, audio or video: their placeholders and identifiers are the engine's.
    Multimodal,
    /// Prompt embeddings.
    Embeddings,
    /// Logprobs of the prompt's own tokens: for them an engine computes the whole prompt, and reads no cache.
    PromptLogprobs,
    /// No tokenizer, no chat template, and no engine that tokenizes.
    NoTokenizer,
    /// The chat template refuses the messages.
    Template,
    /// The tokenizer refuses the text.
    Tokenizer,
    /// The engine that was asked refused, or did not answer in time.
    Engine,
}

impl Untokenized {
    /// All reasons.
    pub(crate) const ALL: [Self; 7] = [
        Self::Multimodal,
        Self::Embeddings,
        Self::PromptLogprobs,
        Self::NoTokenizer,
        Self::Template,
        Self::Tokenizer,
        Self::Engine,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Multimodal => "multimodal",
            Self::Embeddings => "prompt_embeds",
            Self::PromptLogprobs => "prompt_logprobs",
            Self::NoTokenizer => "no_tokenizer",
            Self::Template => "chat_template",
            Self::Tokenizer => "tokenizer",
            Self::Engine => "engine_tokenizer",
        }
    }
}

impl Prompt {
    /// The prompt of `/v1/completions`: a text, a list of token ids, or a list that holds one of either.
    pub(super) fn read(prompt: Option<&RawValue>, embeddings: bool, add_special_tokens: Option<bool>) -> Result<Self, ApiError> {
        let Some(prompt) = prompt.map(RawValue::get) else {
            let absent = || ApiError::invalid("prompt", "expected a text or a list of token ids in `prompt`");
            return embeddings.then_some(Self::Opaque(Untokenized::Embeddings)).ok_or_else(absent);
        };
        if embeddings {
            return Ok(Self::Opaque(Untokenized::Embeddings));
        }
        // vLLM adds special tokens to completions unless told not to.
        let text = |text| Self::Text { text, add_special_tokens: add_special_tokens.unwrap_or(true) };
        if let Some(single) = read(prompt) {
            return Ok(text(single));
        }
        if let Some(ids) = read(prompt).filter(|ids: &Vec<u32>| !ids.is_empty()) {
            return Ok(Self::Ids(ids));
        }
        if let Some(texts) = read::<Vec<String>>(prompt) {
            return only(texts).map(text);
        }
        let lists = read::<Vec<Vec<u32>>>(prompt).ok_or_else(|| ApiError::invalid("prompt", EXPECTED))?;
        only(lists).map(Self::Ids)
    }
}

fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Option<T> {
    serde_json::from_str(json).ok()
}

/// The element of a list of one.
fn only<T>(mut prompts: Vec<T>) -> Result<T, ApiError> {
    let got = prompts.len();
    let several = || ApiError::invalid("prompt", format!("{ONE_EACH}, got {got}"));
    prompts.pop().filter(|_| got == 1).ok_or_else(several)
}

const EXPECTED: &str =
    "expected `prompt` to be a text, a list of token ids (0 to 4294967295), or a list that holds one of either";
/// Several prompts may have their prefixes on several engines, and their answers would have to be merged.
const ONE_EACH: &str =
    "expected one prompt: this gateway routes each prompt by its own prefix, so send each in a request of its own";

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(json: &str) -> Result<Prompt, String> {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        Prompt::read(Some(raw), false, None).map_err(|error| error.to_string())
    }

    #[test]
    fn the_four_forms() {
        assert!(matches!(prompt(r#""a b""#), Ok(Prompt::Text { text, add_special_tokens: true }) if text == "a b"));
        assert!(matches!(prompt(r#"["a"]"#), Ok(Prompt::Text { text, .. }) if text == "a"));
        assert!(matches!(prompt("[1, 2, 4294967295]"), Ok(Prompt::Ids(ids)) if ids == [1, 2, u32::MAX]));
        assert!(matches!(prompt("[[7]]"), Ok(Prompt::Ids(ids)) if ids == [7]));
    }

    #[test]
    fn several_prompts_are_refused_with_the_way_out() {
        for json in [r#"["a", "b"]"#, "[[1], [2]]", "[]"] {
            let reason = prompt(json).unwrap_err();
            assert!(reason.contains("a request of its own"), "{json}: {reason}");
        }
    }

    #[test]
    fn what_is_no_prompt_is_refused() {
        for json in ["7", "{}", "[1, -1]", "[4294967296]", r#"[1, "a"]"#, "true"] {
            assert_eq!(prompt(json).unwrap_err(), EXPECTED, "{json}");
        }
    }

    #[test]
    fn embeddings_go_through_unread() {
        let read = |prompt| Prompt::read(prompt, true, None).unwrap();
        assert!(matches!(read(None), Prompt::Opaque(Untokenized::Embeddings)));
    }
}
