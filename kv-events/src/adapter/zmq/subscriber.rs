//! The live events of one rank.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use super::endpoint::{Address, Endpoint};
use super::inbox::Inbox;
use super::limits::{BACKOFF_MAX, BACKOFF_MIN, HANDSHAKES_MAX, QUEUE_BYTES_MAX, QUEUE_MESSAGES_MAX};
use super::link::{Link, LinkError, Listener, ms};
use super::zmtp::Role;

/// One thing that a [`Subscriber`] saw.
#[derive(Clone, Debug)]
pub enum SubscriberEvent {
    /// A publisher is there and has our subscription on its way.
    ///
    /// What it published before is not coming: ask its replay socket *after* this event, and drop what both bring.
    Connected,
    /// A message's frames as they came, at least one and at most [`FRAMES_MAX`](super::limits::FRAMES_MAX).
    Message(Vec<Bytes>),
    /// Messages came that the reader left no room for; they stood after the last message returned, and before the next.
    Lagged {
        /// How many.
        lost: u64,
    },
    /// The publisher is gone. What it had sent has been returned before this event.
    Disconnected {
        /// How it went.
        cause: LinkError,
    },
    /// An attempt to connect failed; another follows. Failures in a row that nobody reads are one event, the latest.
    Unreachable {
        /// Why.
        cause: LinkError,
        /// When the next attempt follows, in milliseconds.
        retry_ms: u64,
    },
}

/// What to subscribe to, and how much to keep for a slow reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriberOptions {
    /// Only messages whose first frame starts with these bytes; empty for all.
    pub topic: Vec<u8>,
    /// Most events kept for the reader.
    pub queue_messages_max: usize,
    /// Most bytes of messages kept for the reader; a single message may be larger.
    pub queue_bytes_max: usize,
}

impl Default for SubscriberOptions {
    fn default() -> Self {
        Self { topic: Vec::new(), queue_messages_max: QUEUE_MESSAGES_MAX, queue_bytes_max: QUEUE_BYTES_MAX }
    }
}

/// A SUB socket for one rank's publisher, which it never gives up on.
///
/// A task reads the socket as fast as messages come, whatever the reader of [`next`](Self::next) does: a publisher whose
/// subscriber is slow would buffer in the engine's memory. Dropping the subscriber closes its sockets soon;
/// [`close`](Self::close) waits for it.
#[derive(Debug)]
pub struct Subscriber {
    endpoint: Endpoint,
    inbox: Arc<Inbox>,
    task: JoinHandle<()>,
}

