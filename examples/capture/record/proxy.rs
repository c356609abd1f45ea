//! A recording proxy in front of the engine: everything passes through, completions are recorded.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use super::RecordError;
use super::engine::Engine;
use super::journal::{HUNG_UP, Inference, Journal, Line, NO_ANSWER, RequestLine};
use crate::client::{Evidence, token_ids};

/// Serves until it is dropped.
pub(super) async fn serve(address: SocketAddr, engine: Arc<Engine>, journal: Journal) -> Result<(), RecordError> {
    let failed = |source| RecordError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    eprintln!("recording requests to http://{}; Ctrl-C ends it", listener.local_addr().map_err(failed)?);
    axum::serve(listener, router(engine, journal)).await.map_err(failed)
}

fn router(engine: Arc<Engine>, journal: Journal) -> Router {
    Router::new().fallback(pass).with_state(Proxy { engine, journal })
}

#[derive(Clone)]
struct Proxy {
    engine: Arc<Engine>,
    journal: Journal,
}

async fn pass(State(proxy): State<Proxy>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let mut tape = Tape::begin(&proxy.journal, &path, &head.headers, &body);
    let body = tape.as_ref().map_or(body, |tape| tape.body.clone());
    let sent =
        proxy.engine.client.request(head.method, proxy.engine.url(&path)).headers(passed(&head.headers)).body(body).send().await;
    match sent {
        Ok(answer) => answered(answer, tape),
        Err(error) => {
            if let Some(tape) = &mut tape {
                tape.line.status = NO_ANSWER;
            }
            (StatusCode::BAD_GATEWAY, format!("the engine does not answer: {error}")).into_response()
        }
    }
}

/// The engine's answer, passed on as it comes; the tape hears it, and ends with it.
fn answered(answer: reqwest::Response, tape: Option<Tape>) -> Response {
    let (status, headers) = (answer.status(), passed(answer.headers()));
    let body = stream::unfold((answer.bytes_stream(), tape), move |(mut chunks, mut tape)| async move {
        let chunk = chunks.next().await;
        if let Some(tape) = &mut tape {
            tape.hear(chunk.as_ref(), status);
        }
        Some((chunk?, (chunks, tape)))
    });
    (status, headers, Body::from_stream(body)).into_response()
}

/// One request for tokens, recorded when it is dropped: at the answer's end, or when the client hangs up.
struct Tape {
    journal: Journal,
    line: RequestLine,
    /// The request as it goes to the engine.
    body: Bytes,
    heard: Vec<u8>,
}

impl Tape {
    /// For completions with a JSON body; anything else is not recorded.
    fn begin(journal: &Journal, path: &str, headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        let recorded = path.ends_with("/completions").then(|| serde_json::from_slice::<Map<String, Value>>(body).ok());
        let mut fields = recorded.flatten()?;
        ask_for_evidence(&mut fields);
        let body = serde_json::to_vec(&fields).ok()?.into();
        let t_start = journal.now();
        let rank = headers.get("x-data-parallel-rank").and_then(|rank| rank.to_str().ok()?.parse().ok());
        let inference = Some(Inference { rank, ..split(fields) });
        let line = RequestLine { name: "client".to_owned(), status: HUNG_UP, t_start, inference, ..Default::default() };
        Some(Self { journal: journal.clone(), line, body, heard: Vec::new() })
    }

    /// Takes the answer's next piece, or its end.
    fn hear(&mut self, chunk: Option<&reqwest::Result<Bytes>>, status: StatusCode) {
        match chunk {
            Some(Ok(chunk)) => {
                let room = BODY_BYTES_MAX - self.heard.len();
                self.heard.extend_from_slice(&chunk[..chunk.len().min(room)]);
            }
            Some(Err(_)) => self.line.status = NO_ANSWER,
            None if self.line.status == HUNG_UP => self.line.status = status.as_u16(),
            None => {}
        }
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        line.t = self.journal.now();
        if let Some(inference) = &mut line.inference {
            inference.add(Evidence::read(&self.heard));
        }
        self.journal.add_later(Line::Request(Box::new(line)));
    }
}

/// Asks for token ids, and for the usage at a stream's end: the client sees both, in fields that OpenAI's clients skip.
fn ask_for_evidence(fields: &mut Map<String, Value>) {
    fields.insert("return_token_ids".to_owned(), json!(true));
    if fields.get("stream") == Some(&json!(true)) {
        let options = fields.entry("stream_options").or_insert_with(|| json!({}));
        if let Value::Object(options) = options {
            options.insert("include_usage".to_owned(), json!(true));
        }
    }
}

/// The fields with a place of their own, and the rest. The texts of messages are not kept: the engine answers with their ids.
fn split(mut fields: Map<String, Value>) -> Inference {
    let prompt = fields.remove("prompt").unwrap_or_default();
    fields.remove("messages");
    let model = fields.remove("model").and_then(|model| model.as_str().map(str::to_owned));
    let max_tokens = fields.remove("max_tokens").and_then(|max| max.as_u64());
    Inference { model, max_tokens, prompt_token_ids: token_ids(&prompt), extra: fields, ..Default::default() }
}

/// Headers that concern the message, not the connection it came over.
fn passed(headers: &HeaderMap) -> HeaderMap {
    let own = |name: &HeaderName| !CONNECTION_HEADERS.contains(name);
    headers.iter().filter(|(name, _)| own(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

const CONNECTION_HEADERS: [HeaderName; 8] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::ACCEPT_ENCODING,
];

/// Longest request or answer that is recorded: 10 million token ids.
const BODY_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn evidence_is_asked_for_beside_what_the_client_asked() {
        let mut streamed = object(&json!({"stream": true, "stream_options": {"other": 1}}));
        ask_for_evidence(&mut streamed);
        let asked = json!({"stream": true, "return_token_ids": true, "stream_options": {"other": 1, "include_usage": true}});
        assert_eq!(streamed, object(&asked));
        let mut whole = object(&json!({"stream": false}));
        ask_for_evidence(&mut whole);
        assert_eq!(whole, object(&json!({"stream": false, "return_token_ids": true})));
    }

    #[test]
    fn a_requests_fields_find_their_places() {
        let body = json!({"model": "tiny", "prompt": [1, 2], "max_tokens": 3, "cache_salt": "s"});
        let inference = split(object(&body));
        assert_eq!(inference.model.as_deref(), Some("tiny"));
        assert_eq!((inference.prompt_token_ids, inference.max_tokens), (Some(vec![1, 2]), Some(3)));
        assert_eq!(inference.extra, object(&json!({"cache_salt": "s"})));
        let chat = split(object(&json!({"messages": [{"role": "user", "content": "secret"}]})));
        assert_eq!((chat.prompt_token_ids, chat.extra.len()), (None, 0));
    }

    #[test]
    fn a_connections_own_headers_stay_behind() {
        let mut headers = HeaderMap::new();
        for name in CONNECTION_HEADERS {
            headers.insert(name, "x".parse().unwrap());
        }
        headers.insert("authorization", "Bearer key".parse().unwrap());
        assert_eq!(passed(&headers).keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["authorization"]);
    }
}
