//! What an answer of an OpenAI-compatible server says of its tokens.

use serde::Deserialize;
use serde_json::Value;

/// What an answer says of its tokens, from one JSON body or many streamed chunks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The prompt's ids, of a server that was asked for them.
    pub prompt_token_ids: Option<Vec<u32>>,
    /// The answer's ids, of the same.
    pub output_token_ids: Option<Vec<u32>>,
    /// Length of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Length of the answer.
    pub completion_tokens: Option<u64>,
    /// How many of the prompt's tokens came from the cache. Some releases write null for 0.
    pub cached_tokens: Option<u64>,
}

impl Evidence {
    /// Reads an answer's body: JSON, or server-sent events with JSON in them.
    pub fn read(body: &[u8]) -> Self {
        let mut evidence = Self::default();
        if let Ok(answer) = serde_json::from_slice(body) {
            evidence.absorb(answer);
            return evidence;
        }
        let events = body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
        for answer in events.filter_map(|event| serde_json::from_slice(event).ok()) {
            evidence.absorb(answer);
        }
        evidence
    }

    fn absorb(&mut self, answer: Answer) {
        if let Some(choice) = answer.choices.into_iter().next() {
            let ids = answer.prompt_token_ids.or(choice.prompt_token_ids);
            self.prompt_token_ids = self.prompt_token_ids.take().or(ids);
            if let Some(ids) = choice.token_ids {
                self.output_token_ids.get_or_insert_default().extend(ids);
            }
        }
        if let Some(usage) = answer.usage {
            self.prompt_tokens = usage.prompt_tokens;
            self.completion_tokens = usage.completion_tokens;
            self.cached_tokens = usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
        }
    }
}

/// Token ids of a request's prompt, where it is one list of them.
pub fn token_ids(prompt: &Value) -> Option<Vec<u32>> {
    let ids = prompt.as_array()?.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()));
    ids.collect::<Option<Vec<_>>>().filter(|ids| !ids.is_empty())
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    prompt_token_ids: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct Choice {
    token_ids: Option<Vec<u32>>,
    prompt_token_ids: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_streamed_answer_says_the_same_as_a_whole_one() {
        let whole = json!({
            "choices": [{"index": 0, "token_ids": [5, 6, 7], "prompt_token_ids": [1, 2]}],
            "usage": {"prompt_tokens": 2, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}},
        });
        let chunks = [
            json!({"choices": [{"index": 0, "prompt_token_ids": [1, 2], "token_ids": [5]}], "usage": null}),
            json!({"choices": [{"index": 0, "token_ids": [6, 7], "prompt_token_ids": null}]}),
            json!({"choices": [], "usage": whole["usage"]}),
        ];
        let streamed = chunks.map(|chunk| format!("data: {chunk}\r\n\r\n")).concat();
        let evidence = Evidence::read(whole.to_string().as_bytes());
        assert_eq!(evidence.output_token_ids, Some(vec![5, 6, 7]));
        assert_eq!(evidence.cached_tokens, Some(1));
        assert_eq!(Evidence::read(format!("{streamed}data: [DONE]\n\n").as_bytes()), evidence);
    }

    #[test]
    fn what_is_not_said_stays_unknown() {
        let answer = json!({"choices": [{"text": "x"}], "usage": {"prompt_tokens": 2, "prompt_tokens_details": null}});
        let evidence = Evidence::read(answer.to_string().as_bytes());
        assert_eq!(evidence, Evidence { prompt_tokens: Some(2), ..Default::default() });
        assert_eq!(Evidence::read(b"Internal Server Error"), Evidence::default());
    }

    #[test]
    fn only_one_list_of_ids_is_a_prompt_of_ids() {
        assert_eq!(token_ids(&json!([1, 2, 4_294_967_295_u32])), Some(vec![1, 2, u32::MAX]));
        for other in
            [json!("text"), json!([]), json!([[1, 2]]), json!(["a"]), json!([1, -2]), json!([1.5]), json!([4_294_967_296_u64])]
        {
            assert_eq!(token_ids(&other), None, "{other}");
        }
    }
}
