//! `/v1/completions` and `/v1/chat/completions`: read, decide, hand over.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use super::ApiError;
use crate::gateway::app::App;
use crate::gateway::decide::Question;
use crate::gateway::fleet::Server;
use crate::gateway::proxy::Failure;
use crate::gateway::proxy::headers::wants_explanation;
use crate::gateway::request::{Inbound, Route};

pub(super) async fn serve(State(app): State<Arc<App>>, request: Request) -> Response {
    answer(&app, request).await.unwrap_or_else(|error| {
        app.metrics.refused(error.code());
        error.into_response()
    })
}

async fn answer(app: &App, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let body = read_body(body, &parts.headers, app.settings.body_limit).await?;
    let inbound = Inbound::read(Route::of(&parts.uri), body)?;
    let servers = app.fleet.serving(&inbound.model)?;
    let tokens = app.tokens.of(&inbound, &servers).await;
    if let Err(reason) = tokens {
        app.metrics.unpredicted(reason);
    }
    let question = Question {
        inbound: &inbound,
        tokens: tokens.as_deref().map_err(|reason| *reason),
        session: app.decider.steering.session(&parts.headers),
        explain: wants_explanation(&parts.headers),
    };
    send(app, &question, &parts.headers, servers).await
}

/// Sends the request to the best of `servers`, and to another one if that fails before the client has got anything. Once
/// only: a request that brings engines down must not visit all of them.
async fn send(app: &App, question: &Question<'_>, headers: &HeaderMap, mut servers: Vec<Server>) -> Result<Response, ApiError> {
    let (mut retried, mut attempts) = (false, app.decider.sheds.request());
    loop {
        let refused = |refused| ApiError::no_room(refused, &question.inbound.model, app.decider.retry_after);
        let booked = app.decide(question, &servers, &mut attempts).map_err(refused)?;
        match app.proxy.send(question.inbound, headers, booked).await {
            Ok(response) => return Ok(response),
            Err(Failure::Engine { engine, reason }) if !retried && servers.len() > 1 => {
                tracing::warn!(engine, reason, "failed before its answer began, trying another engine");
                servers.retain(|server| server.engine.name() != engine);
                retried = true;
            }
            Err(failure) => return Err(failure.into()),
        }
    }
}

/// The whole body, up to `limit` bytes.
async fn read_body(body: Body, headers: &HeaderMap, limit: usize) -> Result<Bytes, ApiError> {
    let told = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if told.is_some_and(|length| length > limit) {
        return Err(ApiError::TooLarge { limit });
    }
    let mut chunks = body.into_data_stream();
    let mut whole = BytesMut::with_capacity(told.unwrap_or(0));
    while let Some(chunk) = chunks.next().await {
        let broken = |error| ApiError::Invalid { param: None, reason: format!("cannot read the body: {error}") };
        let chunk = chunk.map_err(broken)?;
        if whole.len() + chunk.len() > limit {
            return Err(ApiError::TooLarge { limit });
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}
