//! Completions and chat completions.

use std::io;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use super::Site;
use super::answer::{Answer, DONE, Shape, server_sent};
use super::body::{GenerateBody, parse};
use super::error::ApiError;
use crate::mock_engine::fleet::answer_id;
use crate::mock_engine::generation::{Generation, Progress};
use crate::mock_engine::sequence::Prompt;
use crate::mock_engine::timing::TimingModel;

pub(super) async fn completions(
    State(site): State<Site>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let mut body: GenerateBody = parse(body)?;
    let tokens = body.completion_tokens()?;
    generate(&site, &headers, &Call::new(Shape::Completion, body, tokens)).await
}

pub(super) async fn chat_completions(
    State(site): State<Site>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let body: GenerateBody = parse(body)?;
    let tokens = body.chat_tokens()?;
    generate(&site, &headers, &Call::new(Shape::Chat, body, tokens)).await
}

struct Call {
    shape: Shape,
    body: GenerateBody,
    tokens: Vec<u32>,
    max_tokens: usize,
}

impl Call {
    fn new(shape: Shape, body: GenerateBody, tokens: Vec<u32>) -> Self {
        let max_tokens = body.max_completion_tokens.or(body.max_tokens).unwrap_or(DEFAULT_MAX_TOKENS);
        Self { shape, body, tokens, max_tokens }
    }

    fn check(&self, site: &Site) -> Result<(), ApiError> {
        let config = &site.fleet.config;
        if let Some(model) = self.body.model.as_ref().filter(|model| **model != config.model) {
            return Err(ApiError::not_found(format!("the model `{model}` does not exist; this is `{}`", config.model)));
        }
        if self.tokens.is_empty() || self.max_tokens == 0 {
            return Err(ApiError::bad_request("the prompt and `max_tokens` must have at least one token"));
        }
        if self.body.n.is_some_and(|n| n != 1) {
            return Err(ApiError::bad_request("`n` must be 1"));
        }
        let total = self.tokens.len().saturating_add(self.max_tokens);
        if total > config.max_model_len {
            return Err(ApiError::bad_request(format!(
                "at most {} tokens fit, got {} in the prompt and {} to generate",
                config.max_model_len,
                self.tokens.len(),
                self.max_tokens
            )));
        }
        Ok(())
    }
}

async fn generate(site: &Site, headers: &HeaderMap, call: &Call) -> Result<Response, ApiError> {
    call.check(site)?;
    let engine = site.engine();
    let faults = *engine.http_faults.lock();
    if let Some(status) = faults.fail_status {
        return Err(ApiError::injected(status));
    }
    let rank = engine.choose_rank(asked_rank(headers, engine.ranks.len())?);
    hold_back(site, faults.admit_delay_ms).await;
    let prompt = Prompt::new(call.tokens.clone(), site.fleet.config.block_size);
    let generation = site.fleet.submit(engine, rank, prompt, call.max_tokens);
    let id = answer_id(engine, generation.id());
    let with_ids = call.body.return_token_ids.unwrap_or(false);
    let answer = Answer::new(call.shape, &id, &site.fleet.config.model, &call.tokens, with_ids);
    if call.body.stream.unwrap_or(false) {
        let with_usage = call.body.stream_options.as_ref().is_some_and(|options| options.include_usage);
        Ok(Stream::new(generation, answer, with_usage, faults.fail_after_tokens).into_response())
    } else {
        whole(generation, &answer).await
    }
}

/// vLLM's header for choosing a data-parallel rank.
fn asked_rank(headers: &HeaderMap, ranks: usize) -> Result<Option<usize>, ApiError> {
    let Some(value) = headers.get("x-data-parallel-rank") else { return Ok(None) };
    let rank = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|&rank| rank < ranks);
    match rank {
        Some(rank) => Ok(Some(rank)),
        None => Err(ApiError::bad_request(format!("`x-data-parallel-rank` must be below {ranks}, got {value:?}"))),
    }
}

/// Delays everything that a request shows, by what was injected and by what a calibration measured in front of the
/// engine.
async fn hold_back(site: &Site, admit_delay_ms: u64) {
    let timing = &site.fleet.config.timing;
    let overhead_ms = match &timing.model {
        TimingModel::Calibrated(table) => table.request_overhead_ms(),
        TimingModel::Polynomial | TimingModel::Linear => 0.0,
    };
    let hold = Duration::from_millis(admit_delay_ms) + Duration::from_secs_f64(overhead_ms / 1_000.0 / timing.speed);
    if !hold.is_zero() {
        tokio::time::sleep(hold).await;
    }
}

async fn whole(mut generation: Generation, answer: &Answer) -> Result<Response, ApiError> {
    let mut tokens = Vec::new();
    while let Some(progress) = generation.next().await {
        tokens.extend(progress.tokens);
        if progress.finished {
            return Ok(Json(answer.whole(&tokens, progress.cached_tokens)).into_response());
        }
    }
    Err(ApiError::stopped())
}

/// A streamed answer. The client's going away drops it, and with it the generation.
struct Stream {
    generation: Generation,
    answer: Answer,
    with_usage: bool,
    fail_after_tokens: Option<usize>,
    sent_tokens: usize,
    opened: bool,
}

impl Stream {
    fn new(generation: Generation, answer: Answer, with_usage: bool, fail_after_tokens: Option<usize>) -> Self {
        Self { generation, answer, with_usage, fail_after_tokens, sent_tokens: 0, opened: false }
    }

    /// The next piece, and whether more follow.
    async fn piece(&mut self) -> io::Result<(String, bool)> {
        match self.generation.next().await {
            Some(progress) => {
                self.sent_tokens += progress.tokens.len();
                if self.fail_after_tokens.is_some_and(|limit| self.sent_tokens > limit) {
                    return Err(io::Error::other("this failure was injected"));
                }
                Ok((self.render(&progress), !progress.finished))
            }
            None => Ok((server_sent(&ApiError::stopped().body()), false)),
        }
    }

    fn render(&mut self, progress: &Progress) -> String {
        let mut text = String::new();
        if !std::mem::replace(&mut self.opened, true) {
            text.extend(self.answer.opening().iter().map(server_sent));
        }
        text.push_str(&server_sent(&self.answer.delta(&progress.tokens, progress.finished)));
        if progress.finished {
            if self.with_usage {
                text.push_str(&server_sent(&self.answer.closing(self.sent_tokens, progress.cached_tokens)));
            }
            text.push_str(DONE);
        }
        text
    }
}

impl IntoResponse for Stream {
    fn into_response(self) -> Response {
        let pieces = stream::unfold(Some(self), |state| async {
            let mut stream = state?;
            match stream.piece().await {
                Ok((text, more)) => Some((Ok(text), more.then_some(stream))),
                Err(error) => Some((Err(error), None)),
            }
        });
        ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(pieces)).into_response()
    }
}

/// OpenAI's default for completions.
const DEFAULT_MAX_TOKENS: usize = 16;
