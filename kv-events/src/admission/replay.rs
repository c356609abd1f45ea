//! What the replay socket is asked, and what becomes of its answers.

use super::cursor::{Cursor, Verdict};
use super::delivery::Delivery;
use super::follower::{Anchor, Doubt, Follower, Repair, Source};
use super::orders::{Change, Request};
use super::session::{ReplayOutcome, Session};
use crate::limits::REPLAY_TRIES_MAX;

impl Follower {
    /// Asks from the anchor on, so that the first answer shows whether the publisher is still the same life; or from the start,
    /// to find a place from which the stream can be rebuilt.
    pub(super) fn ask(&mut self, seeks: bool) {
        self.sessions += 1;
        self.counts.replays += 1;
        self.counts.rebuilds += u64::from(self.forgotten > 0);
        (self.rests, self.retry_at) = (false, None);
        let anchor = self.anchor.filter(|_| !seeks);
        let from = anchor.map_or(0, |anchor| anchor.sequence);
        self.session = Some(Session::new(self.sessions, from, seeks, self.cursor.last(), self.clock.now()));
        self.request = Some(Request::Replay { session: self.sessions, from });
    }

    /// Asks again after a pause.
    pub(super) fn ask_soon(&mut self) {
        let due = self.replay_pause.after(self.clock.now());
        self.retry_at = Some(self.retry_at.map_or(due, |before| before.min(due)));
    }

    /// Batches are missing that the publisher may still have.
    pub(super) fn plan_repair(&mut self) {
        if self.is_incomplete() && self.repair == Repair::Possible && self.source != Source::Engine && self.retry_at.is_none() {
            self.ask_soon();
        }
    }

    /// Judges one answer of the session under way.
    pub(super) fn replayed(&mut self, delivery: Delivery) {
        let (sequence, print) = (delivery.sequence, delivery.fingerprint);
        let anchor = self.anchor.filter(|anchor| anchor.sequence == sequence);
        let shows_anchor = anchor.map(|anchor| anchor.fingerprint.zip(print).is_none_or(|(mine, theirs)| mine == theirs));
        if shows_anchor == Some(false) || self.recent.is_same(sequence, print) == Some(false) {
            return self.other_life();
        }
        let Some(session) = self.session.as_mut() else { return };
        session.is_known_life |= shows_anchor == Some(true);
        let is_known_life = session.is_known_life;
        match self.cursor.last() {
            Some(last) if sequence <= last => self.replayed_again(delivery),
            Some(_) if !is_known_life => self.begin_here(delivery),
            Some(last) if sequence - last > 1 && self.breaks_off(last) => {}
            _ => self.apply_replayed(delivery),
        }
    }

    /// An answer that was applied before.
    fn replayed_again(&mut self, delivery: Delivery) {
        let is_start = delivery.sequence == 0 || delivery.batch.clears();
        if is_start && let Some(session) = self.session.as_mut().filter(|session| session.seeks) {
            session.seeks = false;
            session.is_known_life = true;
            self.rebuild();
            return self.apply_replayed(delivery);
        }
        self.counts.stale += 1;
    }

    /// The stream is cleared, and learned anew from the batch that comes next. What has shown that the connection is of the life that was
    /// followed does not show that it is of this one: a publisher that began again meanwhile has answered, and what it sent before is
    /// still on its way.
    fn rebuild(&mut self) {
        self.counts.rebuilds += 1;
        self.link.proven = false;
        self.cursor = Cursor::new();
        self.recent.clear();
        self.anchor = None;
        (self.doubt, self.repair) = (Doubt::None, Repair::UnderWay);
        self.clear(Change::Clear);
    }

    /// The publisher has nothing that would show it to be the life that was followed: what it has is taken for another's.
    fn begin_here(&mut self, delivery: Delivery) {
        self.counts.foreign += self.held.clear();
        self.begin_life();
        if let Some(session) = self.session.as_mut() {
            session.begins_life();
        }
        self.apply_replayed(delivery);
    }

    /// What is replayed is not what was followed: the publisher has started again. What came live until now is either the former
    /// life's, or comes again with the next replay.
    fn other_life(&mut self) {
        self.counts.foreign += self.held.clear();
        self.begin_life();
        if self.tries < REPLAY_TRIES_MAX {
            self.tries += 1;
            return self.ask(false);
        }
        // A socket that shows ever other lives is not asked in a loop.
        (self.session, self.request) = (None, Some(Request::StopReplay));
        self.rest();
    }

    /// Leaves the replay socket alone for a while.
    fn rest(&mut self) {
        (self.tries, self.rests) = (0, true);
        (self.link.caught_up, self.link.confirmed) = (false, false);
        self.ask_soon();
    }

