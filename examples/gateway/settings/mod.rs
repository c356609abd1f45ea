//! What the gateway was started with: the command line over the configuration file over the defaults.

mod engine;
mod file;
mod key;
mod number;
mod options;
mod seconds;
mod tuning;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use kv_routing::{Policy, liveness};
use serde::Deserialize;
use thiserror::Error;

pub use self::engine::{EngineSpec, EngineSpecError, EventSource, LoadSource};
pub use self::file::FileError;
use self::file::FileSettings;
pub use self::key::{ApiKey, ApiKeyError};
pub use self::number::{Header, Limit, Measure, NumberError, Share};
pub use self::options::Options;
pub use self::seconds::{Seconds, SecondsError};
pub use self::tuning::{DecisionSettings, Tuning};
use super::limits::{BODY_BYTES, MAX_WAIT};

/// How the gateway serves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `HOST:PORT`; port 0 takes any free port.
    pub listen: String,
    /// The engines, with names of their own.
    pub engines: Vec<EngineSpec>,
    /// The index of what the engines hold.
    pub kv_index: IndexKind,
    /// Threads that write into the index, 1 to 63. None leaves the number to the machine.
    pub lanes: Option<usize>,
    /// How a request finds its engine.
    pub policy: PolicyKind,
    /// The seed of the draws between equally good engines.
    pub seed: u64,
    /// A `tokenizer.json`, or the folder that holds one.
    pub tokenizer: Option<PathBuf>,
    /// A Jinja file in place of the template beside the tokenizer.
    pub chat_template: Option<PathBuf>,
    /// For the gateway's own questions to engines. Requests go with their client's key.
    pub api_key: Option<ApiKey>,
    /// Longest request body, in bytes.
    pub body_limit: usize,
    /// Longest wait for an engine's first byte.
    pub max_wait: Duration,
    /// When an engine is passed over for want of signs of life.
    pub liveness: liveness::Options,
    /// What decisions are made from, besides the policy.
    pub decision: DecisionSettings,
    /// Log every decision.
    pub log_decisions: bool,
}

/// The index of what the engines hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndexKind {
    /// The chain index: lookups wait for nobody, and a block is kept once however many engines hold it.
    #[default]
    Chain,
    /// The plain index that every other one is tested against. Slow in large fleets.
    Reference,
}

/// How a request finds its engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// To the engine where computing, waiting and company are least together.
    #[default]
    Blend,
    /// To the least loaded of those engines that hold most of the prompt.
    CacheAware,
    /// To the least loaded engine.
    LeastLoad,
    /// To the less loaded of two that are drawn.
    PowerOfTwo,
    /// To one engine after the other.
    RoundRobin,
    /// To any engine.
    Random,
}

impl From<PolicyKind> for Policy {
    fn from(kind: PolicyKind) -> Self {
        match kind {
            PolicyKind::Blend => Self::Blend,
            PolicyKind::CacheAware => Self::CacheAware,
            PolicyKind::LeastLoad => Self::LeastLoad,
            PolicyKind::PowerOfTwo => Self::PowerOfTwo,
            PolicyKind::RoundRobin => Self::RoundRobin,
            PolicyKind::Random => Self::Random,
        }
    }
}

/// Why the gateway cannot be started with these options.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The configuration file.
    #[error("cannot use the configuration: {0}")]
    File(#[from] FileError),
    /// The key for the engines.
    #[error(transparent)]
    ApiKey(#[from] ApiKeyError),
    /// A configuration file without engines, and none on the command line.
    #[error("{}: expected at least one [[engine]], or --engine beside it", path.display())]
    NoEngine {
        /// The file.
        path: PathBuf,
    },
    /// Two engines of one name.
    #[error("two engines are called {name:?}: give one of them another name=...")]
    SameName {
        /// The name.
        name: String,
    },
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8080".to_owned(),
            engines: Vec::new(),
            kv_index: IndexKind::default(),
            lanes: None,
            policy: PolicyKind::default(),
            seed: 7,
            tokenizer: None,
            chat_template: None,
            api_key: None,
            body_limit: BODY_BYTES,
            max_wait: MAX_WAIT,
            liveness: liveness::Options::default(),
            decision: DecisionSettings::default(),
            log_decisions: false,
        }
    }
}

