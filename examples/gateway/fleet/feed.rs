//! One rank's events, from its sockets to the lanes that write them into the index.
//!
//! All rules are the follower's; here is the clock, and in `line` are the sockets. A lane's queue that is full holds up the feed, and so in the
//! end the publisher, whose drops are gaps again. A stream whose events panicked is begun anew.
//!
//! The task ends by being aborted: at every await it can be dropped, and its sockets close with it.

use std::sync::Arc;
use std::time::Duration;

use kv_events::adapter::grpc::SubscriptionEvent;
use kv_events::adapter::zmq::{ReplayEnd, ReplayEvent, SubscriberEvent};
use kv_events::admission::{Request, Step};
use kv_events::wire::frame::{self, FrameError, ReplayAnswer};
use kv_events::{Delivery, Follower, ReplayOutcome, Trust};
use kv_index::Index;
use kv_index::lanes::Refusal;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::engine::Engine;
use super::laned::{Lane, Laned};
use super::line::{Line, LineEvent};
use super::rank::{BatchCounts, Rank};

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
    pub(super) follower: Follower,
    /// The follower's time is counted from here.
    pub(super) begun: Instant,
    pub(super) line: Line,
    /// A step that found the lane's queue full.
    pub(super) refused: Option<Step>,
    /// Messages that were none of a publisher's.
    pub(super) unreadable: u64,
    pub(super) last_error: Option<String>,
}

