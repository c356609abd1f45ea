//! One rank's events, from its sockets to the lanes that write them into the index.
//!
//! Subscribe first, then replay from where the cursor stands, then drop what both brought: nothing can fall between the
//! two. Gaps, restarts and silences ask the replay socket again. A lane's queue that is full holds up the feed, and so in the end the
//! publisher, whose drops are gaps again. A stream whose events panicked, or for which the index had no room, is cleared and
//! replayed.

use std::sync::Arc;

use bytes::Bytes;
use kv_events::adapter::zmq::{Replay, ReplayEnd, ReplayEvent, Subscriber, SubscriberEvent};
use kv_events::wire::frame::{self, FrameError, ReplayAnswer};
use kv_index::Index;
use kv_index::lanes::Refusal;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::engine::Engine;
use super::intake::{Intake, Need};
use super::laned::{Lane, Laned};
use super::rank::Rank;
use super::resync::Resync;
use crate::gateway::limits::{QUIET_MAX, REPLAY_TRIES_MAX};

/// A rank's subscription under way.
pub(super) struct Feed<I: Index>
where
    I::Worker: 'static,
{
    pub(super) engine: Arc<Engine>,
    /// The rank's place in the engine.
    pub(super) rank: usize,
    pub(super) laned: Arc<Laned<I>>,
    pub(super) lane: Lane<I::Worker>,
    pub(super) intake: Intake,
    pub(super) resync: Resync,
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

impl<I: Index> Feed<I>
where
    I::Worker: 'static,
{
    /// Takes events in until the task is aborted; the sockets close with it.
    pub(super) async fn run(mut self) {
        loop {
            self.publish();
            tokio::select! {
                event = timeout(QUIET_MAX, self.subscriber.next()) => match event {
                    Ok(event) => self.event(event).await,
                    // The last batch before a silence may have been lost, and nothing else would ever show it.
                    Err(_) if self.connected => self.catch_up().await,
                    Err(_) => {}
                },
                () = self.engine.ranks()[self.rank].doubted() => self.look().await,
                () = self.resync.due() => self.learn_anew().await,
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
        self.hand_over().await;
        self.has_learned().await;
    }

    /// After a connection: whatever was published before it.
    async fn rejoin(&mut self) {
        let from = self.intake.rejoin_from();
        if let Replayed::OtherLife = self.replay(from, self.intake.cursor().last().is_some()).await {
            tracing::info!(engine = self.engine.name(), rank = self.rank().number, "the publisher has started again");
            self.intake.restart();
            self.hand_over().await;
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
                        self.hand_over().await;
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

    /// Queues what is to be applied. Waits while the queue is full.
    async fn hand_over(&mut self) {
        while let Some(mut step) = self.intake.next_step() {
            while let Err(refused) = self.lane.enqueue(step) {
                match refused.why {
                    Refusal::Full { .. } => self.lane.room().await,
                    // It has failed: it will be begun anew and replayed, this step with it.
                    _ => return,
                }
                step = refused.item;
            }
        }
    }

    /// The lane doubts the stream.
    async fn look(&mut self) {
        let stream = self.rank().stream();
        if stream.unlearned && self.has_failed().await {
            self.renew().await;
            self.resync.plan(Instant::now());
        } else if stream.crowded_out > 0 && self.replay.is_some() {
            self.resync.plan(Instant::now());
        }
    }

    /// Whether a panic has ended the stream, once the lane has done what it was given before.
    async fn has_failed(&self) -> bool {
        match self.lane.with(|_| ()) {
            Ok(done) => done.await.is_err(),
            Err(refused) => refused.why == Refusal::Failed,
        }
    }

    /// Puts a new stream in the place of one that has failed. It is shown first: a lookup never finds the rank at an id that is
    /// another's.
    async fn renew(&mut self) {
        let (engine, rank) = (self.engine.name().to_owned(), self.rank().number);
        match self.laned.enlist(&self.engine, self.rank) {
            Ok(lane) => {
                let failed = std::mem::replace(&mut self.lane, lane);
                self.intake.failed();
                let Ok(retired) = failed.remove().await else { return };
                let (panic, unapplied) = (retired.failure.as_deref().unwrap_or_default(), retired.unapplied.len());
                tracing::error!(engine, rank, panic, unapplied, "applying events panicked, the stream begins anew");
                // It may be long, and what a panic left behind may panic again.
                if spawn_blocking(|| drop(retired)).await.is_err() {
                    tracing::error!(engine, rank, "what the failed stream held could not be taken out of the index");
                }
            }
            Err(error) => self.last_error = Some(format!("cannot begin anew: {error}")),
        }
    }

    /// The planned try: clears the stream and takes in all that the publisher still has.
    async fn learn_anew(&mut self) {
        self.resync.begin(Instant::now());
        if self.has_failed().await {
            self.renew().await;
        }
        tracing::warn!(engine = self.engine.name(), rank = self.rank().number, "learning the stream anew");
        self.rank().publish(|state| state.unlearned = true);
        self.intake.resync();
        self.hand_over().await;
        if self.has_failed().await {
            self.resync.plan(Instant::now());
        } else {
            self.replay(0, false).await;
            self.has_learned().await;
        }
    }

    /// Believes the stream again, if it was not and has heard of its engine since.
    async fn has_learned(&mut self) {
        if self.rank().stream().unlearned && self.intake.cursor().last().is_some() && !self.has_failed().await {
            self.rank().publish(|state| state.unlearned = false);
        }
    }

    fn publish(&self) {
        self.rank().publish(|state| {
            state.batches = *self.intake.counts();
            state.connected = self.connected;
            state.has_replay = self.replay.is_some();
            state.last_error.clone_from(&self.last_error);
        });
    }

    fn rank(&self) -> &Rank {
        &self.engine.ranks()[self.rank]
    }
}
