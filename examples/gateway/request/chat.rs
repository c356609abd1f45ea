//! The part of a chat request that its prompt is rendered from.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What a chat template sees, in the client's own text: key order and numbers matter to a template that prints tools.
///
/// Serialized, it is the body of an engine's `/tokenize` but for the model.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Chat {
    pub(crate) messages: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) documents: Option<Box<RawValue>>,
    /// A template of the request's own.
    #[serde(rename = "chat_template", skip_serializing_if = "Option::is_none")]
    pub(crate) template: Option<String>,
    #[serde(rename = "chat_template_kwargs", skip_serializing_if = "Option::is_none")]
    pub(crate) template_arguments: Option<Box<RawValue>>,
    #[serde(default = "yes")]
    pub(crate) add_generation_prompt: bool,
    #[serde(default)]
    pub(crate) continue_final_message: bool,
    #[serde(default)]
    pub(crate) add_special_tokens: bool,
}

/// As much of a message as tells text from other media.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    r#type: Option<std::borrow::Cow<'a, str>>,
}

impl Chat {
    /// Whether a message holds something that is not text.
    pub(crate) fn is_multimodal(&self) -> bool {
        let messages: Vec<Message<'_>> = serde_json::from_str(self.messages.get()).unwrap_or_default();
        messages.iter().filter_map(|message| message.content).any(|content| {
            let parts: Vec<Part<'_>> = serde_json::from_str(content.get()).unwrap_or_default();
            parts.iter().any(|part| part.r#type.as_deref().is_some_and(|word| !TEXT_PARTS.contains(&word)))
        })
    }
}

fn yes() -> bool {
    true
}

/// The words for a part that is text (`refusal` and `thinking` are text that a model wrote).
const TEXT_PARTS: [&str; 5] = ["text", "input_text", "output_text", "refusal", "thinking"];

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(messages: &str) -> Chat {
        serde_json::from_str(&format!(r#"{{"messages": {messages}}}"#)).unwrap()
    }

    #[test]
    fn an_image_makes_a_chat_multimodal_and_text_does_not() {
        assert!(!chat(r#"[{"role":"user","content":"hi"},{"role":"assistant","content":null}]"#).is_multimodal());
        assert!(!chat(r#"[{"role":"user","content":[{"type":"text","text":"hi"}]}]"#).is_multimodal());
        assert!(chat(r#"[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url"}]}]"#).is_multimodal());
    }

    #[test]
    fn it_goes_to_an_engine_as_the_client_wrote_it() {
        let chat: Chat = serde_json::from_str(
            r#"{"model":"m","messages":[{"z":1,"a":2.50}],"chat_template_kwargs":{"b":1,"a":2},"temperature":1}"#,
        )
        .unwrap();
        let expected = r#"{"messages":[{"z":1,"a":2.50}],"chat_template_kwargs":{"b":1,"a":2},"add_generation_prompt":true,"continue_final_message":false,"add_special_tokens":false}"#;
        assert_eq!(serde_json::to_string(&chat).unwrap(), expected);
    }
}
