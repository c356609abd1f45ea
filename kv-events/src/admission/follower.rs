//! One worker's one rank, followed.

use std::collections::VecDeque;
use std::time::Duration;

use super::clock::Clock;
use super::cursor::{Cursor, Verdict};
use super::delivery::Delivery;
use super::held::Held;
use super::orders::{Change, FollowerCounts, Request, Step};
use super::pause::Pause;
use super::recent::Recent;
use super::resume::Resumption;
use super::session::{ReplayOutcome, Session};
use super::trust::{Findings, Trust};
use crate::limits::{QUIET_MAX, RELEARN_PAUSE, REPLAY_PAUSE};
use crate::{Incarnation, Position};

/// Where a stream's batches come from, and what can be asked when some are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// An engine's publisher, whose replay socket has the last batches.
    EngineWithReplay,
    /// An engine's publisher without one: what is lost is lost.
    Engine,
    /// A relay: it names lives, resumes after any position, and sends snapshots.
    Relay,
}

/// Follows one rank of one worker: decides which batches are applied, asks for what is missing, knows what the result is worth.
///
/// It has no clock and no socket. Its caller tells it what happens (`handle_*`), and after each call, and whenever the moment of
/// [`next_timeout`](Self::next_timeout) has come ([`handle_timeout`](Self::handle_timeout)), takes what there is to do
/// ([`poll_step`](Self::poll_step), [`poll_request`](Self::poll_request)) until there is nothing more. The rules are in
/// [the module's documentation](super).
///
/// `now` is the time since any moment of the caller's choice. A clock that jumps does no harm beyond one wait of the caller's,
/// which it makes too long or too short.
#[derive(Clone, Debug)]
pub struct Follower {
    pub(super) source: Source,
    pub(super) clock: Clock,
    pub(super) incarnation: Incarnation,
    pub(super) cursor: Cursor,
    pub(super) recent: Recent,
    /// The last batch that is known to be of the publisher's present life, or the first of all: who shows it again is that life.
    pub(super) anchor: Option<Anchor>,
    pub(super) link: Link,
    pub(super) doubt: Doubt,
    pub(super) repair: Repair,
    pub(super) unreadable: u64,
    /// Batches that an index lost together with its stream.
    pub(super) forgotten: u64,
    pub(super) findings: Findings,
    pub(super) session: Option<Session>,
    /// The number of the latest session.
    pub(super) sessions: u64,
    pub(super) held: Held,
    /// In this life the replay socket has answered with a batch: its publisher keeps some.
    pub(super) has_replayed: bool,
    /// A session is to follow the one under way.
    pub(super) owes_session: bool,
    /// Questions in a row that followed each other without a pause.
    pub(super) tries: u8,
    /// A replay had nothing behind this batch but later ones.
    pub(super) hole_behind: Option<u64>,
    /// Batches in a row that the replay socket, asked since they came, did not know of.
    pub(super) contradictions: u8,
    /// The replay socket failed, and is left alone until `retry_at`. Gaps are owned up to at once meanwhile.
    pub(super) rests: bool,
    pub(super) replay_pause: Pause,
    /// When the replay socket, or a relay, is asked for a repair, or again after it failed.
    pub(super) retry_at: Option<Duration>,
    pub(super) relearn_pause: Pause,
    pub(super) relearn_at: Option<Duration>,
    pub(super) active_at: Duration,
    pub(super) resumption: Resumption,
    pub(super) degraded_since: Option<Duration>,
    pub(super) shown: Trust,
    pub(super) steps: VecDeque<Step>,
    pub(super) request: Option<Request>,
    pub(super) counts: FollowerCounts,
}

/// The connection to the publisher or relay.
#[expect(clippy::struct_excessive_bools, reason = "four facts, each of which may hold without the others")]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    pub(super) connected: bool,
    /// A batch of it is known to be of the life that is followed, and so are all that follow on it.
    pub(super) proven: bool,
    /// It carries all that follows what the replay socket told: an end marker came, and the socket has not failed since.
    pub(super) caught_up: bool,
    /// The publisher said that there is nothing behind the last batch, or showed it live, and nothing has happened since that
    /// makes it doubtful.
    pub(super) confirmed: bool,
}

