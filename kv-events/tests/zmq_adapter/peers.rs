//! The other ends of the tests' connections.

use bytes::{Bytes, BytesMut};
use kv_events::adapter::zmq::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zeromq::{Socket, SocketSend, ZmqMessage};

/// A listener at a port that the system chose, and its endpoint.
pub(crate) async fn listener() -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap()).parse().unwrap();
    (listener, endpoint)
}

/// An endpoint where nobody listens.
pub(crate) async fn nobody() -> Endpoint {
    listener().await.1
}

/// A peer made of bytes: it says what a test tells it to, right or wrong.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    received: BytesMut,
}

impl Raw {
    /// Accepts a connection and shakes hands as a `socket_type` of ZMTP 3.`minor`.
    pub(crate) async fn accept(listener: &TcpListener, socket_type: &str, minor: u8) -> Self {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut greeting = [0; 64];
        greeting[..12].copy_from_slice(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, minor]);
        greeting[12..16].copy_from_slice(b"NULL");
        stream.write_all(&greeting).await.unwrap();
        let property =
            format!("\x05READY\x0bSocket-Type\0\0\0{}{socket_type}", char::from(u8::try_from(socket_type.len()).unwrap()));
        stream.write_all(&[4, u8::try_from(property.len()).unwrap()]).await.unwrap();
        stream.write_all(property.as_bytes()).await.unwrap();
        stream.read_exact(&mut greeting).await.unwrap();
        let mut raw = Self { stream, received: BytesMut::new() };
        raw.wait_for(b"READY").await;
        raw
    }

    /// Sends messages, in one write.
    pub(crate) async fn send(&mut self, messages: impl IntoIterator<Item = [&str; 3]>) {
        let mut out = Vec::new();
        for message in messages {
            for (i, frame) in message.iter().enumerate() {
                out.extend([u8::from(i < 2), u8::try_from(frame.len()).unwrap()]);
                out.extend(frame.as_bytes());
            }
        }
        self.stream.write_all(&out).await.unwrap();
    }

    /// Reads until `bytes` have come, and returns how often they have by then.
    pub(crate) async fn wait_for(&mut self, bytes: &[u8]) -> usize {
        loop {
            let count = self.received.windows(bytes.len()).filter(|window| *window == bytes).count();
            if count > 0 {
                return count;
            }
            assert_ne!(self.stream.read_buf(&mut self.received).await.unwrap(), 0, "closed before {bytes:?}");
        }
    }

    /// Reads to the end of the connection: everything that came since the greeting.
    pub(crate) async fn read_to_end(mut self) -> Vec<u8> {
        // A reset is an end too.
        while self.stream.read_buf(&mut self.received).await.is_ok_and(|n| n > 0) {}
        self.received.to_vec()
    }

    /// Waits until the other side has read everything sent so far: it answers a ping in its order.
    pub(crate) async fn settle(&mut self) {
        self.stream.write_all(b"\x04\x0b\x04PING\0\0mark").await.unwrap();
        self.wait_for(b"\x04PONGmark").await;
    }
}

/// A PUB of the `zeromq` crate at `endpoint`, and where it is bound.
pub(crate) async fn publisher(endpoint: &str) -> (zeromq::PubSocket, Endpoint) {
    let mut publisher = zeromq::PubSocket::new();
    let mut bound = publisher.bind(endpoint).await;
    while let Err(error) = bound {
        // A port just closed may be taken for a moment longer.
        tokio::task::yield_now().await;
        eprintln!("bind {endpoint}: {error}");
        bound = publisher.bind(endpoint).await;
    }
    (publisher, bound.unwrap().to_string().parse().unwrap())
}

pub(crate) async fn publish(publisher: &mut zeromq::PubSocket, frames: &[&[u8]]) {
    publisher.send(message(frames)).await.unwrap();
}

pub(crate) fn message(frames: &[&[u8]]) -> ZmqMessage {
    let frames: Vec<_> = frames.iter().map(|frame| Bytes::copy_from_slice(frame)).collect();
    frames.try_into().unwrap()
}
