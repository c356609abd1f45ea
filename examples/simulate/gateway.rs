//! One gateway: the library's parts, driven as a real one drives them.
//!
//! | what happens | who is told |
//! |---|---|
//! | a request comes | index, predictions and audit say what each engine would reuse; ledger, vitals and thresholds how busy it is; warm-up is asked first, then the contender |
//! | it is sent | a [`Dispatch`] books it everywhere |
//! | a token comes, or the last one | the dispatch; the audit hears what the engine says it reused |
//! | a load report | ledger and tracker |
//! | a quarter of a second is over | the tracker sweeps, warm-up hears the index's sizes |

use std::time::Duration;

use kv_index::{ChainIndex, Index, View, WorkerId};
use kv_routing::accounting::{Dispatch, Outcomes, Predictions, Site};
use kv_routing::audit::{Answer, Audit, Output};
use kv_routing::liveness::{Contact, Handle, Options as LifeOptions, Report as LifeReport, Tracker};
use kv_routing::load::{Ledger, Options as LoadOptions, Sample};
use kv_routing::overload::Thresholds;
use kv_routing::warmup::{Options as WarmthOptions, Warmup};

use super::contender::{Contender, Part};
use super::placing::Memory;

/// A gateway: its books, and the reports that it has.
pub(super) struct Gateway {
    pub(super) members: Vec<Member>,
    pub(super) warmup: Warmup,
    pub(super) audit: Audit,
    pub(super) thresholds: Thresholds,
    pub(super) block_size: usize,
    pub(super) memory: Memory,
    tracker: Tracker,
    audits: bool,
}

/// One engine, as the gateway knows it.
pub(super) struct Member {
    pub(super) site: Site,
    /// The audit found that it holds less than its index says.
    pub(super) degraded: bool,
    /// What requests in flight add to its memory, in tokens: what they share is there once.
    pub(super) kept_tokens: u64,
    /// Blocks of the whole prompts and answers in flight.
    pub(super) kept_blocks: u64,
    handle: Handle,
}

/// A request on its way. Its drop takes back what its dispatch booked.
pub(super) struct Placed {
    pub(super) engine: usize,
    pub(super) dispatch: Dispatch,
    /// What the audit is told of it, but for what only the engine knows.
    pub(super) expected: Answer,
    pub(super) kept_tokens: u64,
    pub(super) kept_blocks: u64,
}

/// What an engine reports, as vLLM's metrics have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) running: usize,
    pub(super) waiting: usize,
    pub(super) usage: f64,
}

impl Gateway {
    pub(super) fn new(engines: usize, block_size: usize, contender: &Contender) -> Self {
        let mut tracker = Tracker::new(LifeOptions::default());
        let mut warmup = Warmup::new(WarmthOptions::default());
        let predictions = contender.uses(Part::Predictions).then(Predictions::new);
        let workers = 0..u32::try_from(engines).unwrap_or(u32::MAX);
        let members = workers.map(|worker| {
            warmup.handle_admitted(Duration::ZERO, worker);
            Member::new(worker, &mut tracker, predictions.clone())
        });
        Self {
            members: members.collect(),
            warmup,
            audit: Audit::new(),
            thresholds: Thresholds::default(),
            block_size,
            memory: Memory::default(),
            tracker,
            audits: contender.uses(Part::Audit),
        }
    }

    /// A token of a placed request came.
    pub(super) fn token(now: Duration, placed: &mut Placed) {
        placed.dispatch.chunk(now);
    }

    /// The answer is complete, and says how much of the prompt was cached.
    pub(super) fn done(&mut self, now: Duration, placed: Placed, cached_tokens: usize) {
        let Placed { engine, dispatch, expected, kept_tokens, kept_blocks } = placed;
        dispatch.complete(now);
        let member = &mut self.members[engine];
        member.kept_tokens -= kept_tokens;
        member.kept_blocks -= kept_blocks;
        if self.audits {
            let worker = member.site.worker;
            self.audit.handle_answer(now, worker, Answer { cached_tokens: cached_tokens as u64, ..expected });
            self.heed_audit(now);
        }
    }

    /// Does what the audit wants. Learning anew takes a relay's snapshot some milliseconds; here it takes none.
    fn heed_audit(&mut self, now: Duration) {
        while let Some(output) = self.audit.poll_output() {
            match output {
                Output::Degrade { worker } => self.members[worker as usize].degraded = true,
                Output::Restore { worker } => self.members[worker as usize].degraded = false,
                Output::Relearn { worker } => self.audit.handle_relearned(now, worker),
                // The credit is asked for with every placement.
                Output::Credit { .. } => {}
            }
        }
    }

    /// Events of an engine's cache came.
    pub(super) fn heard(&mut self, now: Duration, engine: usize) {
        self.tracker.handle_contact(now, self.members[engine].handle, Contact::Traffic);
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of requests")]
    pub(super) fn report(&mut self, now: Duration, engine: usize, report: Report) {
        let Report { running, waiting, usage } = report;
        let member = &self.members[engine];
        let values = Sample { running: running as f64, waiting: waiting as f64, kv_usage: Some(usage), ..Sample::polled(now) };
        // A sample of the same moment says nothing new.
        _ = member.site.ledger.handle_sample(now, 0, &values);
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let report = LifeReport { running: count(running), waiting: count(waiting), ..LifeReport::default() };
        self.tracker.handle_load_report(now, member.handle, &report);
    }

    /// A quarter of a second is over.
    pub(super) fn sweep(&mut self, now: Duration, index: &ChainIndex) {
        self.tracker.handle_timeout(now);
        while let Some(transition) = self.tracker.poll_transition() {
            let place = self.members.iter().position(|member| member.handle == transition.worker);
            if let Some(place) = place.filter(|_| transition.readmits()) {
                self.warmup.handle_admitted(now, self.members[place].site.worker);
            }
        }
        self.audit.handle_timeout(now);
        self.heed_audit(now);
        if self.warmup.next_timeout().is_some_and(|due| due <= now) {
            let size = |worker: u32| (worker, index.digest(WorkerId(worker), View::MAIN).count);
            self.warmup.handle_sizes(now, self.members.iter().map(|member| size(member.site.worker)));
        }
    }
}

impl Member {
    fn new(worker: u32, tracker: &mut Tracker, predictions: Option<Predictions>) -> Self {
        let handle = tracker.add_worker(Duration::ZERO).expect("a scene has few engines");
        let vitals = tracker.vitals(handle).expect("it was added just now");
        let (ledger, outcomes) = (Ledger::new(LoadOptions::default()), Outcomes::default());
        let site = Site { worker, rank: 0, vitals, ledger, predictions, outcomes };
        Self { site, degraded: false, kept_tokens: 0, kept_blocks: 0, handle }
    }
}
