//! Handing a request to an engine, and its answer to the client.

mod engines;
pub(crate) mod headers;
mod relay;
mod sniffer;
mod sse;
mod usage;

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use axum::http::uri::InvalidUri;
use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use kv_routing::adapter::tower::carry;
use reqwest::Client;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use self::engines::{Engines, engines};
use self::relay::{Chunks, Relay};
pub(crate) use self::usage::Usage;
use super::fleet::{Booking, Ticket};
use super::limits::{ANSWER_BYTES_MAX, CONNECT_MAX, IDLE_CONNECTION_MAX, SIDE_ANSWER_BYTES_MAX};
use super::request::Inbound;
use super::settings::ApiKey;

/// The gateway's way to its engines.
pub(crate) struct Proxy {
    /// For clients' requests, which bring their own key.
    requests: Engines,
    /// For the gateway's own questions.
    questions: Client,
    max_wait: Duration,
    /// Cancelled when running answers have had their time after a shutdown began.
    cut: CancellationToken,
}

/// Why an engine gave no answer. The client has got nothing yet.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection failed, or the engine says that it can serve nobody: another engine may.
    Engine {
        engine: String,
        reason: String,
    },
    /// The wait is over. The engine may still be at work, so the request is not given to a second one.
    Timeout {
        engine: String,
    },
    ShuttingDown,
}

impl Proxy {
    /// A proxy whose requests wait `max_wait` for the first byte that their client can be given, and end when `cut` is
    /// cancelled. The gateway's own questions go with `key`.
    pub(crate) fn new(max_wait: Duration, key: Option<&ApiKey>, cut: CancellationToken) -> Self {
        let headers = key.map(|key| (AUTHORIZATION, key.bearer())).into_iter().collect();
        Self { requests: engines(client(HeaderMap::new())), questions: client(headers), max_wait, cut }
    }

    /// The connections to the engines for questions of the gateway's own.
    pub(crate) fn questions(&self) -> &Client {
        &self.questions
    }

    /// Sends `inbound` to where `ticket` says, and returns the answer: a stream from its first chunk on, anything else whole.
    pub(crate) async fn send(
        &self,
        inbound: &Inbound,
        headers: &HeaderMap,
        (ticket, booking): (Ticket, Booking),
    ) -> Result<Response, Failure> {
        let engine = ticket.engine().name().to_owned();
        let mut request = Request::new(inbound.engine_body());
        *request.method_mut() = Method::POST;
        let url = ticket.engine().at(inbound.route.path());
        *request.uri_mut() = url.parse().map_err(|error: InvalidUri| ticket.failed(reason(&error)))?;
        *request.headers_mut() = headers::for_engine(headers, ticket.sent_rank());
        carry(&mut request, booking);
        tokio::select! {
            answer = timeout(self.max_wait, self.exchange(request, inbound.hides_usage(), ticket)) => {
                answer.unwrap_or(Err(Failure::Timeout { engine }))
            }
            () = self.cut.cancelled() => Err(Failure::ShuttingDown),
        }
    }

    async fn exchange(&self, request: Request<Bytes>, hides_usage: bool, ticket: Ticket) -> Result<Response, Failure> {
        let answer = self.requests.clone().oneshot(request).await.map_err(|error| ticket.failed(reason(&error)))?;
        if is_unavailable(answer.status()) {
            return Err(ticket.failed(format!("it answered {}", answer.status())));
        }
        let (head, body) = answer.map(Body::new).into_parts();
        let mut response = Response::new(Body::empty());
        (*response.status_mut(), *response.headers_mut()) = (head.status, headers::for_client(&head.headers));
        ticket.describe(response.headers_mut());
        let chunks = body.into_data_stream();
        if head.status.is_success() && is_event_stream(&head.headers) {
            self.stream(response, chunks, hides_usage, ticket).await
        } else {
            whole(response, chunks, &ticket).await
        }
    }

    /// A streamed answer. Engines send headers before they have begun, so its first chunk is awaited: until then the
    /// request can still go to another engine.
    async fn stream(
        &self,
        mut response: Response,
        mut chunks: BodyDataStream,
        hides_usage: bool,
        ticket: Ticket,
    ) -> Result<Response, Failure> {
        let first = chunks.next().await.transpose().map_err(|error| ticket.failed(reason(&error)))?;
        let chunks: Chunks = stream::iter(first.map(Ok)).chain(chunks).boxed();
        *response.body_mut() = Relay::new(chunks, hides_usage, ticket, self.cut.clone()).into_body();
        Ok(response)
    }
}

/// Connections that send `headers` with every request.
fn client(headers: HeaderMap) -> Client {
    // Engines are never behind the proxy of the environment, and a redirection would lose the body.
    let client = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).default_headers(headers);
    let client = client.connect_timeout(CONNECT_MAX).pool_idle_timeout(IDLE_CONNECTION_MAX).tcp_nodelay(true);
    client.build().expect("a client without TLS needs nothing of the machine")
}

/// An answer that is not streamed: its usage is known before its headers go out.
async fn whole(mut response: Response, chunks: BodyDataStream, ticket: &Ticket) -> Result<Response, Failure> {
    let body = collect(chunks, ANSWER_BYTES_MAX).await.map_err(|reason| ticket.failed(reason))?;
    let usage = Usage::of_answer(&body).filter(|_| response.status().is_success());
    if let Some(cached) = usage.and_then(|usage| ticket.answered(usage)) {
        response.headers_mut().insert(headers::X_KV_CACHED_TOKENS, cached.into());
    }
    *response.body_mut() = body.into();
    Ok(response)
}

/// The answer to a question of the gateway's own.
pub(crate) async fn side_answer(answer: reqwest::Response) -> Result<Bytes, String> {
    collect(answer.bytes_stream(), SIDE_ANSWER_BYTES_MAX).await
}

/// The whole body, up to `bytes_max`.
async fn collect<E: Error + 'static>(chunks: impl Stream<Item = Result<Bytes, E>>, bytes_max: usize) -> Result<Bytes, String> {
    let (mut chunks, mut body) = (pin!(chunks), BytesMut::new());
    while let Some(chunk) = chunks.try_next().await.map_err(|error| reason(&error))? {
        if body.len() + chunk.len() > bytes_max {
            return Err(format!("its answer is longer than {bytes_max} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The first cause of an error of a client, which itself says no more than that a request failed.
pub(crate) fn reason(error: &(dyn Error + 'static)) -> String {
    let mut first = error;
    while let Some(cause) = first.source() {
        first = cause;
    }
    first.to_string()
}

/// Whether the engine, or a proxy in front of it, says that it can serve nobody now.
fn is_unavailable(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
}