impl Settings {
    /// Reads the configuration file that `options` name, and lays the options over it. Without a file and without
    /// engines there are none: a demonstration brings its own.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn resolve(options: &Options) -> Result<Self, SettingsError> {
        let file = options.config.as_deref().map(FileSettings::read).transpose()?.unwrap_or_default();
        let variable = options.api_key_env.as_ref().or(file.api_key_env.as_ref());
        let api_key = variable.map(|variable| ApiKey::from_variable(variable)).transpose()?;
        let settings = Self { api_key, ..Self::laid_over(options, file) };
        match &options.config {
            Some(path) if settings.engines.is_empty() => Err(SettingsError::NoEngine { path: path.clone() }),
            _ => settings.with_distinct_names(),
        }
    }

    fn laid_over(options: &Options, file: FileSettings) -> Self {
        let defaults = Self::default();
        let max_wait = options.max_wait.or(file.max_wait).map_or(defaults.max_wait, Duration::from_secs);
        let (stall, wedge) = (options.stall_after.or(file.stall_after), options.wedge_after.or(file.wedge_after));
        let liveness = liveness::Options {
            stall: stall.map_or(defaults.liveness.stall, |Seconds(after)| after),
            wedge: wedge.map_or(defaults.liveness.wedge, |Seconds(after)| Some(after).filter(|after| !after.is_zero())),
            ..defaults.liveness
        };
        Self {
            listen: options.listen.clone().or(file.listen).unwrap_or(defaults.listen),
            engines: file.engines.into_iter().chain(options.engines.iter().cloned()).collect(),
            kv_index: options.kv_index.or(file.kv_index).unwrap_or(defaults.kv_index),
            lanes: options.lanes.or(file.lanes),
            policy: options.policy.or(file.policy).unwrap_or(defaults.policy),
            seed: options.seed.or(file.seed).unwrap_or(defaults.seed),
            tokenizer: options.tokenizer.clone().or(file.tokenizer),
            chat_template: options.chat_template.clone().or(file.chat_template),
            api_key: defaults.api_key,
            body_limit: options.body_limit.or(file.body_limit).unwrap_or(defaults.body_limit),
            max_wait,
            liveness,
            decision: options.tuning.clone().over(file.decision).resolve(),
            log_decisions: options.log_decisions || file.log_decisions.unwrap_or(defaults.log_decisions),
        }
    }

    fn with_distinct_names(self) -> Result<Self, SettingsError> {
        let names = || self.engines.iter().map(|engine| engine.name.as_str());
        let again = names().enumerate().find(|(i, name)| names().take(*i).any(|earlier| earlier == *name));
        match again {
            Some((_, name)) => Err(SettingsError::SameName { name: name.to_owned() }),
            None => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn resolve(arguments: &[&str]) -> Result<Settings, String> {
        let options = Options::parse_from(["gateway"].iter().chain(arguments));
        Settings::resolve(&options).map_err(|error| error.to_string())
    }

    fn sample() -> &'static str {
        concat!(env!("CARGO_MANIFEST_DIR"), "/gateway/sample.toml")
    }

    #[test]
    fn options_win_over_the_file_and_the_file_over_the_defaults() {
        let settings =
            resolve(&["--config", sample(), "--listen", "0.0.0.0:9000", "--engine", "http://c:1", "--seed", "3"]).unwrap();
        let names: Vec<_> = settings.engines.iter().map(|engine| engine.name.as_str()).collect();
        assert_eq!(names, ["127.0.0.1:8000", "second", "c:1"]);
        assert_eq!((settings.listen.as_str(), settings.seed), ("0.0.0.0:9000", 3));
        assert_eq!((settings.policy, settings.body_limit), (PolicyKind::Blend, BODY_BYTES));
    }

    #[test]
    fn a_wedge_after_no_time_is_no_wedge() {
        let wedge = |arguments: &[&str]| resolve(arguments).unwrap().liveness.wedge;
        assert_eq!(wedge(&[]), liveness::Options::default().wedge);
        assert_eq!(wedge(&["--wedge-after", "0"]), None);
        assert_eq!(wedge(&["--wedge-after", "0.5"]), Some(Duration::from_millis(500)));
        assert_eq!(resolve(&["--stall-after", "9"]).unwrap().liveness.stall, Duration::from_secs(9));
    }

    #[test]
    fn a_file_needs_engines_and_engines_need_names() {
        let empty = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/no_engines.toml");
        assert!(resolve(&["--config", empty]).unwrap_err().contains("no_engines.toml: expected at least one [[engine]]"));
        let twice = resolve(&["--engine", "http://a:1", "--engine", "http://a:1"]).unwrap_err();
        assert!(twice.contains("two engines are called \"a:1\""), "{twice}");
    }

    #[test]
    fn nothing_at_all_has_no_engines() {
        assert!(resolve(&[]).unwrap().engines.is_empty());
    }
}
