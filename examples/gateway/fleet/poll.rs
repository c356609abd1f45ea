//! Asking an engine for its health and its models, for as long as the gateway runs.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, StatusCode};
use tokio::time::{sleep, timeout};

use super::engine::Engine;
use super::models::{self, ModelCard};
use crate::gateway::limits::{POLL_BACKOFF, POLL_EVERY, POLL_MAX};
use crate::gateway::proxy;

/// Polls `engine` until the task is aborted: at its pace while it answers, with growing pauses while it does not, and at
/// once when a request has failed.
pub(super) async fn keep_polled(engine: Arc<Engine>, client: Client) {
    let (first, longest) = POLL_BACKOFF;
    let mut backoff = first;
    loop {
        let answer = timeout(POLL_MAX, ask(&engine, &client)).await;
        let pause = match answer.unwrap_or_else(|_| Err(format!("no answer within {} s", POLL_MAX.as_secs()))) {
            Ok(models) => {
                engine.is_up(models);
                backoff = first;
                POLL_EVERY
            }
            Err(reason) => {
                engine.is_down(reason);
                let pause = backoff;
                backoff = longest.min(backoff * 2);
                pause
            }
        };
        engine.ranks().iter().for_each(|rank| _ = engine.check_up(rank));
        wait(&engine, pause).await;
    }
}

async fn wait(engine: &Engine, pause: Duration) {
    tokio::select! {
        () = sleep(pause) => {}
        () = engine.doubted() => {}
    }
}

/// The engine's models, if it is healthy; else why not.
async fn ask(engine: &Engine, client: &Client) -> Result<Vec<ModelCard>, String> {
    let health = client.get(engine.at("/health")).send().await.map_err(|error| proxy::reason(&error))?;
    // A server without the route says nothing about its health by that.
    if !health.status().is_success() && health.status() != StatusCode::NOT_FOUND {
        return Err(format!("GET /health answered {}", health.status()));
    }
    let list = client.get(engine.at("/v1/models")).send().await.map_err(|error| proxy::reason(&error))?;
    if !list.status().is_success() {
        return Err(format!("GET /v1/models answered {}", list.status()));
    }
    let body = proxy::side_answer(list).await?;
    models::read(&body).map_err(|error| format!("GET /v1/models: {error}"))
}