impl Subscriber {
    /// Connects to the publisher at `endpoint`, now and again after every loss, with pauses from 100 ms doubling to 5 s.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect(endpoint: Endpoint, options: SubscriberOptions) -> Self {
        let inbox = Arc::new(Inbox::new(&options));
        let task = tokio::spawn(keep_connected(endpoint.clone(), options.topic, inbox.clone()));
        Self { endpoint, inbox, task }
    }

    /// Listens at `endpoint` for a publisher that connects, as vLLM's and SGLang's do when their endpoint names a concrete host.
    ///
    /// A publisher that connects replaces the one before: after a machine's loss the old connection may look alive for long.
    ///
    /// # Errors
    /// [`BindError`] when the system refuses the address.
    pub async fn bind(endpoint: Endpoint, options: SubscriberOptions) -> Result<Self, BindError> {
        let refused = |source| BindError { endpoint: endpoint.clone(), source };
        let listener = Listener::bind(&endpoint).await.map_err(refused)?;
        let bound = with_port(&endpoint, listener.port().map_err(refused)?);
        let inbox = Arc::new(Inbox::new(&options));
        let task = tokio::spawn(keep_listening(listener, options.topic, inbox.clone()));
        Ok(Self { endpoint: bound, inbox, task })
    }

    /// Where it connects to or listens, with the port that the system chose where that was left to it.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The next event, in the order of arrival. Safe to cancel: nothing is lost with a dropped future.
    pub async fn next(&mut self) -> SubscriberEvent {
        self.inbox.next().await
    }

    /// Closes the sockets and returns when they are closed.
    pub async fn close(mut self) {
        self.task.abort();
        // An error says that it was aborted, which it was.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An endpoint that cannot be listened at.
#[derive(Debug, Error)]
#[error("expected to listen at {endpoint}: {source}")]
pub struct BindError {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The system's reason.
    pub source: io::Error,
}

async fn keep_connected(endpoint: Endpoint, topic: Vec<u8>, inbox: Arc<Inbox>) {
    let mut backoff = Backoff::default();
    loop {
        let pause;
        match Link::dial(&endpoint, Role::Sub).await {
            Ok(link) => {
                let since = Instant::now();
                pump(link, &topic, &inbox).await;
                pause = backoff.after_link(since.elapsed());
            }
            Err(cause) => {
                pause = backoff.after_failure();
                inbox.push(SubscriberEvent::Unreachable { cause, retry_ms: ms(pause) });
            }
        }
        sleep(pause).await;
    }
}

async fn keep_listening(listener: Listener, topic: Vec<u8>, inbox: Arc<Inbox>) {
    let topic: Arc<[u8]> = topic.into();
    let (mut handshakes, mut live) = (JoinSet::new(), JoinSet::new());
    loop {
        tokio::select! {
            accepted = listener.accept(), if handshakes.len() < HANDSHAKES_MAX => match accepted {
                Ok(io) => drop(handshakes.spawn(Link::accept(io, Role::Sub))),
                // Out of descriptors, most likely: it must not become a busy loop.
                Err(_) => sleep(BACKOFF_MIN).await,
            },
            Some(done) = handshakes.join_next() => if let Ok(Ok(link)) = done {
                replace(&mut live, link, topic.clone(), inbox.clone()).await;
            },
        }
    }
}

/// Ends the link before, if there is one, and reads from `link` instead.
async fn replace(live: &mut JoinSet<()>, link: Link, topic: Arc<[u8]>, inbox: Arc<Inbox>) {
    live.abort_all();
    while let Some(ended) = live.join_next().await {
        // One that ended by itself has said so.
        if ended.is_err() {
            inbox.push(SubscriberEvent::Disconnected { cause: LinkError::Replaced });
        }
    }
    live.spawn(async move { pump(link, &topic, &inbox).await });
}

/// Passes everything from `link` on, from its connection to its end.
async fn pump(mut link: Link, topic: &[u8], inbox: &Inbox) {
    let subscribed = link.subscribe(topic).await;
    inbox.push(SubscriberEvent::Connected);
    let cause = match subscribed {
        Ok(()) => forward(&mut link, topic, inbox).await,
        Err(cause) => cause,
    };
    inbox.push(SubscriberEvent::Disconnected { cause });
}

async fn forward(link: &mut Link, topic: &[u8], inbox: &Inbox) -> LinkError {
    loop {
        match link.receive().await {
            Ok(frames) if frames[0].starts_with(topic) => inbox.push(SubscriberEvent::Message(frames)),
            // A publisher filters; one that does not must not bring another stream's messages in.
            Ok(_) => {}
            Err(cause) => return cause,
        }
    }
}

fn with_port(endpoint: &Endpoint, port: Option<u16>) -> Endpoint {
    match (endpoint.bound(), port) {
        (Address::Tcp { host, .. }, Some(port)) => Endpoint::tcp(host, port),
        _ => endpoint.clone(),
    }
}

/// Pauses between attempts.
#[derive(Debug)]
struct Backoff {
    pause: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { pause: BACKOFF_MIN }
    }
}

impl Backoff {
    fn after_failure(&mut self) -> Duration {
        let next = (self.pause * 2).min(BACKOFF_MAX);
        std::mem::replace(&mut self.pause, next)
    }

    /// Begins anew, unless the link was so short that the peer may be one that shakes hands and hangs up for ever.
    fn after_link(&mut self, lasted: Duration) -> Duration {
        if lasted >= BACKOFF_MAX {
            *self = Self::default();
        }
        self.after_failure()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_their_limit_and_begin_anew_after_a_link_that_lasted() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..8).map(|_| ms(backoff.after_failure())).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(ms(backoff.after_link(BACKOFF_MAX / 2)), 5000);
        assert_eq!(ms(backoff.after_link(BACKOFF_MAX)), 100);
        assert_eq!(ms(backoff.after_failure()), 200);
    }
}
