//! How workers are chosen: the settings, and the four ways to ask.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cost::{
    Ask, CostFunction, Costs, InFlight, Pass, Prefill, Pressure, Wait, bounded, finite_or_0, number, pace, seconds, weight_or_0,
};
use crate::limits::{PREFILL_TOKENS_PER_S, TOKENS_PER_S_MIN};
use crate::policy::Policy;
use crate::record::{Decision, Record, Scored};
use crate::select::{Blend, Fallback, Gates, Scratch, counted};
use crate::{Candidate, Fleet, Request, Threshold};

/// How workers are chosen. Without state: one value serves any number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Router {
    /// What decides.
    pub policy: Policy,
    /// What computing costs.
    pub prefill: Prefill,
    /// What opening a pass costs.
    pub pass: Pass,
    /// What waiting costs.
    pub wait: Wait,
    /// What scarce memory costs.
    pub pressure: Pressure,
    /// What sharing a batch costs.
    pub in_flight: InFlight,
    /// Prompt tokens that a worker can compute in a second at least; more is believed when it was measured.
    pub tokens_per_s: f64,
    /// When affinity steps back under `cache-aware`.
    pub gates: Gates,
    /// What waiting is worth under `blend`.
    pub blend: Blend,
    /// How far choices stray from the best, under `cache-aware` and `blend`; 0 is strict. See [`soften`](crate::select::soften).
    pub temperature: f64,
    /// Workers with this many requests in their queue get no more. Off by default.
    pub max_waiting: Threshold,
    /// Refuse a request that only overloaded workers could take, instead of giving it to the least loaded of them.
    pub shed_overloaded: bool,
}

/// Who was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Its place among the candidates.
    pub index: usize,
    /// The chosen candidate's [`worker`](Candidate::worker).
    pub worker: u32,
    /// What it will reuse of the prompt, in tokens, as far as that is known.
    pub overlap_tokens: u64,
    /// The most that anyone who may be chosen would reuse: what affinity alone could have had.
    pub best_overlap_tokens: u64,
    /// What the chosen one costs, under the policies that look at costs.
    pub costs: Costs,
    /// What it costs more than the cheapest one, in seconds: of affinity's gates, of a temperature, of chance.
    pub regret_s: f64,
    /// Which of the policy's rules decided.
    pub branch: Branch,
}

/// Which rule of a policy decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Branch {
    /// Somebody with a part of the prompt.
    Hit,
    /// Nobody who may be chosen has any of it.
    Miss,
    /// Somebody has, and all of these have too much to do.
    Spill,
    /// Memory is short somewhere, so affinity did not count.
    MemoryShort,
    /// The session's worker.
    Home,
    /// The policy looks at load only, or at nothing.
    Load,
    /// The last resort: nobody may be chosen.
    Fallback(Fallback),
}

/// Nobody can be chosen. Each cause has its own remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoCandidate {
    /// There is nobody at all.
    #[error("the pool is empty")]
    EmptyPool,
    /// All are unhealthy, or their breakers are open.
    #[error("none of {candidates} candidates is ready")]
    NoneReady {
        /// How many there are.
        candidates: usize,
    },
    /// All that could serve are overloaded, and overload is shed. Another try is no better and makes it worse: its client is told to
    /// wait [`RETRY_AFTER`](crate::limits::RETRY_AFTER), until there is news of the load.
    #[error("all of {candidates} candidates that are ready are overloaded, and overload is shed")]
    Shed {
        /// How many there are.
        candidates: usize,
    },
    /// All that may be chosen have as many requests in their queues as they may have.
    #[error("the queues of all of {candidates} candidates that may be chosen are full")]
    QueuesFull {
        /// How many there are.
        candidates: usize,
    },
}

impl NoCandidate {
    /// Whether the same request may be tried again at once, by whoever tries.
    pub const fn is_retryable(self) -> bool {
        !matches!(self, Self::Shed { .. })
    }
}

