//! The engine's side of a relay: one rank's two sockets, told to a [`Hub`].

use tokio::sync::watch;

use super::endpoint::Endpoint;
use super::replay::{Replay, ReplayEnd, ReplayEvent, ReplayOptions, Replaying};
use super::subscriber::{BindError, Subscriber, SubscriberEvent, SubscriberOptions};
use crate::adapter::hub::{Hub, Input, Stopped};
use crate::relay::{self, ReplayRequest};
use crate::wire::frame::{self, ReplayAnswer};

/// One rank's sockets, for a relay.
///
/// The live socket is read as fast as messages come, whatever the relay does; what finds no room there is a gap, which the relay
/// closes from the replay socket. The relay is told one thing at a time, so that ranks take turns.
#[derive(Debug)]
pub struct Intake {
    rank: u32,
    hub: Hub,
    subscriber: Subscriber,
    replay: Option<Replay>,
    requests: watch::Receiver<Option<ReplayRequest>>,
    replaying: Option<(ReplayRequest, Replaying)>,
    status: watch::Sender<IntakeStatus>,
}

/// How a rank's sockets fare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntakeStatus {
    /// Whether the live socket is connected.
    pub connected: bool,
    /// Times that it was.
    pub connections: u64,
    /// Messages, and answers, that were none of a publisher's.
    pub misframed: u64,
    /// Live messages that found no room.
    pub lagged: u64,
    /// Replays that did not end with the end marker.
    pub replays_broken: u64,
    /// The latest failure, until the next success.
    pub last_error: Option<String>,
}

/// How to reach an engine.
#[derive(Clone, Debug)]
pub struct IntakeOptions {
    /// Where rank 0 publishes. Other ranks publish at the ports that follow.
    pub events: Endpoint,
    /// Where rank 0 answers replay requests, if it does.
    pub replay: Option<Endpoint>,
    /// Listen at `events` for publishers that connect.
    pub bind: bool,
    /// What to subscribe to.
    pub subscriber: SubscriberOptions,
}

/// Why a rank cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IntakeError {
    /// An endpoint whose ports run out.
    #[error(transparent)]
    Endpoint(#[from] super::EndpointError),
    /// The place where a publisher would connect.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The relay has no such rank.
    #[error("expected one of the relay's {ranks} ranks, got {got}")]
    Rank {
        /// How many there are.
        ranks: u32,
        /// The rank.
        got: u32,
    },
}

