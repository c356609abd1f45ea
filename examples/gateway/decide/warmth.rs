//! Ranks that came, came back or lost their cache, and what keeps the list of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kv_routing::warmup::{Choice, Options, Question, Warmup};
use tokio::time::sleep;

use crate::gateway::app::App;
use crate::gateway::limits::KEEP_EVERY;

/// Who is to be warmed. Ranks without events have no size, and are no part of it.
#[derive(Debug)]
pub(crate) struct Warmth {
    warmup: Warmup,
    members: BTreeSet<u32>,
    /// Those that could serve when it was looked last.
    serving: BTreeSet<u32>,
    /// Somebody is neither thin nor young: while all are alike, nobody is warmed.
    any_is_settled: bool,
}

/// One rank, as it is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    worker: u32,
    /// Its engine answers.
    is_up: bool,
    /// And it is not vetoed.
    serves: bool,
    blocks: u64,
}

/// Looks every second at how much the index holds of each rank, until the task is aborted, and has repairs asked for again.
pub(crate) async fn keep(app: Arc<App>) {
    loop {
        sleep(KEEP_EVERY).await;
        app.fleet.keep_audited();
        if let Some(warmth) = app.decider.steering.warmth() {
            // Before the lock: decisions wait for it.
            let sizes = sizes(&app);
            warmth.lock().measure(app.fleet.life().clock().now(), &sizes);
        }
    }
}

fn sizes(app: &App) -> Vec<Size> {
    let with_events = app.fleet.engines().iter().filter(|engine| engine.spec().events.is_some());
    let ranks = with_events.flat_map(|engine| engine.ranks().iter().map(move |rank| (engine.is_ready(), rank)));
    let size = |(is_up, rank): (bool, &crate::gateway::fleet::Rank)| Size {
        worker: rank.worker,
        is_up,
        serves: is_up && rank.pulse.veto().is_none(),
        blocks: app.blocks(&rank.stream()),
    };
    ranks.map(size).collect()
}

impl Warmth {
    pub(super) fn new(options: Options) -> Self {
        Self { warmup: Warmup::new(options), members: BTreeSet::new(), serving: BTreeSet::new(), any_is_settled: false }
    }

    pub(super) fn choose(
        &mut self,
        now: Duration,
        question: Question,
        in_flight: impl Fn(u32) -> Option<u32>,
        seed: u64,
    ) -> Option<Choice> {
        self.warmup.choose(now, question, in_flight, seed)
    }

    /// Takes note of who came, came back and went, and of what each holds.
    pub(super) fn measure(&mut self, now: Duration, sizes: &[Size]) {
        for size in sizes {
            if !size.is_up && self.members.remove(&size.worker) {
                self.warmup.handle_removed(size.worker);
            }
            let served = self.serving.remove(&size.worker);
            if size.serves {
                self.serving.insert(size.worker);
                if !served {
                    self.members.insert(size.worker);
                    self.warmup.handle_admitted(now, size.worker);
                }
            }
        }
        let members = sizes.iter().filter(|size| self.members.contains(&size.worker));
        self.warmup.handle_sizes(now, members.map(|size| (size.worker, size.blocks)));
        self.any_is_settled = self.members.iter().any(|worker| !self.warmup.is_warming(now, *worker));
    }

    /// Why the rank gets more than its due, in a word.
    pub(crate) fn word(&self, now: Duration, worker: u32) -> Option<&'static str> {
        match () {
            () if self.is_thin(worker) => Some("thin"),
            () if self.any_is_settled && self.is_warming(now, worker) => Some("young"),
            () => None,
        }
    }

    pub(crate) fn is_thin(&self, worker: u32) -> bool {
        self.warmup.is_thin(worker)
    }

    pub(crate) fn is_warming(&self, now: Duration, worker: u32) -> bool {
        self.warmup.is_warming(now, worker)
    }

    /// The upper median of sizes, in blocks.
    pub(crate) fn level(&self) -> u64 {
        self.warmup.level()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn size(worker: u32, blocks: u64) -> Size {
        Size { worker, is_up: true, serves: true, blocks }
    }

    #[test]
    fn an_emptied_rank_is_thin_until_it_has_half_of_what_others_have() {
        let mut warmth = Warmth::new(Options::default());
        let full = [size(0, 5_000), size(1, 6_000), size(2, 5_500)];
        warmth.measure(Duration::ZERO, &full);
        assert_eq!((warmth.level(), warmth.is_thin(1)), (5_500, false));
        warmth.measure(MINUTE, &[size(0, 5_000), size(1, 0), size(2, 5_500)]);
        assert!(warmth.is_thin(1) && warmth.is_warming(MINUTE, 1));
        assert_eq!([0, 1].map(|worker| warmth.word(MINUTE, worker)), [None, Some("thin")]);
        let hit = Question { best_blocks: 10, request_blocks: 20 };
        let choices = (0..8).filter_map(|seed| warmth.choose(MINUTE, hit, |_| Some(0), seed)).map(|choice| choice.worker);
        assert_eq!(choices.collect::<Vec<_>>(), [1]);
        warmth.measure(2 * MINUTE, &[size(0, 5_000), size(1, 2_600), size(2, 5_500)]);
        assert!(!warmth.is_thin(1));
    }

    #[test]
    fn who_comes_back_is_young_again_and_who_is_down_is_not_measured() {
        let mut warmth = Warmth::new(Options::default());
        let sizes = |first: Size| [first, size(1, 5_000), size(2, 5_000)];
        warmth.measure(Duration::ZERO, &sizes(size(0, 5_000)));
        assert_eq!(warmth.word(Duration::ZERO, 0), None, "all are young");
        warmth.measure(2 * MINUTE, &sizes(size(0, 5_000)));
        assert!(!warmth.is_warming(2 * MINUTE, 0), "its time is over");
        warmth.measure(3 * MINUTE, &sizes(Size { serves: false, ..size(0, 5_000) }));
        warmth.measure(3 * MINUTE, &sizes(size(0, 5_000)));
        assert!(warmth.is_warming(3 * MINUTE, 0) && !warmth.is_warming(3 * MINUTE, 1), "its veto ended");
        assert_eq!([0, 1].map(|worker| warmth.word(3 * MINUTE, worker)), [Some("young"), None]);
        warmth.measure(4 * MINUTE, &sizes(Size { is_up: false, serves: false, ..size(0, 0) }));
        assert!(!warmth.is_thin(0) && !warmth.is_warming(4 * MINUTE, 0), "nobody can warm it");
    }
}
