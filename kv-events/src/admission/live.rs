//! What becomes of a batch as it was published.

use super::cursor::Verdict;
use super::delivery::Delivery;
use super::follower::Follower;
use crate::limits::{CONTRADICTIONS_MAX, REPLAY_PAUSE};

/// What the replay socket can say about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witness {
    /// It was not asked since the batch came.
    Unasked,
    /// It was asked since, and told all that it has.
    Asked,
    /// There is none, or it cannot be asked now.
    Absent,
}

impl Follower {
    /// Judges a live batch while no replay is under way.
    pub(super) fn live(&mut self, delivery: Delivery) {
        let witness = self.witness();
        if let Some(delivery) = self.judge(delivery, witness) {
            self.link.confirmed = false;
            self.held.push(self.sessions, delivery);
            self.ask(false);
        }
    }

    /// Keeps a live batch until the replay under way has ended.
    pub(super) fn hold(&mut self, delivery: Delivery) {
        self.link.confirmed = false;
        if !self.held.push(self.sessions, delivery) {
            self.counts.overflowed += 1;
            self.owes_session = true;
        }
    }

    /// Judges the batches that waited for a replay to end: for the session `completed`, if it told all that the publisher has.
    /// Stops where another is needed.
    pub(super) fn release(&mut self, completed: Option<u64>) {
        while self.session.is_none()
            && let Some((seen, delivery)) = self.held.pop()
        {
            let witness = match completed {
                Some(session) if seen < session => Witness::Asked,
                _ => self.witness(),
            };
            if let Some(delivery) = self.judge(delivery, witness) {
                self.link.confirmed = false;
                self.held.put_back(seen, delivery);
                self.ask(false);
            }
        }
    }

    fn witness(&self) -> Witness {
        if self.can_ask() { Witness::Unasked } else { Witness::Absent }
    }

    /// Applies `delivery` or leaves it, or gives it back if the replay socket must be asked first.
    fn judge(&mut self, delivery: Delivery, witness: Witness) -> Option<Delivery> {
        let is_known = self.recent.is_same(delivery.sequence, delivery.fingerprint);
        match (is_known, witness) {
            (Some(true), _) => {
                // The connection shows a batch of the life that is followed.
                (self.link.proven, self.contradictions) = (true, 0);
                self.counts.stale += 1;
                self.showed_live(delivery.sequence);
                None
            }
            _ if self.link.proven => self.judge_proven(delivery, is_known, witness),
            (_, Witness::Unasked) => Some(delivery),
            (_, Witness::Asked) => {
                self.unwitnessed(delivery.sequence);
                None
            }
            (_, Witness::Absent) => self.judge_alone(delivery, is_known),
        }
    }

    /// A batch of a connection that is of the life that is followed, unless its numbers say that another has begun.
    fn judge_proven(&mut self, delivery: Delivery, is_known: Option<bool>, witness: Witness) -> Option<Delivery> {
        if is_known == Some(false) {
            return self.restarted(delivery, witness);
        }
        let clears = delivery.batch.clears();
        match self.cursor.admit_live(delivery.sequence, clears) {
            Verdict::Stale => self.counts.stale += 1,
            Verdict::Restart => return self.restarted(delivery, witness),
            Verdict::Replay { .. } if witness == Witness::Unasked => return Some(delivery),
            Verdict::Replay { .. } => {
                // Nobody has what is missing: it is lost.
                let verdict = self.cursor.admit_live(delivery.sequence, clears);
                self.apply_live(delivery, verdict);
            }
            verdict => self.apply_live(delivery, verdict),
        }
        None
    }

    /// A batch of a connection that nobody can say the life of.
    fn judge_alone(&mut self, delivery: Delivery, is_known: Option<bool>) -> Option<Delivery> {
        if self.cursor.last().is_none() {
            // Nothing is held yet that it could be mixed with.
            self.link.proven = true;
        } else if is_known.is_none() {
            self.doubt_if(true);
        }
        self.judge_proven(delivery, is_known, Witness::Absent)
    }

    /// The publisher started again, as `delivery` shows.
    fn restarted(&mut self, delivery: Delivery, witness: Witness) -> Option<Delivery> {
        self.begin_life();
        if witness != Witness::Absent && self.can_ask() {
            return Some(delivery);
        }
        // What is held from here on is of this connection alone.
        self.link.proven = true;
        let verdict = self.cursor.admit_live(delivery.sequence, delivery.batch.clears());
        self.apply_live(delivery, verdict);
        None
    }

    /// The replay socket, asked since, knows of no such batch. It is of an earlier life, and still came on its connection; or
    /// answers were dropped, which the next question will show; or the socket is another publisher's.
    fn unwitnessed(&mut self, sequence: u64) {
        self.counts.foreign += 1;
        self.contradictions += 1;
        if self.contradictions >= CONTRADICTIONS_MAX {
            // Once more is enough the next time.
            self.contradictions -= 1;
            self.link.confirmed = false;
            self.doubt_if(self.cursor.last().is_some());
            (self.rests, self.retry_at) = (true, Some(self.clock.now().saturating_add(REPLAY_PAUSE.1)));
        } else if self.cursor.last().is_none_or(|last| sequence > last) {
            self.link.confirmed = false;
            self.ask_soon();
        }
    }

    /// The connection has brought the last batch itself: it brings all that follows, so nothing that a replay dropped is missing.
    fn showed_live(&mut self, sequence: u64) {
        let is_last = self.cursor.last() == Some(sequence) && self.held.is_empty();
        self.link.confirmed |= is_last && self.link.caught_up && self.link.proven && self.session.is_none();
    }

    pub(super) fn apply_live(&mut self, delivery: Delivery, verdict: Verdict) {
        self.counts.live += 1;
        self.showed_live(delivery.sequence);
        self.apply(delivery, verdict);
        self.plan_repair();
    }
}