impl Default for Router {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            prefill: Prefill::default(),
            pass: Pass::default(),
            wait: Wait::default(),
            pressure: Pressure::default(),
            in_flight: InFlight::default(),
            tokens_per_s: PREFILL_TOKENS_PER_S,
            gates: Gates::default(),
            blend: Blend::default(),
            temperature: 0.0,
            max_waiting: Threshold::Off,
            shed_overloaded: false,
        }
    }
}

impl Router {
    /// A router of one policy with default costs.
    pub fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Chooses one of the candidates and allocates nothing once `scratch` has grown. The same arguments give the same answer.
    ///
    /// # Errors
    /// [`NoCandidate`].
    pub fn choose(
        &self,
        request: Request,
        candidates: &[Candidate],
        seed: u64,
        scratch: &mut Scratch,
    ) -> Result<Choice, NoCandidate> {
        let ask = self.ask(request, self.fleet(candidates), candidates);
        self.choose_among(&ask, candidates, &|_| 0.0, seed, scratch)
    }

    /// Chooses one of the candidates, and keeps what it was chosen from.
    ///
    /// # Errors
    /// [`NoCandidate`].
    pub fn decide(&self, request: Request, candidates: &[Candidate], seed: u64) -> Result<Decision, NoCandidate> {
        self.decide_with(request, candidates, &[], seed)
    }

    /// Like [`decide`](Self::decide), with cost functions of the caller's own. What they said is kept, so the record is decided
    /// again without them.
    ///
    /// # Errors
    /// [`NoCandidate`].
    pub fn decide_with(
        &self,
        request: Request,
        candidates: &[Candidate],
        own: &[&dyn CostFunction],
        seed: u64,
    ) -> Result<Decision, NoCandidate> {
        let ask = self.ask(request, self.fleet(candidates), candidates);
        let own_s: Vec<f64> = candidates
            .iter()
            .map(|each| own.iter().map(|cost| finite_or_0(cost.cost_s(&ask, each))).sum())
            .map(bounded)
            .collect();
        let choice = self.choose_among(&ask, candidates, &|place| own_s[place], seed, &mut Scratch::new())?;
        let record = self.record(&ask, candidates, &|place| own_s[place], seed, &choice);
        Ok(Decision { choice, record: Record { own: own.iter().map(|cost| cost.name().into()).collect(), ..record } })
    }

    /// What the candidates that may be chosen have in common.
    pub fn fleet(&self, candidates: &[Candidate]) -> Fleet {
        let (mut eligible, mut in_flight, mut rates, mut rate_sum) = (0u32, 0u64, 0u32, 0.0);
        let counts = counted(candidates);
        for candidate in candidates.iter().filter(|candidate| counts(candidate)) {
            eligible += 1;
            in_flight += u64::from(candidate.load.in_flight);
            if let Some(rate) = candidate.load.live_rate() {
                rates += 1;
                rate_sum += rate;
            }
        }
        self.fleet_of(eligible, in_flight, rates, rate_sum, candidates)
    }

    /// The fleet of these sums, and of the queues of `candidates`.
    pub(crate) fn fleet_of(&self, eligible: u32, in_flight: u64, rates: u32, rate_sum: f64, candidates: &[Candidate]) -> Fleet {
        let in_flight_mean = if eligible == 0 { 0.0 } else { number(in_flight) / f64::from(eligible) };
        // A fleet that is asked for little measures little; the setting is what a worker can do at least.
        let measured = if rates == 0 { 0.0 } else { rate_sum / f64::from(rates) };
        let tokens_per_s = measured.max(self.tokens_per_s).clamp(TOKENS_PER_S_MIN, f64::MAX);
        let fleet = Fleet { eligible, in_flight_mean, tokens_per_s, least_wait_s: None };
        if candidates.iter().all(|candidate| candidate.load.reported) {
            return fleet;
        }
        let ask = Ask { fleet, ..Ask::default() };
        let counts = counted(candidates);
        let reporting = candidates.iter().filter(|candidate| candidate.load.reported && counts(candidate));
        let least_wait_s = reporting.map(|candidate| self.wait.queue_s(&ask, candidate)).reduce(f64::min);
        Fleet { least_wait_s: least_wait_s.filter(|wait_s| wait_s.is_finite()), ..fleet }
    }

