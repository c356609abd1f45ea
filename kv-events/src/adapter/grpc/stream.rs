//! A subscription of the relay as a stream of messages.
//!
//! A task takes what the hub has for the reader, makes messages of it on the blocking pool (a snapshot's chunks one by one, as they
//! are wanted), and queues a few of them. HTTP/2 takes from the queue as fast as the reader reads; a reader that does not read
//! leaves everything where it is, in the relay's window.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::limits::{SNAPSHOT_STALL_MAX, STREAM_QUEUE_MAX};
use super::status::ended;
use super::update::Update;
use crate::adapter::hub::{Reader, Stopped};
use crate::relay::{Chunk, Next, Snapshot};

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
        // If it fails, there is nobody to tell. What is left of the reader's place is given up before: it may be long.
        drop(reader);
        let _ = queue.send(Err(status)).await;
    }
}

/// Queues what `items` say. Gives the teller back, or why nothing more comes, if that is to be said.
async fn pass_on<T: Teller>(items: Result<Vec<Next>, Stopped>, mut teller: T, queue: &Queue<T>) -> Result<T, Option<Status>> {
    let items = items.map_err(|stopped| Some(Status::unavailable(stopped.to_string())))?;
    let holds_snapshot = items.iter().any(|item| matches!(item, Next::Snapshot(_)));
    let queue = &Outbox { queue, patience: if holds_snapshot { SNAPSHOT_STALL_MAX } else { Duration::MAX } };
    for item in items {
        teller = match item {
            Next::Batch(relayed) => queue.say(teller, move || relayed.into()).await?,
            Next::Heartbeat(beat) => queue.say(teller, move || beat.into()).await?,
            Next::Snapshot(snapshot) => queue.say_all(teller, *snapshot).await?,
            Next::End(end) => return Err(Some(ended(end))),
            Next::Wait { .. } => teller,
        };
    }
    Ok(teller)
}

type Queue<T> = mpsc::Sender<Result<<T as Teller>::Message, Status>>;

/// The way to the connection.
struct Outbox<'a, M> {
    queue: &'a mpsc::Sender<Result<M, Status>>,
    /// How long it may be full.
    patience: Duration,
}

impl<M: Send + 'static> Outbox<'_, M> {
    /// Makes the message of one update where it keeps nobody waiting, and queues it.
    async fn say<T: Teller<Message = M>>(
        &self,
        mut teller: T,
        update: impl FnOnce() -> Update + Send + 'static,
    ) -> Result<T, Option<Status>> {
        let room = self.room().await?;
        let told = spawn_blocking(move || {
            let message = teller.tell(update());
            (teller, message)
        });
        let (teller, message) = told.await.map_err(|error| failed(&error))?;
        if let Some(message) = message.map_err(Some)? {
            room.send(Ok(message));
        }
        Ok(teller)
    }

    /// The same for every chunk of a snapshot.
    async fn say_all<T: Teller<Message = M>>(&self, mut teller: T, mut snapshot: Snapshot) -> Result<T, Option<Status>> {
        loop {
            let room = self.room().await?;
            let told = spawn_blocking(move || {
                let chunk = snapshot.next();
                let is_last = chunk.as_ref().is_none_or(Chunk::is_last);
                let message = chunk.map_or(Ok(None), |chunk| teller.tell(chunk.into()));
                (snapshot, teller, message, is_last)
            });
            let (is_last, message);
            (snapshot, teller, message, is_last) = told.await.map_err(|error| failed(&error))?;
            if let Some(message) = message.map_err(Some)? {
                room.send(Ok(message));
            }
            if is_last {
                return Ok(teller);
            }
        }
    }

    async fn room(&self) -> Result<mpsc::Permit<'_, Result<M, Status>>, Option<Status>> {
        let Ok(room) = timeout(self.patience, self.queue.reserve()).await else {
            let waited_s = self.patience.as_secs();
            let reason = format!("expected a reader that takes its snapshot, it took nothing for {waited_s} s");
            return Err(Some(Status::data_loss(reason)));
        };
        room.map_err(|_| None)
    }
}

fn failed(error: &JoinError) -> Status {
    Status::internal(format!("the relay failed to tell its state: {error}"))
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt;
    use tonic::Code;

    use super::*;
    use crate::adapter::hub::{Hub, Input};
    use crate::relay::Options;

    const LAST: u64 = 12;

    /// Passes updates on as they are.
    struct Plain;

    impl Teller for Plain {
        type Message = Update;

        fn tell(&mut self, update: Update) -> Result<Option<Update>, Status> {
            Ok(Some(update))
        }
    }

    /// A batch that stores this many blocks of one token, as an engine writes it.
    fn many_blocks(count: u16) -> Vec<u8> {
        let list = |out: &mut Vec<u8>| {
            out.push(0xdc);
            out.extend(count.to_be_bytes());
            (1..=count).for_each(|name| {
                out.push(0xcd);
                out.extend(name.to_be_bytes());
            });
        };
        let mut out = b"\x93\xca\0\0\0\0\x91\x97\xabBlockStored".to_vec();
        list(&mut out);
        out.push(0xc0);
        list(&mut out);
        out.extend(b"\x01\xc0\xa3GPU\x00");
        out
    }

    #[tokio::test(start_paused = true)]
    async fn a_snapshot_that_nobody_takes_is_given_up_for_others() {
        let options = Options { replays: false, history_batches: 1, ..Options::default() };
        let (hub, _) = Hub::spawn(1, options);
        // A snapshot has no more chunks than there were batches.
        for sequence in 0..=LAST {
            let payload = if sequence == 0 { many_blocks(20_000) } else { b"\x92\x01\x90".to_vec() };
            hub.tell(Input::Live { rank: 0, sequence, payload: payload.into() }).await.unwrap();
        }
        while hub.status().await.unwrap().0[0].last != Some(LAST) {
            tokio::task::yield_now().await;
        }
        let mut stalled = messages(hub.subscribe(Vec::new(), Vec::new()).await.unwrap(), Plain);
        let begun = tokio::time::Instant::now();
        while hub.status().await.unwrap().1 > 0 {
            // The clock is virtual, the thread that makes the chunks is not.
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(begun.elapsed() < Duration::from_hours(24), "its place is free");
        }
        assert!(begun.elapsed() >= SNAPSHOT_STALL_MAX);
        let mut told = 0;
        let end = loop {
            match stalled.next().await.expect("an end with a status") {
                Ok(_) => told += 1,
                Err(status) => break status,
            }
        };
        assert_eq!((told, end.code()), (STREAM_QUEUE_MAX, Code::DataLoss));
        let all = messages(hub.subscribe(Vec::new(), Vec::new()).await.unwrap(), Plain).take(10).collect::<Vec<_>>().await;
        assert!(all.len() == 10 && all.iter().all(Result::is_ok), "who takes them gets all");
    }
}
