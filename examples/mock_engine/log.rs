//! What every request got, and what it could have got.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::limits;

/// One started request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Position in the log, from 0, without holes.
    pub sequence: u64,
    /// The number in the answer's `id`.
    pub id: String,
    /// Index of the engine.
    pub worker: usize,
    /// Data-parallel rank.
    pub rank: usize,
    /// Prompt tokens.
    pub prompt_tokens: usize,
    /// Those served from the cache.
    pub cached_tokens: usize,
    /// Those that the best rank of the fleet could have served when the request arrived; never less than what was
    /// served.
    pub oracle_tokens: usize,
    /// Time from arrival to the start of the first pass, in ms of real time.
    pub queued_ms: f64,
}

/// The last half million requests of a fleet, in order of start.
#[derive(Debug, Default)]
pub(super) struct RequestLog(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    next_sequence: u64,
    entries: VecDeque<LogEntry>,
}

impl RequestLog {
    /// Appends an entry and numbers it.
    pub(super) fn push(&self, mut entry: LogEntry) {
        let mut ring = self.0.lock();
        entry.sequence = ring.next_sequence;
        ring.next_sequence += 1;
        if ring.entries.len() == limits::LOG_ENTRIES {
            ring.entries.pop_front();
        }
        ring.entries.push_back(entry);
    }

    /// The number of the next entry.
    pub(super) fn next_sequence(&self) -> u64 {
        self.0.lock().next_sequence
    }

    /// At most `limit` entries from `since` on, or from the oldest one that is left.
    pub(super) fn page(&self, since: u64, limit: usize) -> Vec<LogEntry> {
        let ring = self.0.lock();
        let first = ring.entries.partition_point(|entry| entry.sequence < since);
        ring.entries.range(first..).take(limit.min(limits::LOG_PAGE)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let log = RequestLog::default();
        for worker in 0..5 {
            log.push(LogEntry {
                sequence: 0,
                id: String::new(),
                worker,
                rank: 0,
                prompt_tokens: 1,
                cached_tokens: 0,
                oracle_tokens: 0,
                queued_ms: 0.0,
            });
        }
        let page = |since, limit| log.page(since, limit).iter().map(|entry| entry.worker).collect::<Vec<_>>();
        assert_eq!(page(0, 3), [0, 1, 2]);
        assert_eq!(page(3, 3), [3, 4]);
        assert_eq!(page(9, 3), [0; 0]);
    }
}
