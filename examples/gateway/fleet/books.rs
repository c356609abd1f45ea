//! What one rank is booked for, what it says of its load, and what its answers say of its index.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kv_events::relay::LoadSample;
use kv_routing::accounting::{Dispatch, Outcomes, Predictions, PrefixKeys, Site};
use kv_routing::adapter::tokio::{Pulse, Watch};
use kv_routing::liveness::Task;
use kv_routing::load::{self, Ledger, LoadCounts, View, wire};
use kv_routing::overload::Thresholds;

use super::auditor::Auditor;
use super::kept::{Kept, KeptTokens};
use crate::gateway::settings::{DecisionSettings, EngineSpec};

/// What the books of all ranks of a fleet have in common.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(super) watch: Watch,
    /// Where prompts are expected that no event has announced yet. Prefixes are named by content, so one table serves all ways of cutting.
    pub(crate) predictions: Option<Predictions>,
    pub(crate) outcomes: Outcomes,
    pub(crate) auditor: Arc<Auditor>,
    loads: load::Options,
    thresholds: Thresholds,
    sheds: bool,
}

/// The books of one rank.
#[derive(Debug)]
pub(crate) struct Books {
    site: Site,
    kept: KeptTokens,
    auditor: Arc<Auditor>,
    watch: Watch,
    thresholds: Thresholds,
    /// Too much turns requests away, instead of only steering them.
    sheds: bool,
    /// How often the index of the rank was begun anew. What was expected of an earlier one says nothing of this one.
    era: AtomicU64,
    /// The audit wants the rank to be learned anew.
    is_wanted_anew: AtomicBool,
}

impl Common {
    pub(super) fn new(watch: Watch, settings: &DecisionSettings) -> Self {
        Self {
            watch,
            predictions: settings.predict_for.map(Predictions::lasting),
            outcomes: Outcomes::default(),
            auditor: Arc::default(),
            loads: settings.loads(),
            thresholds: settings.overload,
            sheds: settings.shed,
        }
    }

    /// The books of the fleet's `worker`, the `rank`th one of the engine of `spec`.
    pub(super) fn books(&self, worker: u32, rank: u32, spec: &EngineSpec, pulse: &Pulse) -> Books {
        let site = Site {
            worker,
            // Ledgers refuse ranks that are out of their range, and count that.
            rank: u16::try_from(rank).unwrap_or(u16::MAX),
            vitals: pulse.vitals().clone(),
            ledger: Ledger::new(self.loads),
            predictions: self.predictions.clone(),
            outcomes: self.outcomes.clone(),
        };
        Books {
            site,
            kept: KeptTokens::default(),
            auditor: self.auditor.clone(),
            watch: self.watch.clone(),
            thresholds: self.thresholds.with(&spec.overload),
            sheds: self.sheds,
            era: AtomicU64::new(0),
            is_wanted_anew: AtomicBool::new(false),
        }
    }
}

impl Books {
    /// Books a request that has to compute `prefill_tokens`, will answer with about `answer_tokens`, and will leave the prefixes of `keys`
    /// behind. What it shares with others is in the rank's memory once, and theirs.
    pub(super) fn book(&self, prefill_tokens: u64, answer_tokens: u64, is_streamed: bool, keys: &PrefixKeys) -> (Dispatch, Kept) {
        let task = if is_streamed { Task::streamed(prefill_tokens) } else { Task::whole(prefill_tokens) };
        (self.site.dispatch(self.now(), task, keys), self.kept.keep(prefill_tokens.saturating_add(answer_tokens)))
    }

    /// How busy the rank is. Takes no lock.
    pub(crate) fn view(&self) -> View {
        self.site.ledger.view(self.now())
    }

    /// The same as decisions read it.
    pub(crate) fn load(&self, view: &View) -> kv_routing::Load {
        let load = view.load(self.site.vitals.prefill_tokens_per_s());
        kv_routing::Load { kept_tokens: self.kept.value(), ..load }
    }

    /// Whether the rank has too much by its own account. What only steers is believed for a moment; what turns requests away, until there
    /// is news, for which their clients are told to wait.
    pub(crate) fn is_overloaded(&self, view: &View) -> bool {
        if self.sheds { self.thresholds.is_overloaded(view) } else { self.thresholds.is_overloaded_at(self.now(), view) }
    }

    /// What became of the rank's samples.
    pub(crate) fn load_counts(&self) -> LoadCounts {
        self.site.ledger.counts()
    }

    /// Where the rank's loads go.
    pub(super) fn ledger(&self) -> &Ledger {
        &self.site.ledger
    }

    /// The rank within its engine, as loads call it.
    pub(super) fn rank(&self) -> u16 {
        self.site.rank
    }

