//! The ledgers of a fleet whose members come and go.

use std::collections::HashMap;
use std::hash::Hash;

use super::ledger::Shared;
use super::{Ledger, Options};
use crate::sync::{Arc, Weak};

/// Ledgers by name. A worker that leaves and comes back while requests of ours are under way finds its books as they are: the
/// engine has not forgotten them either.
#[derive(Debug)]
pub struct Roster<K> {
    options: Options,
    members: HashMap<K, Ledger>,
    /// Those that left. Their requests keep the books; once the last one ends, they are gone.
    left: HashMap<K, Weak<Shared>>,
}

impl<K: Hash + Eq> Roster<K> {
    /// Nobody.
    pub fn new(options: Options) -> Self {
        Self { options, members: HashMap::new(), left: HashMap::new() }
    }

    /// The ledger of `key`, which joins if it is not a member.
    pub fn add(&mut self, key: K) -> Ledger {
        let left = self.left.remove(&key).and_then(|left| left.upgrade()).map(Ledger);
        let new = || left.unwrap_or_else(|| Ledger::new(self.options));
        self.members.entry(key).or_insert_with(new).clone()
    }

    /// The ledger of a member.
    pub fn get(&self, key: &K) -> Option<&Ledger> {
        self.members.get(key)
    }

    /// A member leaves. Whether it was one.
    pub fn remove(&mut self, key: &K) -> bool {
        let Some((key, ledger)) = self.members.remove_entry(key) else { return false };
        self.left.retain(|_, left| left.strong_count() > 0);
        self.left.insert(key, Arc::downgrade(&ledger.0));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // D35: a flap of the topology zeroes the live load.
    #[test]
    fn a_worker_that_comes_back_still_has_its_requests() {
        let now = Duration::from_secs(1);
        let mut roster = Roster::new(Options::default());
        let booking = roster.add("a").dispatch(now, 0, 100);
        assert!(roster.remove(&"a") && !roster.remove(&"a") && roster.get(&"a").is_none());
        let view = roster.add("a").view(now);
        assert_eq!((view.in_flight, view.queued_tokens), (1, 100));
        drop(booking);
        assert_eq!(roster.get(&"a").unwrap().view(now).in_flight, 0);
    }

    #[test]
    fn books_that_nobody_needs_are_not_kept() {
        let mut roster = Roster::new(Options::default());
        for name in 0..1_000 {
            let _ = roster.add(name);
            roster.remove(&name);
        }
        assert!(roster.left.len() <= 1 && roster.members.is_empty());
    }
}