/// Whether what is held may be of another life than the publisher's present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    None,
    /// The replay socket may still tell.
    Open,
    /// Nobody can tell any more.
    ForEver,
}

/// How it stands with learning the stream anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    /// It can be tried.
    Possible,
    /// The stream was cleared, and what it held is being replayed.
    UnderWay,
    /// The publisher has not kept what it would take.
    Impossible,
}

/// A batch that tells one life from another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    pub(super) sequence: u64,
    pub(super) fingerprint: Option<u64>,
}

impl Follower {
    /// Follows a stream of which nothing is known. `watcher` makes its incarnations unique: draw it at random, once a process.
    pub fn new(source: Source, watcher: u64) -> Self {
        Self {
            source,
            clock: Clock::default(),
            incarnation: Incarnation::first(watcher),
            cursor: Cursor::new(),
            recent: Recent::default(),
            anchor: None,
            link: Link::default(),
            doubt: Doubt::None,
            repair: Repair::Possible,
            unreadable: 0,
            forgotten: 0,
            findings: Findings::default(),
            session: None,
            sessions: 0,
            held: Held::default(),
            has_replayed: false,
            owes_session: false,
            tries: 0,
            hole_behind: None,
            contradictions: 0,
            rests: false,
            replay_pause: Pause::new(REPLAY_PAUSE),
            retry_at: None,
            relearn_pause: Pause::new(RELEARN_PAUSE),
            relearn_at: None,
            active_at: Duration::ZERO,
            resumption: Resumption::default(),
            degraded_since: None,
            shown: Trust::default(),
            steps: VecDeque::new(),
            request: None,
            counts: FollowerCounts::default(),
        }
    }

    /// The next change to make to the stream. Poll until there is none, after every other call.
    #[must_use]
    pub fn poll_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// The next thing to ask for. Poll until there is none, after every other call.
    #[must_use]
    pub fn poll_request(&mut self) -> Option<Request> {
        self.request.take()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if nothing else happens first. It changes with every call.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        let due = [self.session.map(|session| session.deadline()), self.retry_at, self.relearn_at, self.quiet_until()];
        due.into_iter().flatten().min().map(|moment| self.clock.theirs(moment))
    }

    /// The last batch that was taken, and its life.
    pub fn position(&self) -> Option<Position> {
        Some(Position { incarnation: self.incarnation, sequence: self.cursor.last()? })
    }

    /// The life that is followed.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// What the index is worth once all steps are applied.
    pub fn trust(&self) -> Trust {
        self.shown
    }

    /// Whether there is a connection to the publisher or relay.
    pub fn is_connected(&self) -> bool {
        self.link.connected
    }

    /// Whether a replay is under way.
    pub fn is_replaying(&self) -> bool {
        self.session.is_some()
    }

    /// What became of the batches so far.
    pub fn counts(&self) -> &FollowerCounts {
        &self.counts
    }

    /// There is a connection, and the subscription is on its way: what was published before is not coming.
    pub fn handle_connected(&mut self, now: Duration) {
        self.clock.advance(now);
        self.link.connected = true;
        self.cursor.reconnected();
        // They are of an earlier connection: if that was of this life, the replay has them.
        self.counts.stale += self.held.clear();
        match self.source {
            Source::Engine => {
                self.link.proven = self.cursor.last().is_none();
                self.doubt_if(!self.link.proven);
            }
            Source::EngineWithReplay => {
                (self.link.proven, self.link.caught_up, self.link.confirmed) = (false, false, false);
                (self.tries, self.contradictions) = (0, 0);
                self.ask(false);
            }
            Source::Relay => {
                (self.link.proven, self.resumption.awaits_link) = (true, false);
                // The connection may have broken before a repair was asked for, and nothing new may come on this one.
                self.plan_repair();
            }
        }
        self.settle();
    }

    /// The connection is gone.
    pub fn handle_disconnected(&mut self, now: Duration) {
        self.clock.advance(now);
        (self.link.connected, self.link.confirmed) = (false, false);
        if self.source == Source::Relay {
            self.relay_gone();
        }
        self.settle();
    }

