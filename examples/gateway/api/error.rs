//! What a client is told when the gateway cannot serve it, in the shape of OpenAI's API.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kv_routing::NoCandidate;
use serde::Serialize;
use thiserror::Error;

use crate::gateway::limits::RETRY_AFTER_S;
use crate::gateway::proxy::Failure;

/// Why the gateway itself refuses or fails a request. Errors of the engines are passed on as they are.
#[derive(Debug, Error)]
pub(crate) enum ApiError {
    /// The body is not what the route takes.
    #[error("{reason}")]
    Invalid {
        /// The field, where one is to blame.
        param: Option<&'static str>,
        reason: String,
    },
    #[error("the body is longer than the limit of {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the model `{model}` does not exist; GET /v1/models lists those that do")]
    UnknownModel { model: String },
    #[error("no engine that serves `{model}` is ready")]
    NotReady { model: String },
    #[error("{reason}; try again in {retry_after_s} s")]
    NoRoom { reason: String, retry_after_s: u64 },
    #[error("the gateway has no route {method} {path}")]
    UnknownRoute { method: String, path: String },
    #[error("{path} does not take {method}")]
    WrongMethod { method: String, path: String },
    #[error("engine {engine} failed: {reason}")]
    Upstream { engine: String, reason: String },
    #[error("engine {engine} did not begin its answer in time")]
    Timeout { engine: String },
    #[error("the gateway is shutting down")]
    ShuttingDown,
}

/// The body of an error, as OpenAI's clients parse it.
#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorFields<'a>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'static str>,
    code: &'static str,
}

impl ApiError {
    /// A fault of the request's field `param`.
    pub(crate) fn invalid(param: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { param: Some(param), reason: reason.into() }
    }

    /// What is said of a request for `model` that no rank had room for.
    pub(crate) fn no_room(refused: NoCandidate, model: &str, retry_after: Duration) -> Self {
        match refused {
            NoCandidate::EmptyPool | NoCandidate::NoneReady { .. } => Self::NotReady { model: model.to_owned() },
            _ => Self::NoRoom { reason: refused.to_string(), retry_after_s: whole_seconds(retry_after) },
        }
    }

    /// When whoever comes back should come back, in seconds.
    const fn retry_after_s(&self) -> u64 {
        if let Self::NoRoom { retry_after_s, .. } = self { *retry_after_s } else { RETRY_AFTER_S }
    }

    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::Invalid { .. } => StatusCode::BAD_REQUEST,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnknownModel { .. } | Self::UnknownRoute { .. } => StatusCode::NOT_FOUND,
            Self::WrongMethod { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotReady { .. } | Self::NoRoom { .. } | Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            Self::Upstream { .. } => StatusCode::BAD_GATEWAY,
            Self::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The word that programs branch on; the metrics' label too.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid_request",
            Self::TooLarge { .. } => "request_too_large",
            Self::UnknownModel { .. } => "model_not_found",
            Self::NotReady { .. } => "no_ready_engine",
            Self::NoRoom { .. } => "overloaded",
            Self::UnknownRoute { .. } => "unknown_route",
            Self::WrongMethod { .. } => "method_not_allowed",
            Self::Upstream { .. } => "engine_failed",
            Self::Timeout { .. } => "engine_timeout",
            Self::ShuttingDown => "shutting_down",
        }
    }

    /// The error as JSON text, for an answer that is under way already.
    pub(crate) fn to_json(&self) -> String {
        let message = self.to_string();
        serde_json::to_string(&self.body(&message)).expect("strings are always JSON")
    }

    fn body<'a>(&self, message: &'a str) -> ErrorBody<'a> {
        let param = match self {
            Self::Invalid { param, .. } => *param,
            Self::UnknownModel { .. } => Some("model"),
            _ => None,
        };
        let r#type = if self.status().is_server_error() { "server_error" } else { "invalid_request_error" };
        ErrorBody { error: ErrorFields { message, r#type, param, code: self.code() } }
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Engine { engine, reason } => Self::Upstream { engine, reason },
            Failure::Timeout { engine } => Self::Timeout { engine },
            Failure::ShuttingDown => Self::ShuttingDown,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let message = self.to_string();
        let mut response = (self.status(), Json(self.body(&message))).into_response();
        if self.status() == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(self.retry_after_s()));
        }
        response
    }
}

/// Not too soon, and not at once.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_unknown_model_has_openai_s_shape() {
        let error = ApiError::UnknownModel { model: "gpt-9".to_owned() };
        assert_eq!(error.status(), StatusCode::NOT_FOUND);
        let body: Value = serde_json::from_str(&error.to_json()).unwrap();
        let message = "the model `gpt-9` does not exist; GET /v1/models lists those that do";
        let expected = json!({"message": message, "type": "invalid_request_error", "param": "model", "code": "model_not_found"});
        assert_eq!(body, json!({ "error": expected }));
    }

    #[test]
    fn who_may_come_back_is_told_when() {
        let header = |error: ApiError| error.into_response().headers().get(header::RETRY_AFTER).cloned();
        assert_eq!(header(ApiError::NotReady { model: "m".to_owned() }), Some(HeaderValue::from(RETRY_AFTER_S)));
        assert_eq!(header(ApiError::TooLarge { limit: 1 }), None);
        let refused = |wait_ms| ApiError::no_room(NoCandidate::Shed { candidates: 2 }, "m", Duration::from_millis(wait_ms));
        assert_eq!([3_000, 3_001, 0].map(|wait_ms| header(refused(wait_ms))), [3, 4, 1].map(|s: u64| Some(HeaderValue::from(s))));
        assert_eq!((refused(1).code(), refused(1).status()), ("overloaded", StatusCode::SERVICE_UNAVAILABLE));
    }
}
