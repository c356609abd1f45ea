//! One task that owns a [`Relay`], and handles to it for whoever brings an engine's messages and whoever reads.
//!
//! ```text
//!  engine's sockets --Input--> [ hub: Relay, clock ] <--what is next?-- Reader --> one subscriber
//!        ^                        |          |                            ^
//!        +----- ReplayRequest ----+          +---- at most some of it ----+
//! ```
//! A reader that asks for nothing costs its place in the relay's windows and nothing else: what is to be told stays there, and is
//! handed out by the part. So nobody waits for a slow reader, and there is no queue that it could fill.

mod task;

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use self::task::Task;
use crate::Position;
use crate::limits::{HUB_INPUTS_MAX, RELAY_RANKS_MAX};
use crate::relay::{Load, Next, Options, RankStatus, Refusal, Relay, ReplayEnd, ReplayRequest, SubscriberId};

/// What an engine's sockets bring.
#[derive(Clone, Debug)]
pub enum Input {
    /// The live socket of the rank connected.
    Connected {
        /// The rank.
        rank: u32,
    },
    /// It was cut off.
    Disconnected {
        /// The rank.
        rank: u32,
    },
    /// It brought a batch.
    Live {
        /// The rank.
        rank: u32,
        /// The batch's number.
        sequence: u64,
        /// What it says.
        payload: Bytes,
    },
    /// The replay socket answered.
    Replayed {
        /// The question.
        request: ReplayRequest,
        /// The batch's number.
        sequence: u64,
        /// What it says.
        payload: Bytes,
    },
    /// Its answers ended.
    ReplayEnded {
        /// The question.
        request: ReplayRequest,
        /// How.
        end: ReplayEnd,
    },
    /// The rank's load is now this.
    Load {
        /// The rank.
        rank: u32,
        /// How busy it is.
        load: Load,
    },
    /// The rank's load is not known any more.
    Unloaded {
        /// The rank.
        rank: u32,
    },
}

/// A handle to the task. When the last one is gone, and the last reader, the task ends.
#[derive(Clone, Debug)]
pub struct Hub {
    inputs: mpsc::Sender<Input>,
    commands: mpsc::UnboundedSender<Command>,
    /// What the relay asks, by rank.
    requests: Vec<watch::Receiver<Option<ReplayRequest>>>,
    subscriptions: watch::Receiver<u64>,
}

/// A subscription.
#[derive(Debug)]
pub struct Reader {
    id: SubscriberId,
    commands: mpsc::UnboundedSender<Command>,
    /// The answer that was asked for last.
    answer: Option<oneshot::Receiver<Vec<Next>>>,
}

/// The task is gone: it was stopped, or it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the relay has stopped")]
pub struct Stopped;

/// Why there is no subscription.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The relay's reason.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nobody is there to ask.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Each reader has at most one of them under way, besides its end.
#[derive(Debug)]
enum Command {
    Subscribe { ranks: Vec<u32>, positions: Vec<(u32, Position)>, answer: oneshot::Sender<Result<SubscriberId, Refusal>> },
    Next { id: SubscriberId, answer: oneshot::Sender<Vec<Next>> },
    Unsubscribe { id: SubscriberId },
    Status { answer: oneshot::Sender<(Vec<RankStatus>, usize)> },
    Stop,
}

impl Hub {
    /// Starts the task. `watcher` is drawn at random ([`Relay::new`]).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn spawn(watcher: u64, options: Options) -> (Self, JoinHandle<()>) {
        let (inputs, input_end) = mpsc::channel(HUB_INPUTS_MAX);
        let (commands, command_end) = mpsc::unbounded_channel();
        let ranks = options.ranks.clamp(1, RELAY_RANKS_MAX);
        let (asking, requests): (Vec<_>, _) = (0..ranks).map(|_| watch::channel(None)).unzip();
        let relay = Relay::new(Duration::ZERO, watcher, options);
        let (subscribed, subscriptions) = watch::channel(0);
        let task = Task::new(relay, asking, subscribed, input_end, command_end);
        (Self { inputs, commands, requests, subscriptions }, tokio::spawn(task.run()))
    }

    /// How many ranks the relay follows.
    pub fn ranks(&self) -> u32 {
        u32::try_from(self.requests.len()).unwrap_or(u32::MAX)
    }

    /// Tells what came. Waits while the task is busy.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn tell(&self, input: Input) -> Result<(), Stopped> {
        self.inputs.send(input).await.map_err(|_| Stopped)
    }

    /// What the relay asks of the replay socket of `rank`: the latest question, which replaces those before. Nothing if there is no
    /// such rank.
    pub fn requests(&self, rank: u32) -> Option<watch::Receiver<Option<ReplayRequest>>> {
        self.requests.get(rank as usize).cloned()
    }

    /// How many subscriptions there have been, now and later.
    pub fn subscriptions(&self) -> watch::Receiver<u64> {
        self.subscriptions.clone()
    }

    /// A reader of `ranks` (all, if there are none), each from the batch after its position, or from the start.
    ///
    /// # Errors
    /// The relay's [`Refusal`], or [`Stopped`].
    pub async fn subscribe(&self, ranks: Vec<u32>, positions: Vec<(u32, Position)>) -> Result<Reader, SubscribeError> {
        let (answer, answered) = oneshot::channel();
        let asked = self.commands.send(Command::Subscribe { ranks, positions, answer });
        asked.map_err(|_| Stopped)?;
        let id = answered.await.map_err(|_| Stopped)??;
        Ok(Reader { id, commands: self.commands.clone(), answer: None })
    }

    /// How each rank stands, and how many readers there are.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn status(&self) -> Result<(Vec<RankStatus>, usize), Stopped> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(Command::Status { answer }).map_err(|_| Stopped)?;
        answered.await.map_err(|_| Stopped)
    }

    /// Ends the task, and so every reader.
    pub fn stop(&self) {
        // If it fails, it has ended.
        let _ = self.commands.send(Command::Stop);
    }
}

impl Reader {
    /// What comes next, in order: at least one, and after [`Next::End`] nothing more. Never [`Next::Wait`]. Safe to cancel.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn next(&mut self) -> Result<Vec<Next>, Stopped> {
        let id = self.id;
        let answer = match &mut self.answer {
            Some(answer) => answer,
            none => {
                let (answer, answered) = oneshot::channel();
                self.commands.send(Command::Next { id, answer }).map_err(|_| Stopped)?;
                none.insert(answered)
            }
        };
        let items = answer.await.map_err(|_| Stopped);
        self.answer = None;
        items
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // If it fails, there is nothing to be taken off.
        let _ = self.commands.send(Command::Unsubscribe { id: self.id });
    }
}