    /// The relay's record came. A refused one is counted by the ledger, and no fault of anybody here.
    pub(super) fn pushed(&self, record: &LoadSample) {
        let now = self.now();
        // The wire tells no age; what is sent is sent when it changes.
        if let Err(refusal) = self.site.ledger.handle_sample(now, self.site.rank, &wire::record(record, now, Duration::ZERO)) {
            tracing::debug!(worker = self.site.worker, %refusal, "a load was refused");
        }
    }

    /// What the audit thinks of the rank's index.
    pub(crate) fn drift(&self) -> kv_routing::audit::State {
        self.auditor.state(self.site.worker)
    }

    /// What the rank will reuse beyond what its index says, by what it did reuse.
    pub(crate) fn credit_tokens(&self, prompt_tokens: u64, indexed_tokens: u64) -> u64 {
        self.auditor.credit_tokens(self.site.worker, prompt_tokens, indexed_tokens)
    }

    /// How requests ended, over the fleet.
    #[cfg(test)]
    pub(super) fn outcomes(&self) -> &Outcomes {
        &self.site.outcomes
    }

    #[cfg(test)]
    pub(super) fn predictions(&self) -> Option<&Predictions> {
        self.site.predictions.as_ref()
    }

    pub(super) fn auditor(&self) -> &Auditor {
        &self.auditor
    }

    pub(crate) fn now(&self) -> Duration {
        self.watch.clock().now()
    }

    pub(super) fn era(&self) -> u64 {
        self.era.load(Ordering::Relaxed)
    }

    /// The rank's index was begun anew for the `era`th time, and holds again what was learned. True the first time.
    pub(super) fn begins_era(&self, era: u64) -> bool {
        let is_new = self.era.swap(era, Ordering::Relaxed) != era;
        if is_new {
            self.auditor.relearned(self.now(), self.site.worker);
            if let Some(predictions) = &self.site.predictions {
                predictions.forget(self.site.worker);
            }
        }
        is_new
    }

    /// The audit wants the rank to be learned anew. Its feed takes the wish.
    pub(super) fn want_anew(&self) {
        self.is_wanted_anew.store(true, Ordering::Relaxed);
    }

    pub(super) fn take_wish(&self) -> bool {
        self.is_wanted_anew.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use kv_events::relay::LoadCore;
    use kv_routing::limits::OVERLOAD_BELIEVED_FOR;
    use kv_routing::liveness::Options;

    use super::*;

    fn books(engine: &str) -> Books {
        books_by(&DecisionSettings::default(), engine)
    }

    fn books_by(settings: &DecisionSettings, engine: &str) -> Books {
        let common = Common::new(Watch::new(Options::default()), settings);
        let pulse = common.watch.enlist().unwrap();
        common.books(3, 1, &engine.parse().unwrap(), &pulse)
    }

    fn record(sample: u64, waiting: u32) -> LoadSample {
        LoadSample { core: LoadCore { waiting, queued_tokens: 70, ..LoadCore::default() }, telemetry: None, sample }
    }

    #[test]
    fn an_engine_s_own_thresholds_win() {
        let view = View { waiting: 9, sampled_at: Some(Duration::ZERO), ..View::default() };
        let overloaded = |engine| books(engine).is_overloaded(&view);
        let expected =
            [("http://h:1", true), ("http://h:1,overload-waiting=9", false), ("http://h:1,overload-waiting=off", false)];
        expected.into_iter().for_each(|(engine, expected)| assert_eq!(overloaded(engine), expected, "{engine}"));
    }

    // An old account sends everybody to the others until these are worse off, and with polls every 10 s most accounts are old.
    #[tokio::test(start_paused = true)]
    async fn an_old_account_of_too_much_turns_requests_away_and_steers_none() {
        let shedding = DecisionSettings { shed: true, ..DecisionSettings::default() };
        for (settings, later) in [(DecisionSettings::default(), false), (shedding, true)] {
            let books = books_by(&settings, "http://h:1");
            books.pushed(&record(0, 9));
            tokio::time::advance(OVERLOAD_BELIEVED_FOR).await;
            assert!(books.is_overloaded(&books.view()));
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(books.view().is_reported());
            assert_eq!(books.is_overloaded(&books.view()), later);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_pushed_need_not_be_asked_for_and_counts_once() {
        let (books, interval) = (books("http://h:1"), Duration::from_secs(10));
        let wants_poll = || books.ledger().wants_poll(books.now(), interval);
        assert!(wants_poll());
        let _under_way = books.book(50, 0, true, &PrefixKeys::default());
        tokio::time::advance(Duration::from_secs(1)).await;
        books.pushed(&record(0, 4));
        books.pushed(&record(0, 4));
        assert!(!wants_poll());
        assert_eq!((books.view().waiting, books.load_counts().accepted), (4, 1));
        assert_eq!(books.view().queued_tokens, 70, "the record knows of the request that was sent to the rank");
    }
}
