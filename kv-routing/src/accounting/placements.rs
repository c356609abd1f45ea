//! Who is expected to hold which prefixes, as soon as they are computed.

use std::collections::{HashMap, VecDeque};
// Not the shim's: nothing but bytes is shared by it.
use std::sync::Arc;
use std::time::Duration;

use super::PrefixKeys;
use super::keys::Key;
use crate::limits::{PREDICTION_KEYS_MAX, PREDICTION_TTL, PREDICTION_WORKERS_MAX, SETTLE_AFTER};

/// A worker that is expected to hold the beginning of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// The caller's number for it.
    pub worker: u32,
    /// How many of the prompt's first blocks.
    pub blocks: u32,
}

/// The table. Placements are numbered, so that the end of one takes nothing from another.
#[derive(Debug)]
pub(super) struct Placements {
    /// Hashed with a secret of the process, as prompts are the clients' choice. Nothing is read in its order.
    prefixes: HashMap<u64, Prefix>,
    /// In the order of booking. An entry counts while its prefix says that it is in it.
    queue: VecDeque<Queued>,
    /// Of the next placement, and of the next entry of the queue.
    next: u64,
    /// How long a placement holds of which nothing is heard.
    ttl: Duration,
}

#[derive(Debug)]
struct Prefix {
    /// The number of its entry in the queue.
    queued: u64,
    holders: Vec<Holder>,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    hash: u64,
    number: u64,
    expires: Duration,
}

/// A worker at which a prefix is placed.
#[derive(Clone, Debug)]
struct Holder {
    worker: u32,
    /// The first blocks of the placement that made it so.
    prompt: Arc<[u8]>,
    /// The placement that made it so. Later ones join it.
    born: u64,
    /// Placements whose prompt is not computed yet, and when to give up on the last of them.
    pending: u32,
    expires: Duration,
    /// Until when events of computed prompts may be on their way.
    settled: Duration,
}

impl Default for Placements {
    fn default() -> Self {
        Self::lasting(PREDICTION_TTL)
    }
}

impl Placements {
    /// An empty table whose placements hold for `ttl`.
    pub(super) fn lasting(ttl: Duration) -> Self {
        Self { prefixes: HashMap::new(), queue: VecDeque::new(), next: 0, ttl }
    }

    /// A prompt whose first blocks are `prompt` is sent to `worker`. Returns the placement's number.
    pub(super) fn place_prompt(&mut self, now: Duration, worker: u32, keys: &[Key], prompt: &Arc<[u8]>) -> u64 {
        let number = self.number();
        let expires = now.saturating_add(self.ttl);
        self.expire(now);
        for key in keys {
            let prompt = Arc::clone(prompt);
            self.hold(now, key.hash, Holder { worker, prompt, born: number, pending: 1, expires, settled: Duration::ZERO });
        }
        number
    }

    /// Who is expected to hold the most of a prompt, each worker once, the longest prefixes first.
    pub(super) fn find(&self, now: Duration, keys: &[Key], found: &mut Vec<Predicted>) {
        found.clear();
        for Key { blocks, hash } in keys.iter().rev() {
            let Some(prefix) = self.prefixes.get(hash) else { continue };
            for holder in prefix.holders.iter().filter(|holder| now < holder.ends()) {
                if found.iter().all(|longer| longer.worker != holder.worker) {
                    found.push(Predicted { worker: holder.worker, blocks: *blocks });
                }
            }
        }
    }

    /// The same, with all that is shared with the placement found, and not only with a power of two of it.
    pub(super) fn find_shared(&self, now: Duration, keys: &PrefixKeys, found: &mut Vec<Predicted>) {
        self.find(now, keys.keys(), found);
        for Predicted { worker, blocks } in found.iter_mut() {
            let holder = keys.keys().iter().find(|key| key.blocks == *blocks).and_then(|key| self.holder(key, *worker));
            *blocks = (*blocks).max(holder.map_or(0, |holder| keys.shared_with(&holder.prompt)));
        }
        found.sort_by_key(|longest| std::cmp::Reverse(longest.blocks));
    }

    fn holder(&self, key: &Key, worker: u32) -> Option<&Holder> {
        self.prefixes.get(&key.hash)?.holders.iter().find(|holder| holder.worker == worker)
    }

    /// Placement `number` at `worker` came to nothing.
    pub(super) fn withdraw(&mut self, number: u64, worker: u32, keys: &[Key]) {
        self.change(worker, keys, |holder| {
            if holder.born <= number {
                holder.pending = holder.pending.saturating_sub(1);
            }
            holder.ends() > Duration::ZERO
        });
    }

