//! Requests that have a place before the policy is asked: their session's, or a rank's that is to be warmed.
//!
//! Either is only a wish: it enters the decision as the request's home, which is kept while it may be chosen and its queue is no outlier. So
//! the record of such a decision has all candidates, and is decided again like any other.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName};
use kv_routing::select::Sessions;
use kv_routing::warmup::{self, Question};
use parking_lot::Mutex;

use super::gather::Gathered;
use super::score::{DIVERT, SESSION, SLICE};
use super::warmth::Warmth;
use crate::gateway::settings::DecisionSettings;

/// Who has a place already.
#[derive(Debug)]
pub(crate) struct Steering {
    sticky: Option<Sticky>,
    /// Nothing under policies that do not look at caches: they starve nobody.
    warmth: Option<Mutex<Warmth>>,
}

/// Sessions by a header.
#[derive(Debug)]
struct Sticky {
    header: HeaderName,
    /// Sessions are the clients' words, so they are hashed with a secret.
    secret: RandomState,
    sessions: Mutex<Sessions>,
}

/// A place, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steered {
    Session(u32),
    Warmed(warmup::Choice),
}

impl Steering {
    pub(super) fn new(settings: &DecisionSettings, looks_at_overlap: bool) -> Self {
        let sticky = settings.session_header.clone().map(|header| Sticky {
            header,
            secret: RandomState::new(),
            sessions: Mutex::new(Sessions::new(settings.session_for)),
        });
        let warmth = looks_at_overlap.then(|| Mutex::new(Warmth::new(settings.warmup)));
        Self { sticky, warmth }
    }

    /// The session that a request names.
    pub(crate) fn session(&self, headers: &HeaderMap) -> Option<u64> {
        let sticky = self.sticky.as_ref()?;
        let name = headers.get(&sticky.header).filter(|name| !name.is_empty())?;
        Some(sticky.secret.hash_one(name.as_bytes()))
    }

    /// How many sessions are remembered.
    pub(crate) fn sessions(&self) -> usize {
        self.sticky.as_ref().map_or(0, |sticky| sticky.sessions.lock().len())
    }

    pub(crate) fn warmth(&self) -> Option<&Mutex<Warmth>> {
        self.warmth.as_ref()
    }

    pub(super) fn steer(&self, now: Duration, session: Option<u64>, gathered: &Gathered, seed: u64) -> Option<Steered> {
        if let Some(worker) = self.home(now, session).filter(|worker| gathered.candidate(*worker).is_some()) {
            return Some(Steered::Session(worker));
        }
        let (best_blocks, request_blocks) = gathered.best_and_length();
        let in_flight = |worker: u32| {
            let candidate = gathered.candidate(worker).filter(|candidate| candidate.is_eligible())?;
            Some(candidate.load.in_flight)
        };
        let mut warmth = self.warmth.as_ref()?.lock();
        warmth.choose(now, Question { best_blocks, request_blocks }, in_flight, seed).map(Steered::Warmed)
    }

    /// The session was served by `worker`.
    pub(super) fn note(&self, now: Duration, session: Option<u64>, worker: u32) {
        if let Some((sticky, session)) = self.sticky.as_ref().zip(session) {
            sticky.sessions.lock().note(now, session, worker);
        }
    }

    fn home(&self, now: Duration, session: Option<u64>) -> Option<u32> {
        self.sticky.as_ref()?.sessions.lock().home(now, session?)
    }
}

impl Steered {
    pub(super) const fn worker(self) -> u32 {
        match self {
            Self::Session(worker) | Self::Warmed(warmup::Choice { worker, .. }) => worker,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Session(_) => SESSION,
            Self::Warmed(warmup::Choice { branch: warmup::Branch::Slice, .. }) => SLICE,
            Self::Warmed(warmup::Choice { branch: warmup::Branch::Divert, .. }) => DIVERT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steering(header: Option<&'static str>) -> Steering {
        let session_header = header.map(HeaderName::from_static);
        Steering::new(&DecisionSettings { session_header, ..DecisionSettings::default() }, true)
    }

    #[test]
    fn a_session_is_what_its_header_says_and_nothing_without_one() {
        let named = |value: &'static str| [(HeaderName::from_static("x-user"), value.parse().unwrap())].into_iter().collect();
        let sticky = steering(Some("x-user"));
        let (ann, ben) = (sticky.session(&named("ann")), sticky.session(&named("ben")));
        assert!(ann.is_some() && ann != ben && ann == sticky.session(&named("ann")));
        assert_eq!((sticky.session(&named("")), sticky.session(&HeaderMap::new())), (None, None));
        assert_eq!(steering(None).session(&named("ann")), None);
        sticky.note(Duration::ZERO, ann, 3);
        assert_eq!((sticky.home(Duration::from_secs(1), ann), sticky.home(Duration::from_secs(1), ben)), (Some(3), None));
        assert_eq!((sticky.home(Duration::from_hours(2), ann), sticky.sessions()), (None, 1));
    }
}
