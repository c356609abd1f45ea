//! A relay's server.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status};

use super::limits::{CONNECTIONS_MAX, KEEPALIVE, REQUEST_BYTES_MAX, STREAMS_PER_CONNECTION_MAX, SUBSCRIBE_MAX, UPDATE_BYTES_MAX};
use super::message::read_request;
use super::proto::kv_events as proto;
use super::proto::kv_events::kv_events_server::{KvEvents, KvEventsServer};
use super::smg::{SmgCounts, SmgService};
use super::status::{invalid, refused};
use super::stream::{Messages, Teller, messages};
use super::update::Update;
use crate::adapter::hub::Hub;

/// Serves what `hub` knows to whoever connects to `listener`, until `stop`: our own service, and the engines' `SubscribeKvEvents` of
/// the SMG family, whose counts are `smg`.
///
/// Streams that run then end with `UNAVAILABLE` once the hub is stopped; this returns when all have.
///
/// # Errors
/// What the server could not go on after.
pub async fn serve(
    listener: TcpListener,
    hub: Hub,
    smg: Arc<SmgCounts>,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let own = KvEventsServer::new(Service { hub: hub.clone() })
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(UPDATE_BYTES_MAX);
    let server = Server::builder()
        .tcp_nodelay(true)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1))
        .add_service(own);
    let server = SmgService::new(hub, smg).add_to(server);
    server.serve_with_incoming_shutdown(connections(listener), stop).await
}

/// Our own service.
struct Service {
    hub: Hub,
}

#[tonic::async_trait]
impl KvEvents for Service {
    type SubscribeStream = Messages<proto::Update>;

    async fn subscribe(&self, request: Request<proto::SubscribeRequest>) -> Result<Response<Self::SubscribeStream>, Status> {
        let (ranks, positions) = read_request(request.into_inner()).map_err(invalid)?;
        let reader = tokio::time::timeout(SUBSCRIBE_MAX, self.hub.subscribe(ranks, positions));
        let reader = reader.await.map_err(|_| Status::unavailable("the relay is busy"))?.map_err(|error| refused(&error))?;
        Ok(Response::new(messages(reader, Own)))
    }
}

/// Tells everything.
struct Own;

impl Teller for Own {
    type Message = proto::Update;

    fn tell(&mut self, update: Update) -> Result<Option<proto::Update>, Status> {
        Ok(Some((&update).into()))
    }
}

/// At most [`CONNECTIONS_MAX`] connections at a time; more wait in the kernel's backlog.
fn connections(listener: TcpListener) -> ReceiverStream<io::Result<Connection>> {
    let (accepted, connections) = mpsc::channel(1);
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    tokio::spawn(async move {
        while let Ok(permit) = room.clone().acquire_owned().await {
            let connection = tokio::select! {
                () = accepted.closed() => return,
                connection = listener.accept() => connection,
            };
            let Ok((stream, _)) = connection else {
                // Out of descriptors, most likely: it must not become a busy loop.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            // Without it, a small message waits for the one before it to be acknowledged.
            let _ = stream.set_nodelay(true);
            if accepted.send(Ok(Connection { stream, _permit: permit })).await.is_err() {
                return;
            }
        }
    });
    ReceiverStream::new(connections)
}

/// A connection, and its right to be one.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, from)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
