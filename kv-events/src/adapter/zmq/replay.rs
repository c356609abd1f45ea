//! Batches that one rank has published before.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::limits::{QUEUE_BYTES_MAX, QUEUE_MESSAGES_MAX, REPLAY_BYTES_MAX, REPLAY_MAX, REPLAY_MESSAGES_MAX, REPLAY_SILENCE_MAX};
use super::link::{Link, LinkError, ms};
use super::zmtp::Role;
use crate::wire::frame::{ReplayAnswer, replay_request, replayed_to_dealer};

/// How long and how large one replay may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Longest silence between two messages.
    pub silence_max: Duration,
    /// Longest time from the connection to the end marker.
    pub total_max: Duration,
    /// Most messages.
    pub messages_max: usize,
    /// Most bytes, all messages together.
    pub bytes_max: usize,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            silence_max: REPLAY_SILENCE_MAX,
            total_max: REPLAY_MAX,
            messages_max: REPLAY_MESSAGES_MAX,
            bytes_max: REPLAY_BYTES_MAX,
        }
    }
}

/// How a replay ended.
#[derive(Clone, Debug)]
pub enum ReplayEnd {
    /// The end marker came. It does not promise that nothing is missing: a publisher's socket drops answers that its reader is
    /// too slow for, so look whether the sequence numbers follow each other, and ask again from the first that does not.
    Complete,
    /// No connection.
    Unreachable {
        /// Why.
        cause: LinkError,
    },
    /// The connection ended before the end marker.
    Broken {
        /// How.
        cause: LinkError,
    },
    /// No message for too long: an engine that does not answer this request, or that dropped the end marker.
    Silent {
        /// The silence allowed, in milliseconds.
        after_ms: u64,
    },
    /// Not done in the time allowed.
    Overdue {
        /// The time allowed, in milliseconds.
        after_ms: u64,
    },
    /// More than the options allow.
    TooLarge {
        /// Messages that had come, the last of them too many or too large.
        messages: usize,
        /// Bytes that had come.
        bytes: usize,
    },
}

impl ReplayEnd {
    /// Whether the publisher said that it sent all.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }
}

/// One step of a [`Replaying`].
#[derive(Clone, Debug)]
pub enum ReplayEvent {
    /// An answer's frames as a DEALER sees them: an empty one, perhaps the topic, the sequence number, the payload.
    Message(Vec<Bytes>),
    /// Nothing more comes.
    End(ReplayEnd),
}

/// A rank's replay socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    endpoint: Endpoint,
    options: ReplayOptions,
}

impl Replay {
    /// For the ROUTER at `endpoint`, the rank's own ([`Endpoint::for_rank`]). Connects only for a request.
    pub fn new(endpoint: Endpoint, options: ReplayOptions) -> Self {
        Self { endpoint, options }
    }

    /// Asks for all batches from sequence number `start` on, over a connection of its own: no earlier request's answers mix in.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn request(&self, start: u64) -> Replaying {
        let (answers, arrived) = mpsc::channel(QUEUE_MESSAGES_MAX);
        let outbox = Outbox { answers, room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX / KIB)) };
        let task = tokio::spawn(run(self.clone(), start, outbox));
        Replaying { arrived, task, end: None }
    }
}

/// The answers to one request. Dropping it closes the connection.
#[derive(Debug)]
pub struct Replaying {
    arrived: mpsc::Receiver<(Vec<Bytes>, OwnedSemaphorePermit)>,
    task: JoinHandle<ReplayEnd>,
    end: Option<ReplayEnd>,
}

impl Replaying {
    /// The next answer, or the end, which is then returned for ever. Safe to cancel.
    pub async fn next(&mut self) -> ReplayEvent {
        if let Some((frames, _)) = self.arrived.recv().await {
            return ReplayEvent::Message(frames);
        }
        if self.end.is_none() {
            let ended = (&mut self.task).await;
            self.end = Some(ended.unwrap_or(ReplayEnd::Broken { cause: LinkError::Closed }));
        }
        ReplayEvent::End(self.end.clone().unwrap_or(ReplayEnd::Complete))
    }
}

impl Drop for Replaying {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The way to the reader. It waits when full, within the replay's deadline: the publisher keeps what it has not sent yet.
struct Outbox {
    answers: mpsc::Sender<(Vec<Bytes>, OwnedSemaphorePermit)>,
    /// One permit for each KiB.
    room: Arc<Semaphore>,
}

impl Outbox {
    async fn send(&self, frames: Vec<Bytes>) {
        let kib = size(&frames).div_ceil(KIB).min(QUEUE_BYTES_MAX / KIB);
        let kib = u32::try_from(kib).expect("the bound is far below 4 TiB");
        if let Ok(permit) = self.room.clone().acquire_many_owned(kib).await {
            // Without a reader the task is aborted in a moment.
            let _ = self.answers.send((frames, permit)).await;
        }
    }
}

async fn run(replay: Replay, start: u64, outbox: Outbox) -> ReplayEnd {
    let total_max = replay.options.total_max;
    let overdue = |_| ReplayEnd::Overdue { after_ms: ms(total_max) };
    timeout(total_max, exchange(replay, start, outbox)).await.unwrap_or_else(overdue)
}

async fn exchange(replay: Replay, start: u64, outbox: Outbox) -> ReplayEnd {
    match Link::dial(&replay.endpoint, Role::Dealer).await {
        Err(cause) => ReplayEnd::Unreachable { cause },
        Ok(mut link) => match link.send(&replay_request(start)).await {
            Err(cause) => ReplayEnd::Broken { cause },
            Ok(()) => collect(link, &replay.options, outbox).await,
        },
    }
}

async fn collect(mut link: Link, options: &ReplayOptions, outbox: Outbox) -> ReplayEnd {
    let (mut messages, mut bytes) = (0, 0);
    loop {
        let frames = match timeout(options.silence_max, link.receive()).await {
            Err(_) => return ReplayEnd::Silent { after_ms: ms(options.silence_max) },
            Ok(Err(cause)) => return ReplayEnd::Broken { cause },
            Ok(Ok(frames)) if replayed_to_dealer(&frames) == Ok(ReplayAnswer::End) => return ReplayEnd::Complete,
            Ok(Ok(frames)) => frames,
        };
        (messages, bytes) = (messages + 1, bytes + size(&frames));
        if messages > options.messages_max || bytes > options.bytes_max {
            return ReplayEnd::TooLarge { messages, bytes };
        }
        outbox.send(frames).await;
    }
}

fn size(frames: &[Bytes]) -> usize {
    frames.iter().map(Bytes::len).sum()
}

const KIB: usize = 1024;
