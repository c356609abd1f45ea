//! Sends one request and notes what came back, and when.

use std::time::Duration;

use reqwest::{Client, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::limits;
use super::sse::SseReader;

/// What became of one row.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Outcome {
    /// Position in the replayed part of the trace, from 0.
    pub(super) row: usize,
    /// Value of `x-kv-worker`.
    pub(super) worker: Option<String>,
    /// Value of `x-kv-predicted-tokens`.
    pub(super) predicted_tokens: Option<u64>,
    /// The answer's `id`.
    pub(super) answer_id: Option<String>,
    /// Prompt tokens, from the usage.
    pub(super) prompt_tokens: Option<u64>,
    /// Prompt tokens that the engine had cached, from the usage.
    pub(super) cached_tokens: Option<u64>,
    /// Chunks with text.
    pub(super) deltas: usize,
    /// How much later than due it was sent.
    pub(super) late_ms: f64,
    /// From sending to the first text, or to the finish of an answer without text.
    pub(super) ttft_ms: Option<f64>,
    /// Gaps between chunks with text.
    #[serde(skip)]
    pub(super) gaps_ms: Vec<f64>,
    /// Why it failed, if it did.
    pub(super) failure: Option<String>,
}

impl Outcome {
    /// Whether the answer came whole and had a token.
    pub(super) fn ok(&self) -> bool {
        self.failure.is_none()
    }
}

/// Where requests go.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) completions_url: String,
    pub(super) model: String,
    pub(super) timeout: Duration,
}

/// A prompt in the form it is sent.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum PromptBody {
    Tokens(Vec<u32>),
    Text(String),
}

#[derive(Serialize)]
struct CompletionBody<'a> {
    model: &'a str,
    prompt: &'a PromptBody,
    max_tokens: u64,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl Target {
    /// Streams one completion. Whatever goes wrong ends up in [`Outcome::failure`].
    pub(super) async fn send(&self, row: usize, prompt: PromptBody, max_tokens: u64, due: Instant) -> Outcome {
        let body = CompletionBody {
            model: &self.model,
            prompt: &prompt,
            max_tokens,
            stream: true,
            stream_options: StreamOptions { include_usage: true },
        };
        let bytes = serde_json::to_vec(&body).unwrap_or_default();
        drop(prompt);
        let sent = Instant::now();
        let late_ms = milliseconds(sent.saturating_duration_since(due));
        let mut answer = Reading::new(Outcome { row, late_ms, ..Outcome::default() }, sent);
        let finished = tokio::time::timeout(self.timeout, self.exchange(bytes, &mut answer)).await;
        let failure = match finished {
            Ok(Ok(())) => answer.missing(),
            Ok(Err(failure)) => Some(failure),
            Err(_) => Some(format!("no end of the answer within {} s", self.timeout.as_secs())),
        };
        Outcome { failure, ..answer.outcome }
    }

    async fn exchange(&self, body: Vec<u8>, answer: &mut Reading) -> Result<(), String> {
        let request = self.client.post(&self.completions_url).header("content-type", "application/json").body(body);
        let mut response = request.send().await.map_err(|error| causes(&error))?;
        answer.read_headers(&response);
        if response.status() != StatusCode::OK {
            return Err(refusal(response).await);
        }
        while let Some(bytes) = response.chunk().await.map_err(|error| causes(&error))? {
            answer.read(&bytes)?;
        }
        Ok(())
    }
}

