//! The routes.

mod completions;
mod debug;
mod error;
mod models;

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;

pub(super) use self::debug::because;
pub(crate) use self::error::ApiError;
use super::app::App;
use super::request::Route;

/// All routes over `app`.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route(Route::Completions.path(), post(completions::serve))
        .route(Route::Chat.path(), post(completions::serve))
        .route("/v1/models", get(models::list))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/debug/workers", get(debug::workers))
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_route)
        .with_state(app)
}

/// 200 while an engine is ready.
async fn health(State(app): State<Arc<App>>) -> Response {
    let engines = app.fleet.engines();
    let ready = engines.iter().filter(|engine| engine.is_ready()).count();
    let (status, word) = if ready > 0 { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "no ready engine") };
    (status, Json(json!({"status": word, "ready_engines": ready, "engines": engines.len()}))).into_response()
}

async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    let text = app.metrics.render(&app);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

async fn unknown_route(request: Request) -> ApiError {
    ApiError::UnknownRoute { method: request.method().to_string(), path: request.uri().path().to_owned() }
}

async fn wrong_method(request: Request) -> ApiError {
    ApiError::WrongMethod { method: request.method().to_string(), path: request.uri().path().to_owned() }
}
