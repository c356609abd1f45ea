//! A client's request, read as far as routing needs it. The bytes that go to the engine stay the client's own.

mod chat;
mod prompt;

use std::sync::Arc;

use axum::http::Uri;
use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use self::chat::Chat;
pub(crate) use self::prompt::{Prompt, Untokenized};
use super::api::ApiError;
use super::limits::ANSWER_TOKENS;

/// Which of the two generating routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Completions,
    Chat,
}

/// One request, read.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) route: Route,
    pub(crate) model: String,
    pub(crate) salt: Option<String>,
    pub(crate) prompt: Prompt,
    pub(crate) stream: bool,
    /// How long the answer may be, and is believed to get.
    pub(crate) answer_tokens: u64,
    /// The client said nothing about `stream_options`, so the gateway may ask for the usage and keep it from the client.
    usage_is_ours: bool,
    body: Bytes,
}

/// The fields of either route that routing looks at; all others are the engine's business.
#[derive(Deserialize)]
struct Fields<'a> {
    model: Option<String>,
    cache_salt: Option<String>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(borrow)]
    stream_options: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_embeds: Option<&'a RawValue>,
    add_special_tokens: Option<bool>,
    #[serde(borrow)]
    prompt_logprobs: Option<&'a RawValue>,
    #[serde(borrow)]
    logprobs: Option<&'a RawValue>,
    echo: Option<bool>,
    #[serde(borrow)]
    max_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    max_completion_tokens: Option<&'a RawValue>,
}

impl Route {
    /// The path, here and on the engines.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Completions => "/v1/completions",
            Self::Chat => "/v1/chat/completions",
        }
    }

    /// The route of a request that the router let through.
    pub(crate) fn of(uri: &Uri) -> Self {
        if uri.path() == Self::Chat.path() { Self::Chat } else { Self::Completions }
    }
}

impl Inbound {
    /// Reads `body` as a request of `route`.
    pub(crate) fn read(route: Route, body: Bytes) -> Result<Self, ApiError> {
        let fields: Fields<'_> = parse(&body)?;
        let (prompt, answer_tokens) = (fields.prompt(route, &body)?, fields.answer_tokens());
        let model = fields.model.ok_or_else(|| ApiError::invalid("model", "expected the name of a model in `model`"))?;
        let usage_is_ours = fields.stream_options.is_none();
        let stream = fields.stream.unwrap_or(false);
        let salt = fields.cache_salt;
        Ok(Self { route, model, salt, prompt, stream, answer_tokens, usage_is_ours, body })
    }

    /// Whether the usage of this stream was asked for by the gateway, and must be kept from the client.
    pub(crate) const fn hides_usage(&self) -> bool {
        self.stream && self.usage_is_ours
    }

    /// The body for the engine: the client's bytes, and in front of its first field the wish for a usage where
    /// [`hides_usage`](Self::hides_usage) says so.
    pub(crate) fn engine_body(&self) -> Bytes {
        let Some(open) = self.body.iter().position(|byte| *byte == b'{').filter(|_| self.hides_usage()) else {
            return self.body.clone();
        };
        let mut body = BytesMut::with_capacity(self.body.len() + WITH_USAGE.len());
        body.put_slice(&self.body[..=open]);
        // The object has at least its model, so a comma is right.
        body.put_slice(WITH_USAGE);
        body.put_slice(&self.body[open + 1..]);
        body.freeze()
    }
}

impl Fields<'_> {
    fn prompt(&self, route: Route, body: &[u8]) -> Result<Prompt, ApiError> {
        match route {
            _ if self.computes_whole_prompt() => Ok(Prompt::Opaque(Untokenized::PromptLogprobs)),
            Route::Chat => Ok(Prompt::Chat(Arc::new(parse(body)?))),
            Route::Completions => Prompt::read(self.prompt, self.prompt_embeds.is_some(), self.add_special_tokens),
        }
    }

    /// How long the answer may be, if the client says so; what is no number is the engine's to refuse.
    fn answer_tokens(&self) -> u64 {
        let said = self.max_completion_tokens.or(self.max_tokens).and_then(|tokens| tokens.get().parse::<u64>().ok());
        said.map_or(ANSWER_TOKENS, |tokens| tokens.min(ANSWER_TOKENS))
    }

    /// Whether the client wants the logprobs of its prompt.
    fn computes_whole_prompt(&self) -> bool {
        self.prompt_logprobs.is_some() || (self.echo == Some(true) && self.logprobs.is_some())
    }
}