    /// Answers are missing behind `last`. The publisher's socket may have dropped them, so they are asked for once more.
    fn breaks_off(&mut self, last: u64) -> bool {
        let again = self.hole_behind != Some(last) && self.tries < REPLAY_TRIES_MAX;
        if again {
            self.hole_behind = Some(last);
            self.tries += 1;
            self.ask(false);
        }
        again
    }

    fn apply_replayed(&mut self, delivery: Delivery) {
        // More was missing than was known, until the end marker says that this was all.
        self.link.confirmed = false;
        if let Some(session) = self.session.as_mut() {
            session.applied += 1;
        }
        let verdict = self.cursor.admit_replayed(delivery.sequence, delivery.batch.clears());
        if verdict != Verdict::Stale {
            self.counts.replayed += 1;
            self.apply(delivery, verdict);
        }
    }

    /// The session `ended`.
    pub(super) fn replay_ended(&mut self, ended: Session, outcome: ReplayOutcome) {
        match outcome {
            // A publisher that keeps batches keeps its last one. One that has never shown any may keep none, which tells nothing.
            ReplayOutcome::Complete if ended.lacks_last() && ended.heard == 0 && !self.has_replayed => {
                if ended.from > 0 && self.tries < REPLAY_TRIES_MAX {
                    self.tries += 1;
                    return self.ask(true);
                }
                self.told_not_all();
                self.release(None);
            }
            ReplayOutcome::Complete if ended.lacks_last() => self.other_life(),
            ReplayOutcome::Complete => {
                self.told_all(&ended);
                self.release(Some(ended.id));
                // Who has told nothing tells nothing when it is asked again at once.
                if ended.heard > 0 {
                    self.ask_for_the_end();
                }
            }
            ReplayOutcome::Incomplete => {
                self.counts.replays_incomplete += 1;
                if ended.applied > 0 && self.tries < REPLAY_TRIES_MAX {
                    self.tries += 1;
                    return self.ask(false);
                }
                self.told_not_all();
                self.release(None);
            }
        }
    }

    fn told_all(&mut self, ended: &Session) {
        self.replay_pause.reset();
        self.link.caught_up = !self.owes_session;
        self.link.confirmed = (self.link.confirmed || ended.shows_end()) && !self.owes_session;
        self.verify(ended);
        if ended.from == 0 && ended.high.is_none() {
            // A publisher that has kept no batch, not even its last, has published none.
            self.forgotten = 0;
        }
        // All that it has kept has been seen: in a session from the start, or in a rebuild.
        let told_from_start = ended.from == 0 && (ended.seeks || ended.known_last.is_none());
        let lacks = match self.repair {
            Repair::Impossible => true,
            Repair::UnderWay => self.is_incomplete(),
            Repair::Possible => told_from_start && (self.is_incomplete() || ended.seeks && self.findings.crowded_out > 0),
        };
        self.repair = if lacks { Repair::Impossible } else { Repair::Possible };
        self.plan_repair();
    }

    /// Asks whether there is more behind the last batch, if neither the answers nor the live socket have shown that there is not.
    fn ask_for_the_end(&mut self) {
        if self.session.is_some() || self.owes_session || self.retry_at.is_some() {
            return;
        }
        let is_open = !self.link.confirmed && self.link.connected && self.doubt == Doubt::None && self.can_ask();
        if is_open && self.tries < REPLAY_TRIES_MAX {
            self.tries += 1;
            self.ask(false);
        } else {
            self.tries = 0;
        }
    }

    /// Whether what is held is of the publisher's present life, now that it has told all that it has kept.
    fn verify(&mut self, ended: &Session) {
        let is_beyond = |anchor: Anchor| ended.first.is_some_and(|first| first > anchor.sequence);
        if self.doubt == Doubt::Open && ended.is_known_life && ended.showed_last {
            self.doubt = Doubt::None;
        } else if self.doubt == Doubt::Open && self.anchor.is_some_and(is_beyond) {
            // What would tell is no longer kept, and never will be again.
            self.doubt = Doubt::ForEver;
        }
        if self.doubt == Doubt::Open {
            self.ask_soon();
        } else if let Some(sequence) = self.cursor.last() {
            // Lives to come are told from this one by its last batch.
            self.anchor = Some(Anchor { sequence, fingerprint: self.recent.print(sequence) });
        }
    }

    fn told_not_all(&mut self) {
        if self.repair == Repair::UnderWay {
            self.repair = Repair::Possible;
        }
        self.doubt_if(!self.link.proven && self.cursor.last().is_some());
        self.rest();
    }
}
