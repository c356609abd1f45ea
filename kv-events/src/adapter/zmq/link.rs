//! One connection to one peer, from the name lookup to the last message.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use super::endpoint::{Address, Endpoint};
use super::limits::{HANDSHAKE_MAX, PING_AFTER, PINGS_UNANSWERED_MAX, READ_BYTES, WRITE_MAX};
use super::zmtp::{self, Decoder, GREETING_LEN, Item, Role, ZmtpError};

/// Why there is no connection, or no longer one.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The operating system said no: refused, reset, no such host, no such path.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The peer closed the connection. A process that ends, also by a signal, does that.
    #[error("closed by the peer")]
    Closed,
    /// The peer sent what is not ZMTP, or not within its limits.
    #[error("{0}")]
    Zmtp(#[from] ZmtpError),
    /// No connection and handshake in time: the machine is gone, or something listens there that never speaks.
    #[error("expected a ZMTP handshake within {within_ms} ms, got none")]
    HandshakeTimeout {
        /// The time allowed, in milliseconds.
        within_ms: u64,
    },
    /// The peer takes no bytes.
    #[error("expected the peer to read {bytes} bytes within {within_ms} ms, it did not")]
    WriteTimeout {
        /// How many bytes were to be sent.
        bytes: usize,
        /// The time allowed, in milliseconds.
        within_ms: u64,
    },
    /// The peer answers no ping: its machine is gone without a word, or its process is stopped.
    #[error("expected an answer to one of {pings} pings, got none")]
    Unanswered {
        /// How many pings went out.
        pings: u32,
    },
    /// On a bound endpoint, another publisher has connected since.
    #[error("replaced by a publisher that connected later")]
    Replaced,
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        // `read_exact` reports an end this way.
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Io(Arc::new(error)),
        }
    }
}

/// A connection after its handshake.
pub(super) struct Link {
    io: Box<dyn Duplex>,
    buffer: BytesMut,
    decoder: Decoder,
    /// Both sides speak ZMTP 3.1.
    commands: bool,
}

impl Link {
    /// Connects to `endpoint` and shakes hands, within [`HANDSHAKE_MAX`].
    pub(super) async fn dial(endpoint: &Endpoint, role: Role) -> Result<Self, LinkError> {
        in_time(async { Self::shake_hands(connect(endpoint.dialled()).await?, role).await }).await
    }

    /// Shakes hands on an accepted connection, within [`HANDSHAKE_MAX`].
    pub(super) async fn accept(io: Box<dyn Duplex>, role: Role) -> Result<Self, LinkError> {
        in_time(Self::shake_hands(io, role)).await
    }

    /// Asks for all messages whose topic starts with `prefix`.
    pub(super) async fn subscribe(&mut self, prefix: &[u8]) -> Result<(), LinkError> {
        let mut out = BytesMut::new();
        zmtp::put_subscription(prefix, self.commands, &mut out);
        self.write(&out).await
    }

    /// Sends one message.
    pub(super) async fn send<F: AsRef<[u8]>>(&mut self, frames: &[F]) -> Result<(), LinkError> {
        let mut out = BytesMut::new();
        zmtp::put_message(frames, &mut out);
        self.write(&out).await
    }

    /// The next message. Answers the peer's pings, and pings a peer that is silent. Not safe to cancel and go on: half a pong may
    /// have been written.
    pub(super) async fn receive(&mut self) -> Result<Vec<Bytes>, LinkError> {
        loop {
            match self.decoder.next(&mut self.buffer)? {
                Some(Item::Message(frames)) => return Ok(frames),
                Some(Item::Command(command)) => self.obey(&command).await?,
                None => self.fill().await?,
            }
        }
    }

    async fn shake_hands(io: Box<dyn Duplex>, role: Role) -> Result<Self, LinkError> {
        let mut link = Self { io, buffer: BytesMut::new(), decoder: Decoder::default(), commands: false };
        link.write(&zmtp::greeting()).await?;
        let mut greeting = [0; GREETING_LEN];
        link.io.read_exact(&mut greeting).await?;
        link.commands = zmtp::read_greeting(&greeting)?;
        let mut ready = BytesMut::new();
        zmtp::put_ready(role, &mut ready);
        link.write(&ready).await?;
        zmtp::read_ready(&link.handshake_command().await?, role)?;
        Ok(link)
    }