/// An answer as it comes in.
struct Reading {
    outcome: Outcome,
    sse: SseReader,
    sent: Instant,
    last_text: Option<Instant>,
    done: bool,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Chunk {
    id: Option<String>,
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<serde_json::Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Choice {
    text: Option<String>,
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Option<String>,
    reasoning_content: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: u64,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

impl Choice {
    fn has_text(&self) -> bool {
        let texts = [&self.text, &self.delta.content, &self.delta.reasoning_content];
        texts.into_iter().flatten().any(|text| !text.is_empty())
    }
}

impl Reading {
    fn new(outcome: Outcome, sent: Instant) -> Self {
        Self { outcome, sse: SseReader::default(), sent, last_text: None, done: false }
    }

    fn read_headers(&mut self, response: &Response) {
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        self.outcome.worker = text("x-kv-worker").map(str::to_owned);
        self.outcome.predicted_tokens = text("x-kv-predicted-tokens").and_then(|text| text.parse().ok());
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), String> {
        let now = Instant::now();
        let mut events = Vec::new();
        self.sse.push(bytes, |data| events.push(data.to_vec())).map_err(|_| "an endless event".to_owned())?;
        events.iter().try_for_each(|data| self.event(data, now))
    }

    fn event(&mut self, data: &[u8], now: Instant) -> Result<(), String> {
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_slice(data).map_err(|error| format!("an unreadable chunk: {error}"))?;
        if let Some(error) = chunk.error {
            return Err(shortened(&format!("an error in the stream: {error}")));
        }
        if let Some(usage) = chunk.usage {
            self.outcome.prompt_tokens = Some(usage.prompt_tokens);
            // vLLM 0.11 and SGLang leave the field out or null where nothing was cached.
            self.outcome.cached_tokens = Some(usage.prompt_tokens_details.and_then(|d| d.cached_tokens).unwrap_or(0));
        }
        if self.outcome.answer_id.is_none() {
            self.outcome.answer_id = chunk.id;
        }
        chunk.choices.iter().for_each(|choice| self.choice(choice, now));
        Ok(())
    }

    fn choice(&mut self, choice: &Choice, now: Instant) {
        if !choice.has_text() && choice.finish_reason.is_none() {
            return;
        }
        self.outcome.ttft_ms.get_or_insert(milliseconds(now.duration_since(self.sent)));
        if choice.has_text() {
            self.outcome.deltas += 1;
            if let Some(last) = self.last_text.replace(now) {
                self.outcome.gaps_ms.push(milliseconds(now.duration_since(last)));
            }
        }
    }

    fn missing(&self) -> Option<String> {
        if self.outcome.deltas == 0 {
            Some("an answer without a token".to_owned())
        } else if !self.done {
            Some("a stream without an end".to_owned())
        } else {
            None
        }
    }
}

/// An error with its causes: reqwest's own text names only the address.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

async fn refusal(response: Response) -> String {
    let status = response.status();
    let body = response.text().await.unwrap_or_default();
    shortened(&format!("status {status}: {body}"))
}

fn shortened(text: &str) -> String {
    text.chars().take(limits::REFUSAL_CHARS).collect()
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Outcome, Result<(), String>) {
        let mut reading = Reading::new(Outcome::default(), Instant::now());
        let result = reading.read(text.as_bytes());
        let failure = result.clone().err().or_else(|| reading.missing());
        (Outcome { failure, ..reading.outcome }, result)
    }

    #[test]
    fn a_whole_stream() {
        let (outcome, _) = read(concat!(
            "data: {\"id\": \"cmpl-1\", \"choices\": [{\"text\": \" a\"}]}\n\n",
            "data: {\"id\": \"cmpl-1\", \"choices\": [{\"text\": \" b\", \"finish_reason\": \"length\"}]}\n\n",
            "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 9, \"prompt_tokens_details\": {\"cached_tokens\": 4}}}\n\n",
            "data: [DONE]\n\n"
        ));
        assert!(outcome.ok());
        assert_eq!((outcome.deltas, outcome.gaps_ms.len()), (2, 1));
        assert_eq!((outcome.prompt_tokens, outcome.cached_tokens), (Some(9), Some(4)));
        assert_eq!(outcome.answer_id.as_deref(), Some("cmpl-1"));
    }

    #[test]
    fn absent_details_are_no_cached_tokens() {
        let (outcome, _) = read("data: {\"usage\": {\"prompt_tokens\": 9, \"prompt_tokens_details\": null}}\n\n");
        assert_eq!(outcome.cached_tokens, Some(0));
    }

    #[test]
    fn what_is_not_an_answer_says_why() {
        let failure = |text| read(text).0.failure.unwrap();
        assert_eq!(failure("data: [DONE]\n\n"), "an answer without a token");
        assert_eq!(failure("data: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\n\n"), "a stream without an end");
        assert!(failure("data: {\"error\": {\"message\": \"no\"}}\n\n").contains("\"no\""));
        assert!(failure("data: {\n\n").starts_with("an unreadable chunk"));
    }

    #[test]
    fn reasoning_counts_as_the_first_token() {
        let (outcome, _) = read("data: {\"choices\": [{\"delta\": {\"reasoning_content\": \"hm\"}}]}\n\n");
        assert!(outcome.ttft_ms.is_some());
    }
}
