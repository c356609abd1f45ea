//! The engine's side of a relay: one rank's two sockets, told to a [`Hub`].

use bytes::Bytes;
use tokio::sync::watch;

use super::endpoint::Endpoint;
use super::link::LinkError;
use super::replay::{Replay, ReplayEnd, ReplayEvent, ReplayOptions, Replaying};
use super::subscriber::{BindError, Subscriber, SubscriberEvent, SubscriberOptions};
use crate::adapter::hub::{Hub, Input, Stopped};
use crate::relay::{self, ReplayRequest};
use crate::wire::frame::{self, FrameError, ReplayAnswer};

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
        let subscriber = if options.bind {
            Subscriber::bind(events, options.subscriber.clone()).await?
        } else {
            Subscriber::connect(events, options.subscriber.clone())
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
        let input = tokio::select! {
            biased;
            // A question replaces the one under way.
            changed = self.requests.changed() => {
                changed.map_err(|_| Stopped)?;
                let request = *self.requests.borrow_and_update();
                self.replaying = request.zip(self.replay.as_ref()).map(|(request, replay)| (request, replay.request(request.from)));
                None
            }
            // What was published before comes before what is published now.
            (request, event) = next_answer(&mut self.replaying) => self.answered(request, event),
            event = self.subscriber.next() => self.heard(event),
        };
        match input {
            Some(input) => self.hub.tell(input).await,
            None => Ok(()),
        }
    }

    /// What the hub is told of an event of the live socket.
    fn heard(&mut self, event: SubscriberEvent) -> Option<Input> {
        let rank = self.rank;
        match event {
            SubscriberEvent::Message(frames) => match frame::live(&frames) {
                Ok(message) => Some(Input::Live { rank, sequence: message.sequence, payload: payload(&frames) }),
                Err(error) => self.misframed(&error),
            },
            SubscriberEvent::Connected => {
                self.status.send_modify(|status| {
                    status.connections += 1;
                    (status.connected, status.last_error) = (true, None);
                });
                Some(Input::Connected { rank })
            }
            SubscriberEvent::Disconnected { cause } => {
                self.status.send_modify(|status| status.connected = false);
                self.failed(&cause);
                Some(Input::Disconnected { rank })
            }
            SubscriberEvent::Unreachable { cause, .. } => {
                self.failed(&cause);
                None
            }
            SubscriberEvent::Lagged { lost } => {
                // The next message is behind a gap, or the silence after the last one is asked about.
                self.status.send_modify(|status| status.lagged = status.lagged.saturating_add(lost));
                None
            }
        }
    }

    /// What it is told of an event of the replay socket.
    fn answered(&mut self, request: ReplayRequest, event: ReplayEvent) -> Option<Input> {
        match event {
            ReplayEvent::Message(frames) => match frame::replayed_to_dealer(&frames) {
                Ok(ReplayAnswer::Batch(message)) => {
                    Some(Input::Replayed { request, sequence: message.sequence, payload: payload(&frames) })
                }
                Ok(ReplayAnswer::End) => None,
                Err(error) => self.misframed(&error),
            },
            ReplayEvent::End(end) => {
                self.replaying = None;
                if end.is_complete() {
                    return Some(Input::ReplayEnded { request, end: relay::ReplayEnd::Complete });
                }
                self.status.send_modify(|status| {
                    status.replays_broken += 1;
                    status.last_error = Some(broken(&end));
                });
                Some(Input::ReplayEnded { request, end: relay::ReplayEnd::Incomplete })
            }
        }
    }

    fn misframed(&self, error: &FrameError) -> Option<Input> {
        self.status.send_modify(|status| {
            status.misframed += 1;
            status.last_error = Some(error.to_string());
        });
        None
    }

    fn failed(&self, cause: &LinkError) {
        let endpoint = self.subscriber.endpoint();
        self.status.send_modify(|status| status.last_error = Some(format!("events at {endpoint}: {cause}")));
    }
}

/// The last frame of a message that was read: every layout ends with it.
fn payload(frames: &[Bytes]) -> Bytes {
    frames.last().cloned().unwrap_or_default()
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
