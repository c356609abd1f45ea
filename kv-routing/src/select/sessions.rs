//! Which worker served a session last, for as many sessions as there is room for.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::limits::SESSIONS_MAX;

/// A bounded table of sessions and their workers.
///
/// Affinity by overlap already brings a conversation's next turn to its prefix. This is for what overlap cannot see: engines
/// without events, and clients that want one worker. It is local to its process: behind several routers, hash the session
/// to a router, or leave it to overlap.
///
/// A session is kept for the table's time to live after its last note. Beyond [`SESSIONS_MAX`] the one noted longest ago goes.
#[derive(Clone, Debug)]
pub struct Sessions {
    ttl: Duration,
    room: usize,
    homes: HashMap<u64, Home>,
    /// Notes, oldest first; one that a later note of its session has overtaken is passed over.
    notes: VecDeque<(u64, u64)>,
    noted: u64,
    crowded_out: u64,
}

#[derive(Clone, Copy, Debug)]
struct Home {
    worker: u32,
    at: Duration,
    note: u64,
}

impl Sessions {
    /// An empty table that keeps a session for `ttl` after its last note.
    pub fn new(ttl: Duration) -> Self {
        Self::with_room(ttl, SESSIONS_MAX)
    }

    /// A table with room for `room` sessions, at most [`SESSIONS_MAX`].
    pub fn with_room(ttl: Duration, room: usize) -> Self {
        let room = room.min(SESSIONS_MAX);
        Self { ttl, room, homes: HashMap::new(), notes: VecDeque::new(), noted: 0, crowded_out: 0 }
    }

    /// The worker of `session`, a hash of whatever the caller calls one.
    pub fn home(&self, now: Duration, session: u64) -> Option<u32> {
        self.homes.get(&session).filter(|home| now < home.at.saturating_add(self.ttl)).map(|home| home.worker)
    }

    /// Notes that `worker` serves `session` now.
    pub fn note(&mut self, now: Duration, session: u64, worker: u32) {
        if self.room == 0 {
            return;
        }
        self.noted += 1;
        self.homes.insert(session, Home { worker, at: now, note: self.noted });
        self.notes.push_back((session, self.noted));
        while self.homes.len() > self.room {
            self.crowded_out += u64::from(self.drop_oldest());
        }
        self.drop_spent(now);
    }

    /// Forgets a worker that is gone, with all its sessions.
    pub fn forget_worker(&mut self, worker: u32) {
        self.homes.retain(|_, home| home.worker != worker);
    }

    /// How many sessions are remembered, expired ones that were not met since included.
    pub fn len(&self) -> usize {
        self.homes.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.homes.is_empty()
    }

    /// Sessions that were forgotten before their time, for want of room.
    pub fn crowded_out(&self) -> u64 {
        self.crowded_out
    }

    /// Drops the oldest note, and its session if there was no later one. Whether a session went.
    fn drop_oldest(&mut self) -> bool {
        let Some((session, note)) = self.notes.pop_front() else { return false };
        self.is_last(session, note) && self.homes.remove(&session).is_some()
    }

    fn is_last(&self, session: u64, note: u64) -> bool {
        self.homes.get(&session).is_some_and(|home| home.note == note)
    }

    /// Drops expired sessions from the front, and all overtaken notes once they are the larger half: that is paid for by the
    /// notes that made them so many.
    fn drop_spent(&mut self, now: Duration) {
        while let Some(&(session, note)) = self.notes.front() {
            if self.is_last(session, note) && self.home(now, session).is_some() {
                break;
            }
            self.drop_oldest();
        }
        if self.notes.len() > 2 * self.homes.len() {
            let homes = &self.homes;
            self.notes.retain(|(session, note)| homes.get(session).is_some_and(|home| home.note == *note));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_session_stays_until_its_time_is_over_or_its_worker_gone() {
        let mut sessions = Sessions::new(at(10));
        sessions.note(at(0), 1, 5);
        sessions.note(at(5), 2, 6);
        sessions.note(at(6), 1, 7);
        assert_eq!([1, 2, 3].map(|session| sessions.home(at(9), session)), [Some(7), Some(6), None]);
        assert_eq!([1, 2].map(|session| sessions.home(at(15), session)), [Some(7), None]);
        sessions.forget_worker(7);
        assert_eq!(sessions.home(at(9), 1), None);
        sessions.note(at(30), 3, 1);
        assert_eq!(sessions.len(), 1, "the expired are dropped on the way");
    }

    // D33, D36: bounded, and one that is quiet blocks nobody.
    #[test]
    fn the_session_noted_longest_ago_makes_room() {
        let mut sessions = Sessions::with_room(at(1_000_000), 3);
        (0..3).for_each(|session| sessions.note(at(session), session, 9));
        (0..10_000).for_each(|round| sessions.note(at(10), 1 + round % 2, 8));
        assert!(sessions.notes.len() <= 7, "{} notes of 3 sessions", sessions.notes.len());
        sessions.note(at(11), 77, 4);
        assert_eq!([0, 1, 2, 77].map(|session| sessions.home(at(12), session)), [None, Some(8), Some(8), Some(4)]);
        assert_eq!((sessions.len(), sessions.crowded_out()), (3, 1));
        let mut none = Sessions::with_room(at(1), 0);
        none.note(at(0), 1, 1);
        assert!(none.is_empty());
    }
}