    /// What is asked of every candidate.
    pub(crate) fn ask(&self, request: Request, fleet: Fleet, candidates: &[Candidate]) -> Ask {
        let counts = counted(candidates);
        let counted = candidates.iter().filter(|candidate| self.policy == Policy::Blend && counts(candidate));
        let credits = counted.map(|candidate| self.prefill.credit_tokens(&request, candidate));
        Ask { request, fleet, best_credit_tokens: credits.fold(0.0, f64::max) }
    }

    /// What `candidate` costs under this router's policy. Inlined, so that what is the same for all is worked out once.
    #[inline]
    pub(crate) fn costs(&self, ask: &Ask, candidate: &Candidate, own_s: f64) -> Costs {
        if !self.policy.looks_at_costs() {
            return Costs::default();
        }
        let wait_s = bounded(self.wait.cost_s(ask, candidate));
        let costs = Costs {
            prefill_s: 0.0,
            pass_s: bounded(self.pass.cost_s(ask, candidate)),
            wait_s,
            pressure_s: bounded(self.pressure.cost_s(ask, candidate)),
            in_flight_s: bounded(self.in_flight.cost_s(ask, candidate)),
            handicap_s: finite_or_0(f64::from(candidate.overrides.handicap_s)),
            own_s,
        };
        if self.policy != Policy::Blend {
            return costs;
        }
        let saved_s = seconds(ask.best_credit_tokens, pace(ask, candidate));
        let prefill_s = bounded(self.prefill.cost_s(ask, candidate));
        Costs { prefill_s, wait_s: bounded(self.blend.price_s(wait_s, saved_s)), ..costs }
    }

    /// Everything that a decision was made from.
    pub(crate) fn record(
        &self,
        ask: &Ask,
        candidates: &[Candidate],
        own_s: &dyn Fn(usize) -> f64,
        seed: u64,
        choice: &Choice,
    ) -> Record {
        let scored = candidates.iter().enumerate().map(|(place, candidate)| Scored {
            candidate: candidate.storable(),
            credit_tokens: self.prefill.credit_tokens(&ask.request, candidate),
            out_of_line: self.gates.is_out_of_line(&ask.fleet, candidate),
            costs: self.costs(ask, candidate, own_s(place)),
        });
        Record { router: self.storable(), ask: *ask, seed, choice: *choice, own: Vec::new(), scored: scored.collect() }
    }

    /// The same router for every decision, in numbers that every format can store: a weight that is no number counts as 0 anyway.
    fn storable(&self) -> Self {
        let mut stored = *self;
        let Self { prefill, pass, wait, pressure, in_flight, blend, .. } = &mut stored;
        let weights = [
            &mut prefill.host_weight,
            &mut prefill.disk_weight,
            &mut prefill.predicted_weight,
            &mut prefill.degraded_weight,
            &mut pass.tokens,
            &mut wait.waiting_tokens,
            &mut pressure.weight_s,
            &mut in_flight.each_s,
            &mut in_flight.kept_weight,
            &mut blend.wait_weight,
            &mut blend.patience_savings,
            &mut blend.patience_s,
        ];
        weights.into_iter().for_each(|weight| *weight = weight_or_0(*weight));
        let Gates { balance_rel, balance_abs, kv_usage, kv_usage_spread } = &mut stored.gates;
        let thresholds = [balance_rel, balance_abs, kv_usage, kv_usage_spread, &mut stored.max_waiting];
        thresholds.into_iter().for_each(|threshold| *threshold = threshold.storable());
        let rate = stored.tokens_per_s;
        stored.tokens_per_s = if rate.is_nan() { TOKENS_PER_S_MIN } else { rate.clamp(TOKENS_PER_S_MIN, f64::MAX) };
        stored.temperature = if stored.temperature > 0.0 { stored.temperature.min(f64::MAX) } else { 0.0 };
        stored
    }
}
