//! A recording, as `shared/data/README.md` documents it: JSON lines of ZeroMQ messages, and beside them the requests that
//! were sent, in lines of the same file (our own recordings) or in a `.json` of the same name.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

/// Everything that was recorded of one engine.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The engine, its version and the case, for people.
    pub title: String,
    /// The messages, in order of receipt.
    pub messages: Vec<Message>,
    /// The requests, in order of their ends.
    pub requests: Vec<Request>,
    /// What was done to a radix tree, for captures of a tree without an engine.
    pub tree: Vec<TreeOp>,
    /// TensorRT-LLM's JSON events, as text.
    pub trtllm: Option<String>,
}

/// One ZeroMQ message.
#[derive(Clone, Debug)]
pub struct Message {
    /// On which socket it came.
    pub kind: MessageKind,
    /// The engine's port: base plus rank.
    pub port: u16,
    /// Seconds since the recording's start; nothing in captures without requests.
    pub t_s: Option<f64>,
    /// The frames, as the client's socket saw them.
    pub frames: Vec<Vec<u8>>,
}

/// Which socket a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A SUB socket's.
    Live,
    /// What a client sent to a replay socket.
    ReplayRequest,
    /// A replay socket's answer to a DEALER.
    ReplayedToDealer,
    /// A replay socket's answer to a REQ.
    ReplayedToReq,
}

/// One request, or one call of another endpoint (with a `path`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Request {
    /// What the recorder called it.
    pub name: String,
    /// The endpoint; a completion without one in older recordings.
    pub path: Option<String>,
    /// The model or adapter that was asked for, in recordings that note it.
    pub model: Option<String>,
    /// When it was sent, in seconds since the recording's start, in recordings that note it.
    pub t_start: Option<f64>,
    /// When its answer was complete.
    pub t: f64,
    /// The HTTP status.
    pub status: u16,
    /// The prompt; empty (or null) where it is not known in tokens.
    #[serde(deserialize_with = "null_is_empty")]
    pub prompt_token_ids: Vec<u32>,
    /// The prompt's length, as the engine counted it.
    pub prompt_tokens: Option<u64>,
    /// The answer.
    pub output_token_ids: Option<Vec<u32>>,
    /// What the engine says it reused. Null means 0 on the engines that send null.
    pub cached_tokens: Option<u64>,
    /// The rank that was asked for, in recordings that note it.
    pub rank: Option<u16>,
    /// Further fields of the request's body, and `headers`.
    pub extra: Extra,
}

/// The fields of a request that decide where it is found.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Extra {
    /// The cache salt.
    pub cache_salt: Option<String>,
    /// Headers that were sent.
    pub headers: serde_json::Map<String, Value>,
    /// vLLM computes the whole prompt of a request that asks for these.
    pub prompt_logprobs: Option<Value>,
    /// vLLM's further options.
    pub vllm_xargs: serde_json::Map<String, Value>,
}

/// One operation on a radix tree.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TreeOp {
    /// `insert`, `evict` or `reset`.
    pub op: String,
    /// The inserted tokens.
    pub tokens: Vec<u32>,
    /// The namespace they were inserted in.
    pub namespace: TreeNamespace,
    /// Tokens that the tree matched before the insert.
    pub matched_before: Option<u64>,
    /// Whether the next live message is this operation's.
    pub batch_published: bool,
}

/// SGLang's key of a tree beside the tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct TreeNamespace {
    /// A LoRA's id or any other text.
    pub extra_key: Option<String>,
    /// The salt.
    pub cache_salt: Option<String>,
}

/// Why a file is no recording.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not what the format says.
    #[error("{path}:{line}: {reason}", path = path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What was expected and what came.
        reason: String,
    },
}

