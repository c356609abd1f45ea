//! The token counts that an engine reports with its answer.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// What an engine says about a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: u64,
    /// Tokens that were found in the cache. Nothing where the engine does not say: some leave a zero out, and all do
    /// without the switch for it (vLLM: `--enable-prompt-tokens-details`, SGLang: `--enable-cache-report`).
    pub(crate) cached_tokens: Option<u64>,
}

/// An answer, or one event of a streamed answer.
#[derive(Deserialize)]
struct Answer {
    choices: Option<Vec<IgnoredAny>>,
    usage: Option<UsageFields>,
}

#[derive(Deserialize)]
struct UsageFields {
    prompt_tokens: u64,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

impl Usage {
    /// The usage of a whole answer.
    pub(crate) fn of_answer(body: &[u8]) -> Option<Self> {
        read(body)?.usage.map(Self::from)
    }

    /// The usage inside the `data` of an event, and whether the event holds nothing else.
    pub(super) fn of_event(data: &[u8]) -> Option<(Self, bool)> {
        let answer = read(data)?;
        let alone = answer.choices.is_some_and(|choices| choices.is_empty());
        answer.usage.map(|usage| (usage.into(), alone))
    }
}

impl From<UsageFields> for Usage {
    fn from(fields: UsageFields) -> Self {
        let cached_tokens = fields.prompt_tokens_details.and_then(|details| details.cached_tokens);
        Self { prompt_tokens: fields.prompt_tokens, cached_tokens }
    }
}

fn read(json: &[u8]) -> Option<Answer> {
    serde_json::from_slice(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(details: &str) -> Option<Usage> {
        Usage::of_answer(
            format!(r#"{{"choices":[{{}}],"usage":{{"prompt_tokens":40,"completion_tokens":1{details}}}}}"#).as_bytes(),
        )
    }

    #[test]
    fn absent_and_null_are_not_zero() {
        let cached = |details| of(details).unwrap().cached_tokens;
        assert_eq!(cached(r#","prompt_tokens_details":{"cached_tokens":32}"#), Some(32));
        assert_eq!(cached(r#","prompt_tokens_details":{"cached_tokens":0}"#), Some(0));
        assert_eq!(cached(r#","prompt_tokens_details":{"cached_tokens":null}"#), None);
        assert_eq!(cached(r#","prompt_tokens_details":null"#), None);
        assert_eq!(cached(""), None);
    }

    #[test]
    fn an_answer_without_usage_has_none() {
        assert_eq!(Usage::of_answer(br#"{"error":{"message":"no"}}"#), None);
        assert_eq!(Usage::of_answer(b"Internal Server Error"), None);
    }
}