/// Reads a whole body, and says where it stops being what it should be.
fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body)
        .map_err(|error| ApiError::Invalid { param: None, reason: format!("cannot read the body: {error}") })
}

const WITH_USAGE: &[u8] = br#""stream_options":{"include_usage":true},"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(route: Route, body: &str) -> Result<Inbound, ApiError> {
        Inbound::read(route, Bytes::copy_from_slice(body.as_bytes()))
    }

    fn refusal(route: Route, body: &str) -> String {
        read(route, body).unwrap_err().to_string()
    }

    #[test]
    fn the_bytes_of_a_request_that_is_not_streamed_are_untouched() {
        let body = r#" {"model":"m", "prompt" : "hi", "logit_bias":{"5":0.10}, "model_specific": 1e400}"#;
        assert_eq!(read(Route::Completions, body).unwrap().engine_body(), body);
    }

    #[test]
    fn an_answer_is_believed_to_be_as_long_as_its_limit_up_to_a_bound() {
        let tokens =
            |limits: &str| read(Route::Completions, &format!(r#"{{"model":"m","prompt":"hi"{limits}}}"#)).unwrap().answer_tokens;
        assert_eq!(
            [r#","max_tokens":7"#, r#","max_tokens":9,"max_completion_tokens":8"#, r#","max_tokens":100000"#].map(tokens),
            [7, 8, ANSWER_TOKENS]
        );
        assert_eq!(["", r#","max_tokens":null"#, r#","max_tokens":"many""#].map(tokens), [ANSWER_TOKENS; 3]);
    }

    #[test]
    fn a_stream_without_options_is_asked_for_its_usage() {
        let inbound = read(Route::Completions, "\n{\"model\":\"m\",\"prompt\":\"hi\",\"stream\":true}").unwrap();
        assert!(inbound.hides_usage());
        let expected = "\n{\"stream_options\":{\"include_usage\":true},\"model\":\"m\",\"prompt\":\"hi\",\"stream\":true}";
        assert_eq!(inbound.engine_body(), expected);
    }

    #[test]
    fn a_stream_with_options_is_left_alone() {
        for options in [r#"{"include_usage":true}"#, r#"{"include_usage":false}"#, "{}"] {
            let body = format!(r#"{{"model":"m","prompt":"hi","stream":true,"stream_options":{options}}}"#);
            let inbound = read(Route::Completions, &body).unwrap();
            assert!(!inbound.hides_usage());
            assert_eq!(inbound.engine_body(), body);
        }
    }

    #[test]
    fn what_cannot_be_read_says_where_and_why() {
        let place = refusal(Route::Completions, "{\"model\":\"m\",\n\"prompt\":}");
        assert!(place.contains("line 2 column 10"), "{place}");
        assert!(refusal(Route::Completions, r#"{"prompt":"x"}"#).contains("`model`"));
        assert!(refusal(Route::Completions, r#"["model"]"#).contains("cannot read the body"));
        assert!(refusal(Route::Chat, r#"{"model":"m"}"#).contains("messages"));
        assert!(refusal(Route::Completions, r#"{"model":"m"}"#).contains("`prompt`"));
    }

    #[test]
    fn logprobs_of_the_prompt_leave_nothing_to_predict() {
        let is_opaque = |fields: &str| {
            let body = format!(r#"{{"model":"m","prompt":"hi",{fields}}}"#);
            matches!(read(Route::Completions, &body).unwrap().prompt, Prompt::Opaque(Untokenized::PromptLogprobs))
        };
        assert!(is_opaque(r#""prompt_logprobs":0"#) && is_opaque(r#""echo":true,"logprobs":1"#));
        assert!(!is_opaque(r#""prompt_logprobs":null"#) && !is_opaque(r#""echo":true"#) && !is_opaque(r#""logprobs":1"#));
    }

    #[test]
    fn a_salt_is_read_from_either_route() {
        let salt = |route, body| read(route, body).unwrap().salt;
        assert_eq!(salt(Route::Completions, r#"{"model":"m","prompt":[1],"cache_salt":"a"}"#).as_deref(), Some("a"));
        assert_eq!(salt(Route::Chat, r#"{"model":"m","messages":[],"cache_salt":"b"}"#).as_deref(), Some("b"));
    }
}
