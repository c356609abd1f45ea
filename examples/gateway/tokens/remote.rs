//! Tokens from the engine's own `/tokenize`, which vLLM and SGLang have.

use reqwest::{Client, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::gateway::fleet::{Engine, Server};
use crate::gateway::limits::TOKENIZE_MAX;
use crate::gateway::proxy;
use crate::gateway::request::{Chat, Untokenized};

#[derive(Serialize)]
struct Question<'a, P> {
    model: &'a str,
    #[serde(flatten)]
    prompt: P,
}

#[derive(Serialize)]
struct Text<'a> {
    prompt: &'a str,
    add_special_tokens: bool,
}

#[derive(Deserialize)]
struct Answer {
    tokens: Vec<u32>,
}

/// The tokens of a text.
pub(super) async fn text(
    client: &Client,
    servers: &[Server],
    model: &str,
    prompt: &str,
    add_special_tokens: bool,
) -> Result<Vec<u32>, Untokenized> {
    ask(client, servers, &Question { model, prompt: Text { prompt, add_special_tokens } }).await
}

/// The tokens of a chat's prompt.
pub(super) async fn chat(client: &Client, servers: &[Server], model: &str, chat: &Chat) -> Result<Vec<u32>, Untokenized> {
    ask(client, servers, &Question { model, prompt: chat }).await
}

/// Asks the least loaded of `servers` that tokenizes.
async fn ask<P: Serialize>(client: &Client, servers: &[Server], question: &Question<'_, P>) -> Result<Vec<u32>, Untokenized> {
    let able = servers.iter().map(|server| &*server.engine).filter(|engine| engine.tokenizes());
    let engine = able.min_by_key(|engine| engine.in_flight()).ok_or(Untokenized::NoTokenizer)?;
    let answer = timeout(TOKENIZE_MAX, exchange(client, engine, question)).await;
    answer.unwrap_or_else(|_| Err(format!("no answer within {} s", TOKENIZE_MAX.as_secs()))).map_err(|reason| {
        tracing::debug!(engine = engine.name(), reason, "/tokenize");
        if engine.tokenizes() { Untokenized::Engine } else { Untokenized::NoTokenizer }
    })
}

async fn exchange<P: Serialize>(client: &Client, engine: &Engine, question: &Question<'_, P>) -> Result<Vec<u32>, String> {
    let request = client.post(engine.at("/tokenize")).json(question);
    let answer = request.send().await.map_err(|error| proxy::reason(&error))?;
    let status = answer.status();
    if matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) {
        tracing::info!(engine = engine.name(), "has no /tokenize");
        engine.cannot_tokenize();
    }
    let body = proxy::side_answer(answer).await?;
    if !status.is_success() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
    }
    serde_json::from_slice(&body).map(|answer: Answer| answer.tokens).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_as_the_engines_read_them() {
        let text = Question { model: "m", prompt: Text { prompt: "hi", add_special_tokens: true } };
        assert_eq!(serde_json::to_string(&text).unwrap(), r#"{"model":"m","prompt":"hi","add_special_tokens":true}"#);
        let chat: Chat =
            serde_json::from_str(r#"{"messages":[{"role":"user","content":"hi"}],"tools":[{"b":1,"a":2}]}"#).unwrap();
        let expected = concat!(
            r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"b":1,"a":2}],"#,
            r#""add_generation_prompt":true,"continue_final_message":false,"add_special_tokens":false}"#
        );
        assert_eq!(serde_json::to_string(&Question { model: "m", prompt: &chat }).unwrap(), expected);
    }
}
