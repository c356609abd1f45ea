//! The configuration file: TOML, every key of which the sample `gateway/sample.toml` explains.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

use super::engine::EngineFields;
use super::{EngineSpec, IndexKind, PolicyKind, Seconds, Tuning};

/// What a file may say. Options on the command line win over it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FileSettings {
    pub(super) listen: Option<String>,
    pub(super) kv_index: Option<IndexKind>,
    pub(super) lanes: Option<usize>,
    pub(super) policy: Option<PolicyKind>,
    pub(super) seed: Option<u64>,
    pub(super) tokenizer: Option<PathBuf>,
    pub(super) chat_template: Option<PathBuf>,
    pub(super) api_key_env: Option<String>,
    /// In bytes.
    pub(super) body_limit: Option<usize>,
    /// In seconds.
    pub(super) max_wait: Option<u64>,
    pub(super) stall_after: Option<Seconds>,
    /// 0 is never.
    pub(super) wedge_after: Option<Seconds>,
    pub(super) log_decisions: Option<bool>,
    #[serde(default)]
    pub(super) decision: Tuning,
    #[serde(default)]
    engine: Vec<Spanned<EngineFields>>,
    /// What `engine` comes to.
    #[serde(skip)]
    pub(super) engines: Vec<EngineSpec>,
}

/// Why a configuration file cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file says what it cannot say.
    #[error("{}:{line}:{column}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// Characters from the start of the line, counted from 1.
        column: usize,
        /// What was expected, and what came.
        reason: String,
    },
}

impl FileSettings {
    /// Reads the file at `path`.
    pub(super) fn read(path: &Path) -> Result<Self, FileError> {
        let text = fs::read_to_string(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|(offset, reason)| {
            let (line, column) = place(&text, offset);
            FileError::Content { path: path.to_owned(), line, column, reason }
        })
    }

    /// Reads a file's text; or where it goes wrong, in bytes, and why.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let at = |error: toml::de::Error| (error.span().map_or(0, |span| span.start), error.message().to_owned());
        let mut settings: Self = toml::from_str(text).map_err(at)?;
        for fields in std::mem::take(&mut settings.engine) {
            let start = fields.span().start;
            let engine = EngineSpec::try_from(fields.into_inner()).map_err(|error| (start, error.to_string()))?;
            if settings.engines.iter().any(|earlier| earlier.name == engine.name) {
                return Err((start, format!("two engines are called {:?}: give one of them another `name`", engine.name)));
            }
            settings.engines.push(engine);
        }
        Ok(settings)
    }
}

/// Line and column of the byte at `offset`.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> (usize, usize, String) {
        let (offset, reason) = FileSettings::parse(text).unwrap_err();
        let (line, column) = place(text, offset);
        (line, column, reason)
    }

    #[test]
    fn the_sample_is_a_configuration_with_every_key() {
        let sample = include_str!("../sample.toml");
        let uncommented: String = sample
            .lines()
            .map(|line| line.strip_prefix('#').filter(|line| !line.starts_with(' ')).unwrap_or(line))
            .fold(String::new(), |text, line| text + line + "\n");
        let settings = FileSettings::parse(&uncommented).unwrap();
        assert!(settings.listen.is_some() && settings.kv_index.is_some() && settings.policy.is_some() && settings.seed.is_some());
        assert_eq!(settings.lanes, Some(4));
        assert!(settings.tokenizer.is_some() && settings.chat_template.is_some() && settings.body_limit.is_some());
        assert!(settings.max_wait.is_some() && settings.api_key_env.is_some() && settings.log_decisions.is_some());
        assert!(settings.decision.says_everything(), "{:#?}", settings.decision);
        let (own, off) = (settings.engines[1].overload, Some(kv_routing::Threshold::Off));
        assert!(own.waiting_requests.is_some() && own.kv_usage == off);
        assert_eq!(settings.engines.len(), 2);
        FileSettings::parse(sample).unwrap();
    }

    #[test]
    fn a_fault_is_placed() {
        let (line, _, reason) = refusal("listen = \"127.0.0.1:8080\"\nseed = \n");
        assert_eq!(line, 2, "{reason}");
        let (line, column, reason) = refusal("seed = 1\n  polcy = \"random\"\n");
        assert_eq!((line, column), (2, 3), "{reason}");
        assert!(reason.contains("unknown field `polcy`, expected one of"), "{reason}");
        let (line, column, reason) = refusal("policy = \"nearest\"\n");
        assert_eq!((line, column), (1, 10), "{reason}");
        assert!(reason.contains("cache-aware"), "{reason}");
    }

    #[test]
    fn a_fault_of_an_engine_is_placed_at_the_engine() {
        let engines = "[[engine]]\nurl = \"http://a:1\"\n\n[[engine]]\nurl = \"http://b:1\"\nevents = \"b:5557\"\n";
        let (line, _, reason) = refusal(engines);
        assert_eq!(line, 4, "{reason}");
        assert!(reason.contains("events: expected tcp://HOST:PORT"), "{reason}");
    }

    #[test]
    fn engines_have_names_of_their_own() {
        let (line, _, reason) = refusal("[[engine]]\nurl = \"http://a:1\"\n[[engine]]\nurl = \"http://a:1/v2\"\n");
        assert_eq!(line, 3);
        assert!(reason.contains("two engines are called \"a:1\""), "{reason}");
    }

    #[test]
    fn a_file_that_is_absent_is_named() {
        let error = FileSettings::read(Path::new("/nonexistent/gateway.toml")).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent/gateway.toml: "), "{error}");
    }
}
