//! A subscription of the relay as a stream of messages.
//!
//! A task takes what the hub has for the reader, makes messages of it on the blocking pool (a snapshot's chunks one by one, as they
//! are wanted), and queues a few of them. HTTP/2 takes from the queue as fast as the reader reads; a reader that does not read
//! leaves everything where it is, in the relay's window.

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::limits::STREAM_QUEUE_MAX;
use super::status::ended;
use super::update::Update;
use crate::adapter::hub::{Reader, Stopped};
use crate::relay::{Next, Snapshot};

/// What makes a service's messages of updates. It may keep what it has told, and leave an update out.
pub(super) trait Teller: Send + 'static {
    type Message: Send + 'static;

    /// The message of `update`; nothing if the service's wire has none for it.
    fn tell(&mut self, update: Update) -> Result<Option<Self::Message>, Status>;
}

/// The stream that a service answers with.
pub(super) type Messages<M> = ReceiverStream<Result<M, Status>>;

/// Everything that `reader` gets, as `teller` tells it.
pub(super) fn messages<T: Teller>(reader: Reader, teller: T) -> Messages<T::Message> {
    let (queue, messages) = mpsc::channel(STREAM_QUEUE_MAX);
    tokio::spawn(pump(reader, teller, queue));
    ReceiverStream::new(messages)
}

async fn pump<T: Teller>(mut reader: Reader, mut teller: T, queue: mpsc::Sender<Result<T::Message, Status>>) {
    let end = loop {
        let items = tokio::select! {
            // The connection is gone. What was taken is not missed by anybody.
            () = queue.closed() => return,
            items = reader.next() => items,
        };
        match pass_on(items, teller, &queue).await {
            Ok(next) => teller = next,
            Err(end) => break end,
        }
    };
    if let Some(status) = end {
        // If it fails, there is nobody to tell.
        let _ = queue.send(Err(status)).await;
    }
}

/// Queues what `items` say. Gives the teller back, or why nothing more comes, if that is to be said.
async fn pass_on<T: Teller>(items: Result<Vec<Next>, Stopped>, mut teller: T, queue: &Queue<T>) -> Result<T, Option<Status>> {
    let items = items.map_err(|stopped| Some(Status::unavailable(stopped.to_string())))?;
    for item in items {
        teller = match item {
            Next::Batch(relayed) => say(teller, move || Some(relayed.into()), queue).await?,
            Next::Heartbeat(beat) => say(teller, move || Some(beat.into()), queue).await?,
            Next::Snapshot(snapshot) => snapshot_of(*snapshot, teller, queue).await?,
            Next::End(end) => return Err(Some(ended(end))),
            Next::Wait { .. } => teller,
        };
    }
    Ok(teller)
}

async fn snapshot_of<T: Teller>(mut snapshot: Snapshot, mut teller: T, queue: &Queue<T>) -> Result<T, Option<Status>> {
    loop {
        let Ok(permit) = queue.reserve().await else { return Err(None) };
        let told = spawn_blocking(move || {
            let chunk = snapshot.next();
            let is_last = chunk.as_ref().is_none_or(crate::relay::Chunk::is_last);
            let message = chunk.map_or(Ok(None), |chunk| teller.tell(chunk.into()));
            (snapshot, teller, message, is_last)
        });
        let is_last;
        let message;
        (snapshot, teller, message, is_last) = told.await.map_err(failed)?;
        if let Some(message) = message.map_err(Some)? {
            permit.send(Ok(message));
        }
        if is_last {
            return Ok(teller);
        }
    }
}

/// Makes the message of one update where it keeps nobody waiting, and queues it.
async fn say<T: Teller>(
    mut teller: T,
    update: impl FnOnce() -> Option<Update> + Send + 'static,
    queue: &Queue<T>,
) -> Result<T, Option<Status>> {
    let Ok(permit) = queue.reserve().await else { return Err(None) };
    let told = spawn_blocking(move || {
        let message = update().map_or(Ok(None), |update| teller.tell(update));
        (teller, message)
    });
    let (teller, message) = told.await.map_err(failed)?;
    if let Some(message) = message.map_err(Some)? {
        permit.send(Ok(message));
    }
    Ok(teller)
}

type Queue<T> = mpsc::Sender<Result<<T as Teller>::Message, Status>>;

fn failed(error: tokio::task::JoinError) -> Option<Status> {
    Some(Status::internal(format!("the relay failed to tell its state: {error}")))
}
