//! Request bodies. Fields that do not change what a mock does are accepted and ignored.

use std::fmt;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, SeqAccess, Visitor};

use super::error::ApiError;
use crate::mock_engine::tokenizer::{render_chat, tokenize};

/// The body of a completion, a chat completion or a `/tokenize` call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GenerateBody {
    pub(super) model: Option<String>,
    pub(super) prompt: Option<PromptBody>,
    pub(super) messages: Option<Vec<Message>>,
    pub(super) max_tokens: Option<usize>,
    pub(super) max_completion_tokens: Option<usize>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) return_token_ids: Option<bool>,
    pub(super) add_generation_prompt: Option<bool>,
    pub(super) n: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

/// A prompt as token ids, whatever form it came in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PromptBody(pub(super) Vec<u32>);

/// One message of a chat.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    role: String,
    #[serde(default)]
    content: Option<Content>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

/// Parses a JSON body; what is wrong with it, and where, goes to the client.
pub(super) fn parse<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, ApiError> {
    serde_json::from_slice(&body?).map_err(|error| ApiError::bad_request(format!("invalid request body: {error}")))
}

impl GenerateBody {
    pub(super) fn completion_tokens(&mut self) -> Result<Vec<u32>, ApiError> {
        let PromptBody(tokens) = self.prompt.take().ok_or_else(|| ApiError::bad_request("`prompt` is missing"))?;
        Ok(tokens)
    }

    pub(super) fn chat_tokens(&self) -> Result<Vec<u32>, ApiError> {
        let messages = self.messages.as_deref().unwrap_or_default();
        if messages.is_empty() {
            return Err(ApiError::bad_request("`messages` must have at least one message"));
        }
        let texts: Vec<(&str, String)> = messages.iter().map(|m| (m.role.as_str(), m.text())).collect();
        let lines = texts.iter().map(|(role, text)| (*role, text.as_str()));
        Ok(tokenize(&render_chat(lines, self.add_generation_prompt.unwrap_or(true))))
    }
}

impl Message {
    fn text(&self) -> String {
        match &self.content {
            None => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(" "),
        }
    }
}

/// Text, token ids, or a list with one of these. Read in one go: an untagged enum would copy a list of 100,000 ids into
/// a tree first.
impl<'de> Deserialize<'de> for PromptBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PromptVisitor)
    }
}

struct PromptVisitor;

impl<'de> Visitor<'de> for PromptVisitor {
    type Value = PromptBody;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text, a list of token ids, or a list of one of these")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<PromptBody, E> {
        Ok(PromptBody(tokenize(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<PromptBody, A::Error> {
        let mut tokens = Vec::new();
        while let Some(item) = items.next_element()? {
            match item {
                Item::Token(token) => tokens.push(token),
                Item::Prompt(prompt) if tokens.is_empty() && items.next_element::<Item>()?.is_none() => {
                    return Ok(prompt);
                }
                Item::Prompt(_) => return Err(de::Error::custom("a list must hold token ids or one single prompt")),
            }
        }
        Ok(PromptBody(tokens))
    }
}

enum Item {
    Token(u32),
    Prompt(PromptBody),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a token id from 0 to 4294967295, a text, or a list of token ids")
    }

    fn visit_u64<E: de::Error>(self, id: u64) -> Result<Item, E> {
        let token = u32::try_from(id).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(id), &self))?;
        Ok(Item::Token(token))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Item, E> {
        Ok(Item::Prompt(PromptBody(tokenize(text))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Item, A::Error> {
        let tokens = Vec::deserialize(de::value::SeqAccessDeserializer::new(items))?;
        Ok(Item::Prompt(PromptBody(tokens)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(json: &str) -> Result<Vec<u32>, String> {
        serde_json::from_str(json).map(|PromptBody(tokens)| tokens).map_err(|error| error.to_string())
    }

    #[test]
    fn prompts_come_in_four_forms() {
        assert_eq!(prompt("[1, 2, 4294967295]"), Ok(vec![1, 2, u32::MAX]));
        assert_eq!(prompt("[[1, 2]]"), Ok(vec![1, 2]));
        assert_eq!(prompt(r#""a b""#), Ok(tokenize("a b")));
        assert_eq!(prompt(r#"["a b"]"#), Ok(tokenize("a b")));
    }

    #[test]
    fn bad_prompts_say_what_was_expected() {
        assert!(prompt("[1, -2]").unwrap_err().contains("expected a token id from 0 to 4294967295"));
        assert!(prompt("[4294967296]").unwrap_err().contains("expected a token id"));
        assert!(prompt("[[1], [2]]").unwrap_err().contains("one single prompt"));
        assert!(prompt(r#"[1, "a"]"#).unwrap_err().contains("one single prompt"));
        assert!(prompt("7").unwrap_err().contains("expected a text, a list of token ids"));
    }

    #[test]
    fn chats_are_rendered_with_parts_and_an_open_answer() {
        let body: GenerateBody = serde_json::from_str(
            r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}, {"role": "tool"}]}"#,
        )
        .unwrap();
        assert_eq!(body.chat_tokens().unwrap(), tokenize("user: hello tool: assistant:"));
    }
}
