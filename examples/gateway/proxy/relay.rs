//! A streamed answer on its way from the engine to the client.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio_util::sync::CancellationToken;

use super::sniffer::Sniffer;
use crate::gateway::api::ApiError;
use crate::gateway::fleet::Ticket;

/// The chunks of an engine's answer.
pub(super) type Chunks = BoxStream<'static, Result<Bytes, axum::Error>>;

/// One stream under way. Dropped early, when the client has gone, it drops the engine's connection with it, and the
/// engine stops generating.
pub(super) struct Relay {
    chunks: Chunks,
    sniffer: Sniffer,
    ticket: Ticket,
    /// Time for running answers is over.
    cut: CancellationToken,
    ended: bool,
}

impl Relay {
    pub(super) fn new(chunks: Chunks, hides_usage: bool, ticket: Ticket, cut: CancellationToken) -> Self {
        Self { chunks, sniffer: Sniffer::new(hides_usage), ticket, cut, ended: false }
    }

    /// The stream as a response's body.
    pub(super) fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(self, async |mut relay| {
            let bytes = relay.next().await?;
            Some((Ok::<_, Infallible>(bytes), relay))
        }))
    }

    /// The next bytes for the client; never empty.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            let chunk = tokio::select! {
                chunk = self.chunks.next() => chunk,
                () = self.cut.cancelled() => return Some(self.break_off(&ApiError::ShuttingDown)),
            };
            let bytes = match chunk {
                Some(Ok(chunk)) => self.sniffer.pass(chunk),
                Some(Err(error)) => self.failed(&error),
                None => self.finish(),
            };
            if !bytes.is_empty() {
                return Some(bytes);
            }
        }
        None
    }

    fn finish(&mut self) -> Bytes {
        self.ended = true;
        if let Some(usage) = self.sniffer.usage() {
            self.ticket.answered(usage);
        }
        self.sniffer.finish()
    }

    fn failed(&mut self, error: &axum::Error) -> Bytes {
        let failure = self.ticket.failed(super::reason(error));
        self.break_off(&failure.into())
    }

    /// Tells the client in the stream's own form that nothing more comes.
    fn break_off(&mut self, error: &ApiError) -> Bytes {
        self.ended = true;
        format!("data: {}\n\n", error.to_json()).into()
    }
}
