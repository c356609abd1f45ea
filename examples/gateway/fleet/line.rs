//! Where a rank's events come from: an engine's two sockets, or a relay.

use kv_events::Source;
use kv_events::adapter::grpc::{Subscription, SubscriptionEvent};
use kv_events::adapter::zmq::{
    BindError, Endpoint, Replay, ReplayEvent, ReplayOptions, Replaying, Subscriber, SubscriberEvent, SubscriberOptions,
};
use kv_events::admission::Request;

use crate::gateway::settings::EngineSpec;

/// A rank's source, and what is asked of it.
#[derive(Debug)]
pub(super) enum Line {
    Engine(Box<Sockets>),
    Relay(Box<Subscription>),
}

/// An engine's sockets for one rank.
#[derive(Debug)]
pub(super) struct Sockets {
    subscriber: Subscriber,
    replay: Option<Replay>,
    /// The replay under way.
    replaying: Option<(u64, Replaying)>,
}

/// What a line brings.
#[derive(Debug)]
pub(super) enum LineEvent {
    /// The engine's live socket.
    Live(SubscriberEvent),
    /// The engine's replay socket, for a session.
    Replayed(u64, ReplayEvent),
    /// The relay.
    Relayed(SubscriptionEvent),
}

impl Line {
    /// The line of `rank`; nothing for an engine without events.
    ///
    /// # Errors
    /// [`BindError`] when a publisher that connects cannot be listened for.
    pub(super) async fn open(spec: &EngineSpec, rank: u32) -> Result<Option<Self>, BindError> {
        if let Some(relay) = spec.relay() {
            return Ok(Some(Self::Relay(Box::new(Subscription::new(relay, rank)))));
        }
        let Some(events) = spec.events_of(rank) else { return Ok(None) };
        let options = SubscriberOptions { topic: spec.topic.clone().into_bytes(), ..SubscriberOptions::default() };
        let subscriber = if spec.bind { Subscriber::bind(events, options).await? } else { Subscriber::connect(events, options) };
        let replay = spec.replay_of(rank).map(|endpoint| Replay::new(endpoint, ReplayOptions::default()));
        Ok(Some(Self::Engine(Box::new(Sockets { subscriber, replay, replaying: None }))))
    }

    pub(super) fn source(&self) -> Source {
        match self {
            Self::Relay(_) => Source::Relay,
            Self::Engine(sockets) if sockets.replay.is_some() => Source::EngineWithReplay,
            Self::Engine(_) => Source::Engine,
        }
    }

    /// Where the engine publishes.
    pub(super) fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::Engine(sockets) => Some(sockets.subscriber.endpoint()),
            Self::Relay(_) => None,
        }
    }

    /// Asks what the follower wants asked.
    pub(super) fn ask(&mut self, request: Request) {
        match (self, request) {
            (Self::Engine(sockets), Request::Replay { session, from }) => {
                sockets.replaying = sockets.replay.as_ref().map(|replay| (session, replay.request(from)));
            }
            (Self::Engine(sockets), _) => sockets.replaying = None,
            (Self::Relay(subscription), Request::Resubscribe { after }) => subscription.resubscribe(after),
            (Self::Relay(_), _) => {}
        }
    }

    /// What comes next. Safe to cancel.
    pub(super) async fn next(&mut self) -> LineEvent {
        match self {
            Self::Relay(subscription) => LineEvent::Relayed(subscription.next().await),
            Self::Engine(sockets) => sockets.next().await,
        }
    }
}

impl Sockets {
    async fn next(&mut self) -> LineEvent {
        tokio::select! {
            // What was published before comes before what is published now.
            biased;
            (session, event) = next_answer(&mut self.replaying) => {
                if let ReplayEvent::End(_) = event {
                    self.replaying = None;
                }
                LineEvent::Replayed(session, event)
            }
            event = self.subscriber.next() => LineEvent::Live(event),
        }
    }
}

/// The next answer of the replay under way; for ever, if there is none.
async fn next_answer(replaying: &mut Option<(u64, Replaying)>) -> (u64, ReplayEvent) {
    match replaying {
        Some((session, answers)) => (*session, answers.next().await),
        None => std::future::pending().await,
    }
}