impl Intake {
    /// Opens the sockets of `rank` for `hub`. They are read once it [runs](Self::run).
    ///
    /// # Errors
    /// [`IntakeError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn open(hub: Hub, rank: u32, options: &IntakeOptions) -> Result<Self, IntakeError> {
        let requests = hub.requests(rank).ok_or(IntakeError::Rank { ranks: hub.ranks(), got: rank })?;
        let events = options.events.for_rank(rank)?;
        let replay = options.replay.as_ref().map(|replay| replay.for_rank(rank)).transpose()?;
        let subscriber = match options.bind {
            true => Subscriber::bind(events, options.subscriber.clone()).await?,
            false => Subscriber::connect(events, options.subscriber.clone()),
        };
        Ok(Self {
            rank,
            hub,
            subscriber,
            replay: replay.map(|endpoint| Replay::new(endpoint, ReplayOptions::default())),
            requests,
            replaying: None,
            status: watch::channel(IntakeStatus::default()).0,
        })
    }

    /// How the sockets fare, now and later.
    pub fn status(&self) -> watch::Receiver<IntakeStatus> {
        self.status.subscribe()
    }

    /// Where the live socket connects to or listens.
    pub fn endpoint(&self) -> &Endpoint {
        self.subscriber.endpoint()
    }

    /// Tells the hub what comes, until it stops. Dropping the future closes the sockets.
    pub async fn run(mut self) {
        while let Ok(()) = self.step().await {}
    }

    async fn step(&mut self) -> Result<(), Stopped> {
        tokio::select! {
            biased;
            // A question replaces the one under way.
            changed = self.requests.changed() => {
                changed.map_err(|_| Stopped)?;
                let request = *self.requests.borrow_and_update();
                self.replaying = request.zip(self.replay.as_ref()).map(|(request, replay)| (request, replay.request(request.from)));
                Ok(())
            }
            // What was published before comes before what is published now.
            (request, event) = next_answer(&mut self.replaying) => self.answered(request, event).await,
            event = self.subscriber.next() => self.heard(event).await,
        }
    }

    async fn heard(&mut self, event: SubscriberEvent) -> Result<(), Stopped> {
        let rank = self.rank;
        match event {
            SubscriberEvent::Message(frames) => match frame::live(&frames) {
                Ok(message) => {
                    let (sequence, payload) = (message.sequence, frames[frames.len() - 1].clone());
                    self.hub.tell(Input::Live { rank, sequence, payload }).await
                }
                Err(error) => self.misframed(&error),
            },
            SubscriberEvent::Connected => {
                self.note(|status| {
                    (status.connected, status.connections, status.last_error) = (true, status.connections + 1, None)
                });
                self.hub.tell(Input::Connected { rank }).await
            }
            SubscriberEvent::Disconnected { cause } => {
                let endpoint = self.subscriber.endpoint().to_string();
                self.note(|status| {
                    (status.connected, status.last_error) = (false, Some(format!("events at {endpoint}: {cause}")));
                });
                self.hub.tell(Input::Disconnected { rank }).await
            }
            SubscriberEvent::Lagged { lost } => {
                self.note(|status| status.lagged = status.lagged.saturating_add(lost));
                Ok(())
            }
            SubscriberEvent::Unreachable { cause, .. } => {
                let endpoint = self.subscriber.endpoint().to_string();
                self.note(|status| status.last_error = Some(format!("events at {endpoint}: {cause}")));
                Ok(())
            }
        }
    }

    async fn answered(&mut self, request: ReplayRequest, event: ReplayEvent) -> Result<(), Stopped> {
        match event {
            ReplayEvent::Message(frames) => match frame::replayed_to_dealer(&frames) {
                Ok(ReplayAnswer::Batch(message)) => {
                    let (sequence, payload) = (message.sequence, frames[frames.len() - 1].clone());
                    self.hub.tell(Input::Replayed { request, sequence, payload }).await
                }
                Ok(ReplayAnswer::End) => Ok(()),
                Err(error) => self.misframed(&error),
            },
            ReplayEvent::End(end) => {
                self.replaying = None;
                let ended = if end.is_complete() { relay::ReplayEnd::Complete } else { relay::ReplayEnd::Incomplete };
                if !end.is_complete() {
                    self.note(|status| {
                        status.replays_broken += 1;
                        status.last_error = Some(broken(&end));
                    });
                }
                self.hub.tell(Input::ReplayEnded { request, end: ended }).await
            }
        }
    }

    fn misframed(&self, error: &frame::FrameError) -> Result<(), Stopped> {
        self.note(|status| {
            status.misframed += 1;
            status.last_error = Some(error.to_string());
        });
        Ok(())
    }

    fn note(&self, change: impl FnOnce(&mut IntakeStatus)) {
        self.status.send_modify(change);
    }
}

fn broken(end: &ReplayEnd) -> String {
    match end {
        ReplayEnd::Unreachable { cause } | ReplayEnd::Broken { cause } => format!("replay: {cause}"),
        ReplayEnd::Silent { after_ms } => format!("replay: silent for {after_ms} ms"),
        ReplayEnd::Overdue { after_ms } => format!("replay: not done in {after_ms} ms"),
        ReplayEnd::TooLarge { messages, bytes } => format!("replay: more than {messages} messages or {bytes} bytes"),
        ReplayEnd::Complete => String::new(),
    }
}

/// The next answer of the replay under way; for ever, if there is none.
async fn next_answer(replaying: &mut Option<(ReplayRequest, Replaying)>) -> (ReplayRequest, ReplayEvent) {
    match replaying {
        Some((request, answers)) => (*request, answers.next().await),
        None => std::future::pending().await,
    }
}
