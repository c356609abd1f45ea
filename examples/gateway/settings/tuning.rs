//! How decisions are made: the options, which are the keys of the file's `[decision]` table too, and what they come to.

use std::num::NonZeroU32;
use std::time::Duration;

use axum::http::HeaderName;
use clap::Args;
use kv_routing::limits::{PREDICTION_TTL, RETRY_AFTER};
use kv_routing::overload::Thresholds;
use kv_routing::select::Gates;
use kv_routing::{Policy, Router, Threshold, load, warmup};
use serde::Deserialize;

use super::{Header, Limit, Measure, Seconds, Share};
use crate::gateway::limits::{LOAD_EVERY, SESSION_FOR};

/// What may be said of decisions. What is not said is as [`DecisionSettings::default`].
#[derive(Clone, Debug, Default, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Decisions (in the file: the table [decision])")]
pub struct Tuning {
    /// How often an engine that pushes no load is asked for it (/metrics, or SGLang's /v1/loads), in seconds; 0: never [default: 1]
    #[arg(long, value_name = "SECONDS")]
    pub load_interval: Option<Seconds>,

    /// How long a prompt without a first token makes its siblings follow it, in seconds; 0: not at all [default: 60]
    ///
    /// No event tells of a prompt before it is computed. Until then, requests with the same prefix are expected to find it where the
    /// first one was sent. It ends with the request's failure, or one second after its first token, when the events are there; the time
    /// is for requests of which nothing is ever heard, as long as a client waits for a first token.
    #[arg(long, value_name = "SECONDS")]
    pub predict_for: Option<Seconds>,

    /// Waiting requests above which a rank gets no more while another can serve, or off [default: 8]
    ///
    /// Judged by loads that are at most a second old: with a longer --load-interval, only for a second after each. With --overload-shed, by
    /// all that count.
    #[arg(long, value_name = "COUNT")]
    pub overload_waiting: Option<Limit>,

    /// The share of the KV cache in use above which a rank gets no more while another can serve, 0 to 1, or off [default: 0.8]
    #[arg(long, value_name = "SHARE")]
    pub overload_kv: Option<Limit>,

    /// No rank is passed over for what it has to do; engines' own thresholds still count
    #[arg(long)]
    pub no_overload_protection: bool,

    /// Answer 503 with Retry-After when all that could serve are overloaded, instead of choosing among them
    #[arg(long)]
    pub overload_shed: bool,

    /// How long a rank is young that came, or came back, in seconds [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub warmup_secs: Option<Seconds>,

    /// The share of requests without a holder that goes to thin and young ranks, 0 to 1; 0 turns warm-up and diversion off [default: 0.25]
    #[arg(long, value_name = "SHARE")]
    pub warmup_share: Option<Share>,

    /// Blocks after which a rank is young no more, and from which on a fleet has thin ones [default: 1024]
    #[arg(long, value_name = "BLOCKS")]
    pub warmup_blocks: Option<u64>,

    /// Who holds less than this share of the fleet's median is thin, 0 to 1; 0 calls nobody so [default: 0.5]
    #[arg(long, value_name = "SHARE")]
    pub warmup_thin_ratio: Option<Share>,

    /// How many requests with a holder go by before one is diverted to a thin rank; 0 diverts none [default: 8]
    #[arg(long, value_name = "COUNT")]
    pub divert_every: Option<u32>,

    /// How far choices stray from the best, for several gateways before one fleet; 0 is strict [default: 0]
    #[arg(long, value_name = "NUMBER")]
    pub temperature: Option<Measure>,

    /// Ranks with so many waiting requests get none at all, or off [default: off]
    #[arg(long, value_name = "COUNT")]
    pub max_waiting: Option<Limit>,

    /// Requests in flight, over the mean, from which cache-aware passes a holder over, or off [default: 1.5]
    #[arg(long, value_name = "TIMES")]
    pub balance_rel: Option<Limit>,

    /// And so many above the mean, both must hold, or off [default: 4]
    #[arg(long, value_name = "COUNT")]
    pub balance_abs: Option<Limit>,

    /// The share of the KV cache in use on one rank above which cache-aware looks at load only, 0 to 1, or off [default: off]
    #[arg(long, value_name = "SHARE")]
    pub kv_gate: Option<Limit>,

    /// The difference between two ranks' shares above which it does, 0 to 1, or off [default: off]
    #[arg(long, value_name = "SHARE")]
    pub kv_spread_gate: Option<Limit>,

