//! The JSON of generation answers.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::mock_engine::tokenizer::output_text;

/// Which of the two generation endpoints was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Completion,
    Chat,
}

/// All that the chunks of one answer have in common.
#[derive(Debug)]
pub(super) struct Answer {
    shape: Shape,
    id: String,
    model: String,
    created_s: u64,
    prompt_tokens: usize,
    /// The prompt's ids, if they and the output's ids are wanted.
    prompt_ids: Option<Vec<u32>>,
}

impl Answer {
    pub(super) fn new(shape: Shape, id: &str, model: &str, prompt: &[u32], with_ids: bool) -> Self {
        let kind = if shape == Shape::Completion { "cmpl" } else { "chatcmpl" };
        Self {
            shape,
            id: format!("{kind}-{id}"),
            model: model.to_owned(),
            created_s: SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs(),
            prompt_tokens: prompt.len(),
            prompt_ids: with_ids.then(|| prompt.to_vec()),
        }
    }

    /// The whole answer at once.
    pub(super) fn whole(&self, tokens: &[u32], cached_tokens: usize) -> Value {
        let text = output_text(tokens);
        let mut choice = match self.shape {
            Shape::Completion => json!({"text": text}),
            Shape::Chat => json!({"message": {"role": "assistant", "content": text}}),
        };
        self.complete_choice(&mut choice, tokens, true);
        let mut answer = self.envelope(&choice, false);
        answer["usage"] = self.usage(tokens.len(), cached_tokens);
        self.attach_prompt_ids(&mut answer);
        answer
    }

    /// What a stream starts with, before any token.
    pub(super) fn opening(&self) -> Option<Value> {
        let chat = self.shape == Shape::Chat;
        if !chat && self.prompt_ids.is_none() {
            return None;
        }
        let mut choice = if chat { json!({"delta": {"role": "assistant", "content": ""}}) } else { json!({"text": ""}) };
        self.complete_choice(&mut choice, &[], false);
        let mut chunk = self.envelope(&choice, true);
        self.attach_prompt_ids(&mut chunk);
        Some(chunk)
    }

    /// Some tokens of a stream.
    pub(super) fn delta(&self, tokens: &[u32], last: bool) -> Value {
        let text = output_text(tokens);
        let mut choice = match self.shape {
            Shape::Completion => json!({"text": text}),
            Shape::Chat => json!({"delta": {"content": text}}),
        };
        self.complete_choice(&mut choice, tokens, last);
        self.envelope(&choice, true)
    }

    /// The last chunk of a stream that reports usage.
    pub(super) fn closing(&self, output_tokens: usize, cached_tokens: usize) -> Value {
        let mut chunk = self.envelope(&Value::Null, true);
        chunk["choices"] = json!([]);
        chunk["usage"] = self.usage(output_tokens, cached_tokens);
        chunk
    }

    fn envelope(&self, choice: &Value, streamed: bool) -> Value {
        let object = match self.shape {
            Shape::Completion => "text_completion",
            Shape::Chat if streamed => "chat.completion.chunk",
            Shape::Chat => "chat.completion",
        };
        json!({
            "id": self.id,
            "object": object,
            "created": self.created_s,
            "model": self.model,
            "choices": [choice],
        })
    }

    /// The output always runs to its limit, so the only reason to finish is its length.
    fn complete_choice(&self, choice: &mut Value, tokens: &[u32], last: bool) {
        choice["index"] = json!(0);
        choice["logprobs"] = Value::Null;
        choice["finish_reason"] = if last { json!("length") } else { Value::Null };
        if self.prompt_ids.is_some() {
            choice["token_ids"] = json!(tokens);
        }
    }

    /// vLLM has the prompt's ids in the choice of a completion, and beside the choices of a chat.
    fn attach_prompt_ids(&self, answer: &mut Value) {
        if let Some(ids) = &self.prompt_ids {
            let place = if self.shape == Shape::Completion { &mut answer["choices"][0] } else { answer };
            place["prompt_token_ids"] = json!(ids);
        }
    }

    fn usage(&self, output_tokens: usize, cached_tokens: usize) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": self.prompt_tokens + output_tokens,
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
        })
    }
}

/// One server-sent event.
pub(super) fn server_sent(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// How OpenAI streams end.
pub(super) const DONE: &str = "data: [DONE]\n\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_reports_cached_tokens() {
        let answer = Answer::new(Shape::Chat, "7", "m", &[1, 2, 3], true);
        let whole = answer.whole(&[9, 8], 2);
        assert_eq!(whole["id"], "chatcmpl-7");
        assert_eq!(whole["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
        assert_eq!(whole["usage"]["total_tokens"], 5);
        assert_eq!(whole["choices"][0]["message"]["content"], " t9 t8");
        assert_eq!(whole["prompt_token_ids"], json!([1, 2, 3]));
        assert_eq!(whole["choices"][0]["token_ids"], json!([9, 8]));
    }

    #[test]
    fn a_stream_opens_only_if_there_is_something_to_say() {
        assert!(Answer::new(Shape::Completion, "7", "m", &[1], false).opening().is_none());
        let opening = Answer::new(Shape::Completion, "7", "m", &[1], true).opening().unwrap();
        assert_eq!(opening["choices"][0]["prompt_token_ids"], json!([1]));
        let opening = Answer::new(Shape::Chat, "7", "m", &[1], false).opening().unwrap();
        assert_eq!(opening["choices"][0]["delta"]["role"], "assistant");
    }
}