    /// A batch came as it was published.
    pub fn handle_live(&mut self, now: Duration, delivery: Delivery) {
        self.active_at = self.clock.advance(now);
        if delivery.sequence == END {
            self.counts.foreign += 1;
        } else if self.source == Source::Relay {
            self.relayed(delivery);
        } else if self.session.is_some() {
            self.hold(delivery);
        } else {
            self.live(delivery);
        }
        self.settle();
    }

    /// Batches of this connection were lost on their way, after the last one and before the next.
    pub fn handle_lagged(&mut self, now: Duration) {
        self.clock.advance(now);
        self.link.confirmed = false;
        if self.session.is_some() {
            self.owes_session = true;
        } else if self.can_ask() {
            self.ask(false);
        }
        self.settle();
    }

    /// An answer of a replay.
    pub fn handle_replayed(&mut self, now: Duration, session: u64, delivery: Delivery) {
        let now = self.clock.advance(now);
        match self.session.as_mut().filter(|current| current.id == session) {
            Some(_) if delivery.sequence == END => self.counts.foreign += 1,
            Some(current) => {
                current.hears(delivery.sequence, now);
                self.replayed(delivery);
                self.has_replayed = true;
            }
            None => self.counts.late += 1,
        }
        self.settle();
    }

    /// A replay ended.
    pub fn handle_replay_end(&mut self, now: Duration, session: u64, outcome: ReplayOutcome) {
        self.active_at = self.clock.advance(now);
        if let Some(ended) = self.session.take_if(|current| current.id == session) {
            self.replay_ended(ended, outcome);
        }
        self.settle();
    }

    /// What applying the latest batches found. Call it when it changes.
    pub fn handle_findings(&mut self, now: Duration, findings: Findings) {
        let now = self.clock.advance(now);
        if findings.crowded_out > self.findings.crowded_out
            && self.source == Source::EngineWithReplay
            && self.relearn_at.is_none()
        {
            self.relearn_at = Some(self.relearn_pause.after(now));
        }
        self.findings = findings;
        self.settle();
    }

    /// What is held was seen not to be what the engine has, though nothing in the stream said so: it is learned anew. An engine's replay
    /// socket is asked for everything, and what is held is cleared only if the answers reach back far enough to rebuild it; a relay
    /// sends a snapshot. Nothing can be asked of an engine without a replay socket. Whether something was asked.
    pub fn handle_mistrusted(&mut self, now: Duration) -> bool {
        self.clock.advance(now);
        let asks = self.link.connected && (self.can_ask() || self.source == Source::Relay);
        match self.source {
            Source::EngineWithReplay if asks => self.ask(true),
            Source::Relay if asks => self.resubscribe(None),
            _ => {}
        }
        self.settle();
        asks
    }

    /// The index lost the stream, as by a panic, and has an empty one in its place. Steps that were not taken are dropped.
    pub fn handle_failed(&mut self, now: Duration) {
        let now = self.clock.advance(now);
        self.counts.failures += 1;
        let forgotten = self.cursor.last().map_or(self.forgotten, |last| last.saturating_add(1));
        self.steps.clear();
        if self.session.take().is_some() {
            self.request = Some(Request::StopReplay);
        }
        self.forget();
        self.forgotten = forgotten;
        // What made it fail may do so again.
        (self.rests, self.retry_at) = (true, Some(self.relearn_pause.after(now)));
        self.release(None);
        self.settle();
    }

    /// The moment of [`next_timeout`](Self::next_timeout) has come; earlier or later calls do no harm.
    pub fn handle_timeout(&mut self, now: Duration) {
        let now = self.clock.advance(now);
        if let Some(overdue) = self.session.take_if(|session| session.deadline() <= now) {
            self.request = Some(Request::StopReplay);
            self.replay_ended(overdue, ReplayOutcome::Incomplete);
        }
        if self.retry_at.take_if(|due| *due <= now).is_some() {
            self.retry();
        }
        if self.relearn_at.is_some_and(|due| due <= now) && self.session.is_none() && self.can_ask() {
            self.relearn_at = None;
            self.ask(true);
        }
        if self.quiet_until().is_some_and(|due| due <= now) {
            self.ask(false);
        }
        self.settle();
    }

