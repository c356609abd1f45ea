//! The HTTP side of one engine: what clients, routers and tests call.
//!
//! | path | what | whose |
//! |---|---|---|
//! | `POST /v1/completions`, `POST /v1/chat/completions` | generation, streamed or not | OpenAI |
//! | `GET /v1/models`, `GET /health`, `GET /metrics` | who serves, alive, load | both engines |
//! | `POST /tokenize` | token ids of a prompt or chat | vLLM |
//! | `GET /kv_event_sources`, `POST /reset_prefix_cache` | endpoints by rank, drop the cache | vLLM |
//! | `GET /server_info`, `POST /flush_cache` | the same two | SGLang |
//! | `GET /v1/loads`, `GET /get_load` | load by rank, and as it was told before | SGLang |
//! | `/admin/...` | truth and faults of the whole fleet, see [`admin`] | ours |

mod admin;
mod answer;
mod body;
mod error;
mod generate;
mod loads;
mod metrics;
mod side;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::engine::MockEngine;
use super::events::Dialect;
use super::fleet::Fleet;
use super::limits;
use error::ApiError;

/// Serves engine `index` until `stop`, then until its connections are done.
pub(super) async fn serve(fleet: Arc<Fleet>, index: usize, listener: TcpListener, stop: CancellationToken) {
    let router = router(Site { fleet, index });
    let server = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
    // `axum::serve` retries what a listener can report; it has no error to return.
    let _ = server.await;
}

/// The engine that a connection came to.
#[derive(Clone)]
struct Site {
    fleet: Arc<Fleet>,
    index: usize,
}

impl Site {
    fn engine(&self) -> &MockEngine {
        &self.fleet.engines[self.index]
    }

    /// Whether questions for the load are answered with nonsense.
    fn load_is_garbled(&self) -> Result<bool, ApiError> {
        let faults = *self.engine().http_faults.lock();
        faults.load_status.map_or(Ok(faults.load_garbled), |status| Err(ApiError::injected(status)))
    }
}

fn router(site: Site) -> Router {
    let openai = Router::new()
        .route("/v1/completions", post(generate::completions))
        .route("/v1/chat/completions", post(generate::chat_completions))
        .route("/v1/models", get(side::models))
        .route("/health", get(side::health))
        .route("/metrics", get(metrics::metrics))
        .route("/tokenize", post(side::tokenize));
    let own = match site.fleet.config.dialect {
        Dialect::Vllm => {
            Router::new().route("/kv_event_sources", get(side::event_sources)).route("/reset_prefix_cache", post(side::reset))
        }
        Dialect::Sglang => Router::new()
            .route("/server_info", get(side::server_info))
            .route("/flush_cache", post(side::reset))
            .route("/v1/loads", get(loads::loads))
            .route("/get_load", get(loads::get_load)),
    };
    openai
        .merge(own)
        .nest("/admin", admin::router())
        .fallback(|| async { ApiError::not_found("there is no such endpoint") })
        .layer(DefaultBodyLimit::max(limits::BODY_BYTES))
        .with_state(site)
}