    /// Requests with the same value of this header stay with one rank while it may be chosen and its queue is no outlier
    #[arg(long, value_name = "NAME")]
    pub session_header: Option<Header>,

    /// How long after its last request a session is remembered, in seconds [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    pub session_for: Option<Seconds>,
}

/// How decisions are made.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionSettings {
    /// How often engines that push no load are asked for it; never if none.
    pub load_interval: Option<Duration>,
    /// How long placements are predicted that nothing is heard of; not at all if none.
    pub predict_for: Option<Duration>,
    /// When a rank has too much.
    pub overload: Thresholds,
    /// Refuse what only overloaded ranks could take.
    pub shed: bool,
    /// What ranks without a cache get.
    pub warmup: warmup::Options,
    /// How far choices stray from the best.
    pub temperature: f64,
    /// Waiting requests from which a rank gets none at all.
    pub max_waiting: Threshold,
    /// When affinity steps back, under `cache-aware`.
    pub gates: Gates,
    /// The header that names a session.
    pub session_header: Option<HeaderName>,
    /// How long a session is remembered.
    pub session_for: Duration,
}

impl Default for DecisionSettings {
    fn default() -> Self {
        Self {
            load_interval: Some(LOAD_EVERY),
            predict_for: Some(PREDICTION_TTL),
            overload: Thresholds::default(),
            shed: false,
            warmup: warmup::Options::default(),
            temperature: 0.0,
            max_waiting: Threshold::Off,
            gates: Gates { kv_usage: Threshold::Off, kv_usage_spread: Threshold::Off, ..Gates::default() },
            session_header: None,
            session_for: SESSION_FOR,
        }
    }
}

impl DecisionSettings {
    /// The library's settings under `policy`.
    pub(crate) fn router(&self, policy: Policy) -> Router {
        let Self { gates, temperature, max_waiting, shed: shed_overloaded, .. } = *self;
        Router { policy, gates, temperature, max_waiting, shed_overloaded, ..Router::default() }
    }

    /// How long a load counts: over one poll that is late, at least.
    pub(crate) fn loads(&self) -> load::Options {
        let fresh_for = self.load_interval.map_or(Duration::ZERO, |every| every.saturating_mul(3) / 2);
        load::Options { fresh_for: fresh_for.max(load::Options::default().fresh_for) }
    }

    /// What a client is told to wait whose request was shed: until there is news of the load.
    pub(crate) fn retry_after(&self) -> Duration {
        self.load_interval.unwrap_or(RETRY_AFTER)
    }
}

impl Tuning {
    /// These settings where they say something, else those of `other`.
    pub(super) fn over(self, other: Self) -> Self {
        Self {
            load_interval: self.load_interval.or(other.load_interval),
            predict_for: self.predict_for.or(other.predict_for),
            overload_waiting: self.overload_waiting.or(other.overload_waiting),
            overload_kv: self.overload_kv.or(other.overload_kv),
            no_overload_protection: self.no_overload_protection || other.no_overload_protection,
            overload_shed: self.overload_shed || other.overload_shed,
            warmup_secs: self.warmup_secs.or(other.warmup_secs),
            warmup_share: self.warmup_share.or(other.warmup_share),
            warmup_blocks: self.warmup_blocks.or(other.warmup_blocks),
            warmup_thin_ratio: self.warmup_thin_ratio.or(other.warmup_thin_ratio),
            divert_every: self.divert_every.or(other.divert_every),
            temperature: self.temperature.or(other.temperature),
            max_waiting: self.max_waiting.or(other.max_waiting),
            balance_rel: self.balance_rel.or(other.balance_rel),
            balance_abs: self.balance_abs.or(other.balance_abs),
            kv_gate: self.kv_gate.or(other.kv_gate),
            kv_spread_gate: self.kv_spread_gate.or(other.kv_spread_gate),
            session_header: self.session_header.or(other.session_header),
            session_for: self.session_for.or(other.session_for),
        }
    }

    /// What they come to.
    pub(super) fn resolve(self) -> DecisionSettings {
        let defaults = DecisionSettings::default();
        DecisionSettings {
            load_interval: unless_zero(self.load_interval, defaults.load_interval),
            predict_for: unless_zero(self.predict_for, defaults.predict_for),
            overload: self.overload(defaults.overload),
            shed: self.overload_shed,
            warmup: self.warmup(defaults.warmup),
            temperature: self.temperature.map_or(defaults.temperature, |Measure(temperature)| temperature),
            max_waiting: limit(self.max_waiting, defaults.max_waiting),
            gates: Gates {
                balance_rel: limit(self.balance_rel, defaults.gates.balance_rel),
                balance_abs: limit(self.balance_abs, defaults.gates.balance_abs),
                kv_usage: limit(self.kv_gate, defaults.gates.kv_usage),
                kv_usage_spread: limit(self.kv_spread_gate, defaults.gates.kv_usage_spread),
            },
            session_header: self.session_header.map(|Header(name)| name),
            session_for: self.session_for.map_or(defaults.session_for, |Seconds(time)| time),
        }
    }

