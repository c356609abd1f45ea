//! The way of clients' requests to the engines, with their books around it.

use std::task::{Context, Poll};

use axum::http::{Request, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kv_routing::adapter::tower::{Booked, BooksLayer, Carried, Failure};
use reqwest::Client;
use tower::{Layer, Service};

use crate::gateway::fleet::Booking;

/// The connections to all engines. A request carries its booking, and its answer does from then on.
pub(super) type Engines = Booked<Connections, Carried<Booking>, fn(&reqwest::Error) -> Failure>;

/// The HTTP client, for requests and answers in the words of everybody else.
#[derive(Clone)]
pub(super) struct Connections(Client);

pub(super) fn engines(client: Client) -> Engines {
    // All that the client can fail by is the connection: whoever waits for too long drops the answer.
    let classify: fn(&reqwest::Error) -> Failure = |_| Failure::Transport;
    BooksLayer::carried(classify).layer(Connections(client))
}

impl Service<Request<Bytes>> for Connections {
    type Response = Response<reqwest::Body>;
    type Error = reqwest::Error;
    type Future = BoxFuture<'static, reqwest::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<reqwest::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let (head, body) = request.into_parts();
        // By a builder, which makes a header of a name and password in the URL.
        let sent = self.0.request(head.method, head.uri.to_string()).headers(head.headers).body(body).send();
        async { Ok(sent.await?.into()) }.boxed()
    }
}
