//! One rank's events, from its sockets into the index.
//!
//! Subscribe first, then replay from where the cursor stands, then drop what both brought: nothing can fall between the
//! two. Gaps, restarts and silences ask the replay socket again.

use std::sync::Arc;

use bytes::Bytes;
use kv_events::adapter::zmq::{Replay, ReplayEnd, ReplayEvent, Subscriber, SubscriberEvent};
use kv_events::wire::frame::{self, FrameError, ReplayAnswer};
use kv_index::Worker;
use tokio::time::timeout;

use super::engine::Engine;
use super::intake::{Intake, Need};
use super::rank::{Rank, StreamState};
use crate::gateway::limits::{QUIET_MAX, REPLAY_TRIES_MAX};

/// A rank's subscription under way.
pub(super) struct Feed<W> {
    pub(super) engine: Arc<Engine>,
    /// The rank's place in the engine.
    pub(super) rank: usize,
    pub(super) intake: Intake<W>,
    pub(super) subscriber: Subscriber,
    pub(super) replay: Option<Replay>,
    pub(super) connected: bool,
    pub(super) last_error: Option<String>,
}

/// How a replay went.
enum Replayed {
    /// As far as the publisher has it.
    Done,
    /// It is another life of the publisher than before.
    OtherLife,
}

impl<W: Worker> Feed<W> {
    /// Takes events in until the task is aborted; the sockets close with it.
    pub(super) async fn run(mut self) {
        loop {
            self.publish();
            match timeout(QUIET_MAX, self.subscriber.next()).await {
                Ok(event) => self.event(event).await,
                // The last batch before a silence may have been lost, and nothing else would ever show it.
                Err(_) if self.connected => self.catch_up().await,
                Err(_) => {}
            }
        }
    }

    async fn event(&mut self, event: SubscriberEvent) {
        match event {
            SubscriberEvent::Message(frames) => self.message(&frames).await,
            SubscriberEvent::Connected => {
                tracing::info!(engine = self.engine.name(), rank = self.rank().number, "subscribed");
                (self.connected, self.last_error) = (true, None);
                self.intake.reconnected();
                self.rejoin().await;
            }
            SubscriberEvent::Lagged { lost } => {
                tracing::warn!(engine = self.engine.name(), rank = self.rank().number, lost, "too slow for the publisher");
                self.catch_up().await;
            }
            SubscriberEvent::Disconnected { cause } => {
                tracing::warn!(engine = self.engine.name(), rank = self.rank().number, %cause, "events disconnected");
                (self.connected, self.last_error) = (false, Some(format!("events: {cause}")));
            }
            SubscriberEvent::Unreachable { cause, retry_ms } => {
                tracing::debug!(engine = self.engine.name(), rank = self.rank().number, %cause, retry_ms, "events unreachable");
                self.last_error = Some(format!("events at {}: {cause}", self.subscriber.endpoint()));
            }
        }
    }

    async fn message(&mut self, frames: &[Bytes]) {
        let message = match frame::live(frames) {
            Ok(message) => message,
            Err(error) => return self.unreadable(&error),
        };
        while let Need::Replay { from } = self.intake.live(&message) {
            tracing::info!(engine = self.engine.name(), rank = self.rank().number, from, to = message.sequence, "closing a gap");
            self.replay(from, false).await;
        }
    }

    /// After a connection: whatever was published before it.
    async fn rejoin(&mut self) {
        let from = self.intake.rejoin_from();
        if let Replayed::OtherLife = self.replay(from, self.intake.cursor().last().is_some()).await {
            tracing::info!(engine = self.engine.name(), rank = self.rank().number, "the publisher has started again");
            self.intake.restart();
            self.replay(0, false).await;
        }
    }

    async fn catch_up(&mut self) {
        self.replay(self.intake.cursor().next(), false).await;
    }

    /// Takes in everything from `from` on that the replay socket has. An answer without its end is asked for again from
    /// where it stopped. With `compares`, `from` is the last sequence taken in, and tells whether it is still the same life.
    async fn replay(&mut self, mut from: u64, mut compares: bool) -> Replayed {
        let Some(replay) = self.replay.clone() else { return Replayed::Done };
        for _ in 0..REPLAY_TRIES_MAX {
            self.intake.asked();
            let mut answers = replay.request(from);
            let end = loop {
                match answers.next().await {
                    ReplayEvent::Message(frames) => {
                        if self.replayed(&frames, &mut compares) {
                            return Replayed::OtherLife;
                        }
                    }
                    ReplayEvent::End(end) => break end,
                }
            };
            match end {
                // A publisher keeps its last batch: one that has no longer got ours never had it.
                ReplayEnd::Complete if compares => return Replayed::OtherLife,
                ReplayEnd::Complete => return Replayed::Done,
                ReplayEnd::Unreachable { cause } => {
                    self.last_error = Some(format!("replay: {cause}"));
                    return Replayed::Done;
                }
                end => tracing::warn!(engine = self.engine.name(), rank = self.rank().number, from, ?end, "a replay broke off"),
            }
            from = self.intake.cursor().next();
        }
        Replayed::Done
    }

    /// Takes one replayed message in; whether it is from another life of the publisher.
    fn replayed(&mut self, frames: &[Bytes], compares: &mut bool) -> bool {
        match frame::replayed_to_dealer(frames) {
            Ok(ReplayAnswer::Batch(message)) => {
                if std::mem::take(compares) && self.intake.is_same_life(&message) == Some(false) {
                    return true;
                }
                self.intake.replayed(&message);
            }
            Ok(ReplayAnswer::End) => {}
            Err(error) => self.unreadable(&error),
        }
        false
    }

    fn unreadable(&mut self, error: &FrameError) {
        tracing::debug!(engine = self.engine.name(), rank = self.rank().number, %error, "no message of a publisher");
        self.intake.unreadable();
        self.last_error = Some(error.to_string());
    }

    fn publish(&self) {
        let (stream, cursor) = (self.intake.stream(), self.intake.cursor());
        self.rank().publish(StreamState {
            worker: Some(stream.worker()),
            profile: stream.profile().clone(),
            counts: stream.counts().clone(),
            batches: *self.intake.counts(),
            sequence: cursor.last(),
            missed: cursor.missed(),
            waiting_blocks: stream.waiting_blocks(),
            connected: self.connected,
            has_replay: self.replay.is_some(),
            last_error: self.last_error.clone(),
        });
    }

    fn rank(&self) -> &Rank {
        &self.engine.ranks()[self.rank]
    }
}