    /// Whether every key was given.
    #[cfg(test)]
    pub(super) fn says_everything(&self) -> bool {
        !format!("{self:?}").contains("None")
    }

    fn overload(&self, defaults: Thresholds) -> Thresholds {
        if self.no_overload_protection {
            return Thresholds::OFF;
        }
        Thresholds {
            waiting_requests: limit(self.overload_waiting, defaults.waiting_requests),
            kv_usage: limit(self.overload_kv, defaults.kv_usage),
        }
    }

    fn warmup(&self, defaults: warmup::Options) -> warmup::Options {
        warmup::Options {
            young_for: self.warmup_secs.map_or(defaults.young_for, |Seconds(time)| time),
            share: self.warmup_share.map_or(defaults.share, |Share(share)| share),
            blocks: self.warmup_blocks.unwrap_or(defaults.blocks),
            thin_ratio: self.warmup_thin_ratio.map_or(defaults.thin_ratio, |Share(ratio)| ratio),
            divert_every: self.divert_every.map_or(defaults.divert_every, NonZeroU32::new),
            ..defaults
        }
    }
}

fn limit(said: Option<Limit>, default: Threshold) -> Threshold {
    said.map_or(default, |Limit(threshold)| threshold)
}

fn unless_zero(said: Option<Seconds>, default: Option<Duration>) -> Option<Duration> {
    said.map_or(default, |Seconds(time)| Some(time).filter(|time| !time.is_zero()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(toml: &str) -> DecisionSettings {
        toml::from_str::<Tuning>(toml).unwrap().resolve()
    }

    #[test]
    fn nothing_said_is_the_default_and_zero_is_never() {
        assert_eq!(of(""), DecisionSettings::default());
        assert_eq!(of("load-interval = 0\npredict-for = 0\ndivert-every = 0").load_interval, None);
        let off = of("predict-for = 0\ndivert-every = 0");
        assert_eq!((off.predict_for, off.warmup.divert_every), (None, None));
        assert_eq!(of("load-interval = 40").loads().fresh_for, Duration::from_mins(1), "past the next poll");
        assert_eq!(of("load-interval = 1").loads(), load::Options::default());
        assert_eq!(
            (of("load-interval = 3").retry_after(), of("load-interval = 0").retry_after().as_secs()),
            (Duration::from_secs(3), 10)
        );
    }

    // Defect 8 of behaviour.md: a threshold that is off is not revived as the default by a file.
    #[test]
    fn what_is_off_stays_off() {
        let off = of("overload-waiting = \"off\"\nkv-gate = 0.9");
        assert_eq!((off.overload.waiting_requests, off.gates.kv_usage), (Threshold::Off, Threshold::Above(0.9)));
        assert_eq!(off.overload.kv_usage, DecisionSettings::default().overload.kv_usage);
        assert_eq!(of("no-overload-protection = true\noverload-waiting = 3").overload, Thresholds::OFF);
        let options: Tuning = toml::from_str("overload-waiting = 5").unwrap();
        let file: Tuning = toml::from_str("overload-waiting = \"off\"\noverload-kv = \"off\"\noverload-shed = true").unwrap();
        let both = options.over(file).resolve();
        let expected = Thresholds { waiting_requests: Threshold::Above(5.0), kv_usage: Threshold::Off };
        assert_eq!((both.overload, both.shed), (expected, true));
    }

    #[test]
    fn the_library_is_told_what_was_said() {
        let settings = of("temperature = 0.5\nmax-waiting = 3\nbalance-abs = \"off\"\noverload-shed = true\nbalance-rel = 2");
        let router = settings.router(Policy::CacheAware);
        let gates = Gates { balance_rel: Threshold::Above(2.0), balance_abs: Threshold::Off, ..settings.gates };
        let expected = Router {
            gates,
            temperature: 0.5,
            max_waiting: Threshold::Above(3.0),
            shed_overloaded: true,
            ..Router::new(Policy::CacheAware)
        };
        assert_eq!(router, expected);
        assert!(toml::from_str::<Tuning>("temprature = 1").unwrap_err().to_string().contains("unknown field"));
    }
}
