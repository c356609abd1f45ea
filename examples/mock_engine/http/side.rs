//! The endpoints beside generation.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::Site;
use super::body::{GenerateBody, parse};
use super::error::ApiError;
use crate::mock_engine::engine_core::Command;
use crate::mock_engine::events::Dialect;

pub(super) async fn models(State(site): State<Site>) -> Json<Value> {
    let config = &site.fleet.config;
    let owner = match config.dialect {
        Dialect::Vllm => "vllm",
        Dialect::Sglang => "sglang",
    };
    Json(json!({
        "object": "list",
        "data": [{
            "id": config.model,
            "object": "model",
            "created": 0,
            "owned_by": owner,
            "max_model_len": config.max_model_len,
        }],
    }))
}

pub(super) async fn health() -> StatusCode {
    StatusCode::OK
}

pub(super) async fn tokenize(State(site): State<Site>, body: Result<Bytes, BytesRejection>) -> Result<Json<Value>, ApiError> {
    let mut body: GenerateBody = parse(body)?;
    let tokens = if body.messages.is_some() { body.chat_tokens()? } else { body.completion_tokens()? };
    Ok(Json(json!({
        "count": tokens.len(),
        "max_model_len": site.fleet.config.max_model_len,
        "tokens": tokens,
        "token_strs": null,
    })))
}

/// Drops the cache of every rank; what runs starts over.
pub(super) async fn reset(State(site): State<Site>) -> StatusCode {
    site.engine().command_all(Command::Reset).await;
    StatusCode::OK
}

pub(super) async fn event_sources(State(site): State<Site>) -> Json<Value> {
    Json(json!(site.engine().event_sources(site.fleet.config.replay_batches)))
}

/// The part of SGLang's answer that says where the events are.
pub(super) async fn server_info(State(site): State<Site>) -> Json<Value> {
    let (config, engine) = (&site.fleet.config, site.engine());
    let publisher = &engine.ranks[0].publisher;
    Json(json!({
        "page_size": config.block_size,
        "dp_size": config.ranks,
        "kv_events": {
            "publisher": "zmq",
            "endpoint_host": config.host,
            "endpoint_port_base": port(publisher.events_endpoint()),
            "replay_endpoint_port_base": port(publisher.replay_endpoint()),
            "topic": publisher.topic(),
            "block_size": config.block_size,
            "dp_size": config.ranks,
        },
    }))
}

fn port(endpoint: &str) -> Option<u16> {
    endpoint.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
}