    /// The prompt of placement `number` is computed: the events that say so are on their way. One that has expired stays so.
    pub(super) fn settle(&mut self, now: Duration, number: u64, worker: u32, keys: &[Key]) {
        let settled = now.saturating_add(SETTLE_AFTER);
        self.change(worker, keys, |holder| {
            if holder.born <= number && now < holder.ends() {
                holder.pending = holder.pending.saturating_sub(1);
                holder.settled = settled;
            }
            true
        });
    }

    /// The index shows the first `blocks` of a prompt at `worker`.
    pub(super) fn confirm(&mut self, worker: u32, keys: &[Key], blocks: u32) {
        let shown = keys.partition_point(|key| key.blocks <= blocks);
        self.change(worker, &keys[..shown], |_| false);
    }

    /// The worker is gone.
    pub(super) fn forget(&mut self, worker: u32) {
        self.prefixes.retain(|_, prefix| {
            prefix.holders.retain(|holder| holder.worker != worker);
            !prefix.holders.is_empty()
        });
    }

    pub(super) fn len(&self) -> usize {
        self.prefixes.len()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn hold(&mut self, now: Duration, hash: u64, new: Holder) {
        if let Some(prefix) = self.prefixes.get_mut(&hash) {
            return prefix.hold(now, new);
        }
        self.make_room();
        let queued = self.number();
        self.queue.push_back(Queued { hash, number: queued, expires: new.expires });
        self.prefixes.insert(hash, Prefix { queued, holders: vec![new] });
    }

    /// Makes room for one prefix more. Every prefix has one entry in the queue, so there is an end to it.
    fn make_room(&mut self) {
        while self.prefixes.len() >= PREDICTION_KEYS_MAX {
            let Some(oldest) = self.queue.pop_front() else { return };
            if self.is_current(&oldest) {
                self.prefixes.remove(&oldest.hash);
            }
        }
        if self.queue.len() >= 2 * PREDICTION_KEYS_MAX {
            // Entries of prefixes that went by themselves. At least half of the queue is such, so this is rare.
            let prefixes = &self.prefixes;
            self.queue.retain(|entry| prefixes.get(&entry.hash).is_some_and(|prefix| prefix.queued == entry.number));
        }
    }

    /// Lets go what has expired, as far as it stands at the head of the queue. What is live there, because it was placed again, goes to
    /// the end with its own time, which is ahead of `now`: no entry is looked at twice.
    fn expire(&mut self, now: Duration) {
        while let Some(head) = self.queue.pop_front_if(|head| head.expires <= now) {
            if !self.is_current(&head) {
                continue;
            }
            let Some(prefix) = self.prefixes.get_mut(&head.hash) else { continue };
            prefix.holders.retain(|holder| now < holder.ends());
            match prefix.holders.iter().map(Holder::ends).max() {
                Some(expires) => self.queue.push_back(Queued { expires, ..head }),
                None => _ = self.prefixes.remove(&head.hash),
            }
        }
    }

    fn is_current(&self, entry: &Queued) -> bool {
        self.prefixes.get(&entry.hash).is_some_and(|prefix| prefix.queued == entry.number)
    }

    /// Changes `worker` as a holder of these prefixes. Holders for which `keep` says no are gone.
    fn change(&mut self, worker: u32, keys: &[Key], mut keep: impl FnMut(&mut Holder) -> bool) {
        for key in keys {
            let Some(prefix) = self.prefixes.get_mut(&key.hash) else { continue };
            prefix.holders.retain_mut(|holder| holder.worker != worker || keep(holder));
            if prefix.holders.is_empty() {
                self.prefixes.remove(&key.hash);
            }
        }
    }
}

impl Prefix {
    fn hold(&mut self, now: Duration, new: Holder) {
        self.holders.retain(|holder| now < holder.ends());
        if let Some(holder) = self.holders.iter_mut().find(|holder| holder.worker == new.worker) {
            holder.pending = holder.pending.saturating_add(1);
            holder.expires = new.expires;
        } else if self.holders.len() < PREDICTION_WORKERS_MAX {
            self.holders.push(new);
        } else if let Some(first) = self.holders.iter_mut().min_by_key(|holder| holder.ends()) {
            *first = new;
        }
    }
}

impl Holder {
    /// When it is no holder any more; 0 if it is none already.
    fn ends(&self) -> Duration {
        if self.pending > 0 { self.expires.max(self.settled) } else { self.settled }
    }
}

#[cfg(test)]
mod tests;
