//! What engines say they reused, held against the index, for the whole fleet.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kv_routing::audit::{Answer, Audit, AuditCounts, Output, State};
use parking_lot::Mutex;

/// The audit, shared. Each call takes a lock for less than a microsecond, and none is held while anything is waited for. While all
/// indexes are sound, which is nearly always, decisions take none.
#[derive(Debug, Default)]
pub(crate) struct Auditor {
    state: Mutex<Audited>,
    /// Some worker's index is not sound.
    any_drifts: AtomicBool,
}

#[derive(Debug, Default)]
struct Audited {
    audit: Audit,
    drifting: BTreeSet<u32>,
}

impl Auditor {
    /// Weighs an answer. Returns the workers that are to be learned anew.
    pub(super) fn weigh(&self, now: Duration, worker: u32, answer: Answer) -> Vec<u32> {
        self.change(|audit| audit.handle_answer(now, worker, answer))
    }

    /// What is due again.
    pub(super) fn due(&self, now: Duration) -> Vec<u32> {
        self.change(|audit| audit.handle_timeout(now))
    }

    /// The worker was learned anew.
    pub(super) fn relearned(&self, now: Duration, worker: u32) {
        self.change(|audit| audit.handle_relearned(now, worker));
    }

    pub(super) fn state(&self, worker: u32) -> State {
        if self.any_drifts() { self.state.lock().audit.state(worker) } else { State::Sound }
    }

    pub(super) fn credit_tokens(&self, worker: u32, prompt_tokens: u64, indexed_tokens: u64) -> u64 {
        if self.any_drifts() { self.state.lock().audit.credit_tokens(worker, prompt_tokens, indexed_tokens) } else { 0 }
    }

    pub(crate) fn counts(&self) -> AuditCounts {
        self.state.lock().audit.counts()
    }

    fn any_drifts(&self) -> bool {
        // Relaxed: a decision made a moment earlier would have seen the older value too.
        self.any_drifts.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut Audit)) -> Vec<u32> {
        let mut state = self.state.lock();
        change(&mut state.audit);
        let anew = state.demands();
        self.any_drifts.store(!state.drifting.is_empty(), Ordering::Relaxed);
        anew
    }
}

impl Audited {
    /// Takes note of who drifts, and returns who is to be learned anew.
    fn demands(&mut self) -> Vec<u32> {
        let mut anew = Vec::new();
        while let Some(output) = self.audit.poll_output() {
            match output {
                Output::Degrade { worker } => {
                    tracing::warn!(worker, "reuses less than its index says: its overlap is discounted");
                    self.drifting.insert(worker);
                }
                Output::Credit { worker } => {
                    tracing::info!(worker, "reuses more than its index says: it is credited with it");
                    self.drifting.insert(worker);
                }
                Output::Restore { worker } => {
                    tracing::info!(worker, "reuses what its index says, or was learned anew");
                    self.drifting.remove(&worker);
                }
                Output::Relearn { worker } => anew.push(worker),
            }
        }
        anew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_less_is_to_be_learned_anew_at_once_and_again_if_that_did_not_help() {
        let auditor = Auditor::default();
        let answer = Answer { prompt_tokens: 100, indexed_tokens: 96, booked_tokens: 0, cached_tokens: 0 };
        let demands: Vec<Vec<u32>> = (0..4).map(|_| auditor.weigh(Duration::ZERO, 7, answer)).collect();
        assert_eq!(demands, [vec![], vec![], vec![7], vec![]]);
        assert_eq!(auditor.state(7), State::HoldsLess);
        assert!(auditor.due(Duration::from_secs(29)).is_empty());
        assert_eq!(auditor.due(Duration::from_secs(31)), [7]);
        auditor.relearned(Duration::from_secs(32), 7);
        assert_eq!((auditor.state(7), auditor.counts().less), (State::Sound, 4));
    }
}