impl Recording {
    /// Reads `path`: a `.bin` or `.jsonl` with the messages, and the `.json` beside it if there is one. A `.json` stands for
    /// the `.bin` of the same name.
    ///
    /// # Errors
    /// [`FileError`] names the file, the line and the reason.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let lines = if is_json { path.with_extension("bin") } else { path.to_owned() };
        let mut recording = Self::default();
        let text = read(&lines)?;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let bad = |reason: String| FileError::Line { path: lines.clone(), line: number + 1, reason };
            let value: Value = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
            recording.line(value).map_err(bad)?;
        }
        let beside = lines.with_extension("json");
        if beside.exists() {
            recording.beside(&beside)?;
        }
        recording.requests.sort_by(|left, right| left.t.total_cmp(&right.t));
        Ok(recording)
    }

    fn line(&mut self, value: Value) -> Result<(), String> {
        match value["kind"].as_str() {
            Some("meta") => {
                let part = |key: &str| value[key].as_str().map(str::to_owned);
                let parts = [part("engine"), part("version"), part("case").or_else(|| part("scenario"))];
                self.title = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
                match value["format"].as_u64() {
                    Some(1) => Ok(()),
                    other => Err(format!("expected format 1, got {other:?}")),
                }
            }
            Some("request") => {
                self.requests.push(serde_json::from_value(value).map_err(|error| error.to_string())?);
                Ok(())
            }
            // Other kinds are notes of the recorder, for people.
            Some(kind) => {
                if let Some(kind) = MessageKind::parse(kind, value["socket"].as_str()) {
                    self.messages.push(Message::parse(kind, &value)?);
                }
                Ok(())
            }
            None => Err("expected a `kind`".to_owned()),
        }
    }

    fn beside(&mut self, path: &Path) -> Result<(), FileError> {
        let bad =
            |error: serde_json::Error| FileError::Line { path: path.to_owned(), line: error.line(), reason: error.to_string() };
        let mut value: Value = serde_json::from_str(&read(path)?).map_err(bad)?;
        if let Some(requests) = value.get_mut("requests") {
            self.requests = serde_json::from_value(requests.take()).map_err(bad)?;
        }
        if let Some(ops) = value.get_mut("ops") {
            self.tree = serde_json::from_value(ops.take()).map_err(bad)?;
        }
        self.trtllm = value.get("trtllm_events").map(Value::to_string);
        Ok(())
    }
}

impl MessageKind {
    fn parse(kind: &str, socket: Option<&str>) -> Option<Self> {
        match (kind, socket) {
            ("live", _) => Some(Self::Live),
            ("replay-request", _) => Some(Self::ReplayRequest),
            ("replay-response", Some("req")) => Some(Self::ReplayedToReq),
            ("replay-response", _) => Some(Self::ReplayedToDealer),
            _ => None,
        }
    }
}

impl Message {
    fn parse(kind: MessageKind, value: &Value) -> Result<Self, String> {
        let port = value["port"].as_u64().and_then(|port| port.try_into().ok()).ok_or("expected a `port` of 16 bits")?;
        let frames = value["frames"].as_array().ok_or("expected an array of `frames`")?;
        let frame =
            |frame: &Value| hex::decode(frame.as_str().unwrap_or("?")).map_err(|error| format!("a frame is not hex: {error}"));
        Ok(Self { kind, port, t_s: value["t"].as_f64(), frames: frames.iter().map(frame).collect::<Result<_, _>>()? })
    }
}

impl Request {
    /// Whether it asked for a completion, got one, and the engine reported what it used.
    pub fn is_completion(&self) -> bool {
        let completes = self.path.as_deref().is_none_or(|path| path.ends_with("completions"));
        // Our own recordings note the prompt's length whenever the engine reported its usage.
        let reported = self.t_start.is_none() || self.prompt_tokens.is_some();
        completes && reported && matches!(self.status, 0 | 200) && !self.prompt_token_ids.is_empty()
    }

    /// Whether it empties the cache.
    pub fn clears(&self) -> bool {
        self.path.as_deref().is_some_and(|path| path.contains("reset_prefix_cache") || path.contains("flush_cache"))
    }

    /// Whether it made vLLM announce again what it reused, in events that look like further copies.
    pub fn reannounces(&self) -> bool {
        self.extra.vllm_xargs.get("kv_cache_report_mode").is_some_and(|mode| mode == "full")
    }

    /// The data-parallel rank that it was sent to, if the recording says.
    pub fn asked_rank(&self) -> Option<u16> {
        let header = self.extra.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-data-parallel-rank"));
        self.rank.or_else(|| header.and_then(|(_, rank)| rank.as_str()?.parse().ok()))
    }
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn read(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(|source| FileError::Io { path: path.to_owned(), source })
}