impl<I: Index> Feed<I>
where
    I::Worker: 'static,
{
    /// Takes events in until the task is aborted.
    pub(super) async fn run(mut self) {
        loop {
            self.hand_over();
            self.publish();
            if self.refused.is_some() {
                tokio::select! {
                    () = self.lane.room() => {}
                    () = self.engine.ranks()[self.rank].doubted() => self.look().await,
                }
                continue;
            }
            let due = self.follower.next_timeout().map(|moment| self.begun + moment);
            tokio::select! {
                // What has come is taken in before anything is said to be late.
                biased;
                event = self.line.next() => match event {
                    LineEvent::Live(event) => self.event(event),
                    LineEvent::Replayed(session, event) => self.answer(session, event),
                    LineEvent::Relayed(event) => self.relayed(event),
                },
                () = self.engine.ranks()[self.rank].doubted() => self.look().await,
                () = sleep_until(due.unwrap_or_else(|| Instant::now() + NEVER)) => self.follower.handle_timeout(self.now()),
            }
        }
    }

    fn event(&mut self, event: SubscriberEvent) {
        let now = self.now();
        match &event {
            SubscriberEvent::Message(_) | SubscriberEvent::Connected => self.rank().pulse.heard(),
            SubscriberEvent::Disconnected { .. } => self.rank().pulse.cut_off(),
            SubscriberEvent::Lagged { .. } | SubscriberEvent::Unreachable { .. } => {}
        }
        match event {
            SubscriberEvent::Message(frames) => match frame::live(&frames) {
                Ok(message) => self.follower.handle_live(now, Delivery::decode(&message)),
                Err(error) => self.misread(&error),
            },
            SubscriberEvent::Connected => {
                tracing::info!(engine = self.engine.name(), rank = self.rank().number, "subscribed");
                self.last_error = None;
                self.follower.handle_connected(now);
            }
            SubscriberEvent::Lagged { lost } => {
                tracing::warn!(engine = self.engine.name(), rank = self.rank().number, lost, "too slow for the publisher");
                self.follower.handle_lagged(now);
            }
            SubscriberEvent::Disconnected { cause } => {
                tracing::warn!(engine = self.engine.name(), rank = self.rank().number, %cause, "events disconnected");
                self.last_error = Some(format!("events: {cause}"));
                self.follower.handle_disconnected(now);
            }
            SubscriberEvent::Unreachable { cause, retry_ms } => {
                tracing::debug!(engine = self.engine.name(), rank = self.rank().number, %cause, retry_ms, "events unreachable");
                self.last_error = self.line.endpoint().map(|endpoint| format!("events at {endpoint}: {cause}"));
            }
        }
    }

    fn answer(&mut self, session: u64, event: ReplayEvent) {
        let now = self.now();
        match event {
            ReplayEvent::Message(frames) => match frame::replayed_to_dealer(&frames) {
                Ok(ReplayAnswer::Batch(message)) => self.follower.handle_replayed(now, session, Delivery::decode(&message)),
                Ok(ReplayAnswer::End) => {}
                Err(error) => self.misread(&error),
            },
            ReplayEvent::End(end) => {
                let outcome = self.ended(session, &end);
                self.follower.handle_replay_end(now, session, outcome);
            }
        }
    }

    fn relayed(&mut self, event: SubscriptionEvent) {
        let (now, number) = (self.now(), self.rank().number);
        match event {
            SubscriptionEvent::Update { update, bytes } => {
                self.rank().pulse.heard();
                if let Some(load) = &update.load {
                    self.rank().pushed(load);
                }
                update.hand_to(now, bytes, &mut self.follower);
            }
            SubscriptionEvent::Connected => {
                tracing::info!(engine = self.engine.name(), rank = number, "subscribed to the relay");
                self.last_error = None;
                self.follower.handle_connected(now);
            }
            SubscriptionEvent::Rejected { status } => {
                let (code, reason) = (status.code(), status.message());
                tracing::warn!(engine = self.engine.name(), rank = number, ?code, reason, "the relay begins anew");
                self.follower.handle_rejected(now);
            }
            SubscriptionEvent::Disconnected { status, .. } => {
                tracing::warn!(engine = self.engine.name(), rank = number, reason = status.message(), "relay disconnected");
                self.last_error = Some(format!("relay: {}", status.message()));
                self.follower.handle_disconnected(now);
            }
            SubscriptionEvent::Unreachable { status, retry_ms } => {
                let reason = status.message();
                tracing::debug!(engine = self.engine.name(), rank = number, reason, retry_ms, "relay unreachable");
                self.last_error = Some(format!("relay: {reason}"));
            }
            SubscriptionEvent::Unsupported { status } => {
                tracing::error!(
                    engine = self.engine.name(),
                    rank = number,
                    reason = status.message(),
                    "what listens there is no relay"
                );
                self.last_error = Some(format!("no relay: {}", status.message()));
                self.follower.handle_disconnected(now);
            }
            SubscriptionEvent::Unreadable(error) => {
                tracing::debug!(engine = self.engine.name(), rank = number, %error, "no message of a relay");
                self.unreadable += 1;
                self.last_error = Some(error.to_string());
            }
        }
    }

    fn ended(&mut self, session: u64, end: &ReplayEnd) -> ReplayOutcome {
        if end.is_complete() {
            return ReplayOutcome::Complete;
        }
        if let ReplayEnd::Unreachable { cause } = end {
            self.last_error = Some(format!("replay: {cause}"));
        }
        tracing::warn!(engine = self.engine.name(), rank = self.rank().number, session, ?end, "a replay broke off");
        ReplayOutcome::Incomplete
    }

    fn misread(&mut self, error: &FrameError) {
        tracing::debug!(engine = self.engine.name(), rank = self.rank().number, %error, "no message of a publisher");
        self.unreadable += 1;
        self.last_error = Some(error.to_string());
    }

    /// Asks what is to be asked, and queues what is to be done, until the queue is full.
    fn hand_over(&mut self) {
        if let Some(request) = self.follower.poll_request() {
            self.ask(request);
        }
        while let Some(step) = self.refused.take().or_else(|| self.follower.poll_step()) {
            match self.lane.enqueue(step) {
                Err(refused) if matches!(refused.why, Refusal::Full { .. }) => {
                    self.refused = Some(refused.item);
                    return;
                }
                // A stream that has failed is begun anew and replayed, this step with it.
                _ => {}
            }
        }
    }

    fn ask(&mut self, request: Request) {
        tracing::debug!(engine = self.engine.name(), rank = self.rank().number, ?request, "asking");
        self.line.ask(request);
    }

    /// The lane has something to tell.
    async fn look(&mut self) {
        let stream = self.rank().stream();
        if stream.failed && self.has_failed().await {
            return self.renew().await;
        }
        self.follower.handle_findings(self.now(), stream.findings);
        if self.rank().books.take_wish() {
            let (engine, rank) = (self.engine.name(), self.rank().number);
            let asked = self.follower.handle_mistrusted(self.now());
            tracing::warn!(engine, rank, asked, "the index overstates the rank: its stream is to be learned anew");
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
                self.refused = None;
                self.follower.handle_failed(self.now());
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

    fn publish(&self) {
        self.begin_era();
        self.rank().publish(|state| {
            state.batches = BatchCounts::of(self.follower.counts(), self.unreadable);
            state.connected = self.follower.is_connected();
            state.last_error.clone_from(&self.last_error);
        });
    }

    /// Once a stream that was begun anew holds what it is to hold, what was seen of it before says nothing any more.
    fn begin_era(&self) {
        let counts = self.follower.counts();
        if self.follower.is_replaying() || self.follower.trust() == Trust::Resyncing {
            return;
        }
        let era = counts.rebuilds + counts.restarts + counts.failures;
        if self.rank().books.begins_era(era) {
            tracing::debug!(engine = self.engine.name(), rank = self.rank().number, era, "learned anew");
        }
    }

    /// The follower's time.
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn rank(&self) -> &Rank {
        &self.engine.ranks()[self.rank]
    }
}

/// Long enough for a timer that waits for nothing.
const NEVER: Duration = Duration::from_hours(24);