    /// Asks again for what is missing, after a pause.
    fn retry(&mut self) {
        match self.source {
            Source::EngineWithReplay if self.session.is_none() => {
                self.ask(self.is_incomplete() && self.repair == Repair::Possible);
            }
            Source::Relay => self.resubscribe_from_nothing(),
            _ => {}
        }
    }

    /// Whether the replay socket can be asked now.
    pub(super) fn can_ask(&self) -> bool {
        self.source == Source::EngineWithReplay && !self.rests
    }

    /// Batches are missing before the last one.
    pub(super) fn is_incomplete(&self) -> bool {
        self.cursor.missed() > 0 || self.forgotten > 0
    }

    /// When a silence has lasted long enough to ask whether it hides a loss.
    fn quiet_until(&self) -> Option<Duration> {
        let asks = self.link.connected && self.session.is_none() && self.can_ask();
        asks.then(|| self.active_at.saturating_add(QUIET_MAX))
    }

    /// Takes `delivery` in. A stream that lost too much is cleared first.
    pub(super) fn apply(&mut self, delivery: Delivery, verdict: Verdict) {
        if let Verdict::ApplyAfterLoss { missed, clear } = verdict {
            self.counts.missed = self.counts.missed.saturating_add(missed);
            // What is missing now may have been a clear, from which all can be rebuilt.
            self.hope();
            if clear {
                self.clear(Change::Clear);
            }
        }
        let Delivery { sequence, fingerprint, bytes, .. } = delivery;
        if delivery.batch.clears() {
            // Whatever was missing before it held nothing that is left.
            (self.doubt, self.unreadable) = (Doubt::None, 0);
            self.hope();
        }
        self.forgotten = 0;
        self.unreadable += u64::from(delivery.batch.is_damaged());
        self.recent.push(sequence, fingerprint);
        if self.doubt == Doubt::None || self.anchor.is_none() {
            self.anchor = Some(Anchor { sequence, fingerprint });
        }
        self.push(Change::Apply { sequence, bytes, batch: delivery.batch });
    }

    /// A life of the publisher ended, and nothing of it is left.
    pub(super) fn begin_life(&mut self) {
        self.counts.restarts += 1;
        self.incarnation = self.incarnation.next();
        self.forget();
        self.clear(Change::Restart);
    }

    /// Nothing is known of the stream any more. What a relay doubts is of the message that it comes with, whatever that makes forgotten.
    pub(super) fn forget(&mut self) {
        self.cursor = Cursor::new();
        self.recent.clear();
        self.anchor = None;
        (self.link.proven, self.link.caught_up, self.link.confirmed) = (false, false, false);
        self.repair = Repair::Possible;
        if self.source != Source::Relay {
            self.doubt = Doubt::None;
        }
        (self.unreadable, self.forgotten, self.has_replayed) = (0, 0, false);
        (self.hole_behind, self.resumption.snapshot_next, self.resumption.snapshot_lost) = (None, None, 0);
        self.findings = Findings::default();
    }

    /// What is held may be of another life, if `doubtful`.
    pub(super) fn doubt_if(&mut self, doubtful: bool) {
        if doubtful {
            self.doubt = self.doubt.max(Doubt::Open);
        }
    }

    /// Something new is known, or missing: what could not be repaired before may be now.
    fn hope(&mut self) {
        if self.repair == Repair::Impossible {
            self.repair = Repair::Possible;
        }
    }

    pub(super) fn clear(&mut self, change: Change) {
        self.findings = Findings::default();
        self.unreadable = 0;
        self.push(change);
    }

    pub(super) fn push(&mut self, change: Change) {
        let trust = self.judge_trust();
        self.shown = trust;
        self.steps.push_back(Step { change, trust });
    }

    /// Ends every call: nothing is owed, and the trust that holds is shown.
    pub(super) fn settle(&mut self) {
        if self.session.is_none() && std::mem::take(&mut self.owes_session) && self.can_ask() {
            self.ask(false);
        }
        if self.judge_trust() != self.shown {
            self.push(Change::Nothing);
        }
    }
}

/// The sequence that ends a replay; no batch has it.
const END: u64 = u64::MAX;