    async fn handshake_command(&mut self) -> Result<Bytes, LinkError> {
        loop {
            match self.decoder.next(&mut self.buffer)? {
                Some(Item::Command(command)) => return Ok(command),
                Some(Item::Message(_)) => return Err(ZmtpError::Early.into()),
                None => self.read().await?,
            }
        }
    }

    /// Waits for bytes, with a ping every [`PING_AFTER`] of silence where the peer knows pings.
    async fn fill(&mut self) -> Result<(), LinkError> {
        let mut pings = 0;
        loop {
            match timeout(PING_AFTER, self.read()).await {
                Ok(read) => return read,
                Err(_) if !self.commands => {}
                Err(_) if pings == PINGS_UNANSWERED_MAX => return Err(LinkError::Unanswered { pings }),
                Err(_) => self.ping().await?,
            }
            pings += 1;
        }
    }

    async fn read(&mut self) -> Result<(), LinkError> {
        self.buffer.reserve(READ_BYTES);
        match self.io.read_buf(&mut self.buffer).await? {
            0 => Err(LinkError::Closed),
            _ => Ok(()),
        }
    }

    async fn obey(&mut self, command: &[u8]) -> Result<(), LinkError> {
        // A pong, and any command of a later version, asks for nothing.
        let (b"PING", body) = zmtp::split_command(command)? else { return Ok(()) };
        let context = body.get(2..).ok_or(ZmtpError::Command { expected: "PING with its time to live", len: command.len() })?;
        let mut out = BytesMut::new();
        zmtp::put_command("PONG", &context[..context.len().min(PING_CONTEXT_MAX)], &mut out);
        self.write(&out).await
    }

    async fn ping(&mut self) -> Result<(), LinkError> {
        let mut out = BytesMut::new();
        zmtp::put_command("PING", &NO_TIME_TO_LIVE, &mut out);
        self.write(&out).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        let write = async {
            self.io.write_all(bytes).await?;
            self.io.flush().await
        };
        let late = |_| LinkError::WriteTimeout { bytes: bytes.len(), within_ms: ms(WRITE_MAX) };
        Ok(timeout(WRITE_MAX, write).await.map_err(late)??)
    }
}

/// A socket that listens for publishers that connect.
pub(super) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Ipc(UnixListener),
}

impl Listener {
    pub(super) async fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint.bound() {
            Address::Tcp { host, port } => Ok(Self::Tcp(TcpListener::bind((host.as_str(), port)).await?)),
            #[cfg(unix)]
            Address::Ipc { path } => Ok(Self::Ipc(UnixListener::bind(path)?)),
            #[cfg(not(unix))]
            Address::Ipc { .. } => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The port that the system chose, where it did.
    pub(super) fn port(&self) -> io::Result<Option<u16>> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(|address| Some(address.port())),
            #[cfg(unix)]
            Self::Ipc(_) => Ok(None),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Box<dyn Duplex>> {
        match self {
            Self::Tcp(listener) => without_delay(listener.accept().await?.0),
            #[cfg(unix)]
            Self::Ipc(listener) => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}

/// A byte stream in both directions.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

async fn connect(address: Address) -> io::Result<Box<dyn Duplex>> {
    match address {
        Address::Tcp { host, port } => without_delay(TcpStream::connect((host.as_str(), port)).await?),
        #[cfg(unix)]
        Address::Ipc { path } => Ok(Box::new(UnixStream::connect(path).await?)),
        #[cfg(not(unix))]
        Address::Ipc { .. } => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn without_delay(stream: TcpStream) -> io::Result<Box<dyn Duplex>> {
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

async fn in_time(handshake: impl Future<Output = Result<Link, LinkError>>) -> Result<Link, LinkError> {
    let late = |_| LinkError::HandshakeTimeout { within_ms: ms(HANDSHAKE_MAX) };
    timeout(HANDSHAKE_MAX, handshake).await.map_err(late)?
}

pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The time to live that a ping asks the peer to use, in tenths of a second: none, the peer need not watch us.
const NO_TIME_TO_LIVE: [u8; 2] = [0; 2];

/// Longest context of a ping, which its pong repeats (ZMTP 3.1).
const PING_CONTEXT_MAX: usize = 16;
