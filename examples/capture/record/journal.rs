//! The recording's lines, from every task into one file.

use std::fmt;
use std::io::{self, Write};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use kv_events::adapter::zmq::Endpoint;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::RecordOptions;
use super::engine::Engine;
use crate::client::Evidence;

/// One line of the file; the parent module's documentation says what each field holds.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Line {
    Meta(Meta),
    Live { port: u32, t: f64, frames: Vec<String> },
    ReplayRequest { socket: &'static str, port: u32, t: f64, frames: Vec<String> },
    ReplayResponse { socket: &'static str, port: u32, t: f64, frames: Vec<String> },
    ReplayEnd { port: u32, t: f64, end: String },
    Link { port: u32, t: f64, state: &'static str, cause: Option<String> },
    Lagged { port: u32, t: f64, lost: u64 },
    Request(Box<RequestLine>),
}

/// The first line.
#[derive(Debug, Serialize)]
pub(super) struct Meta {
    format: u32,
    engine: &'static str,
    version: String,
    case: String,
    note: String,
    model: String,
    ranks: u32,
    events_port: Option<u16>,
    replay_port: Option<u16>,
    began: u64,
}

impl Meta {
    pub(super) fn new(options: &RecordOptions, engine: &Engine) -> Self {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            format: 1,
            engine: engine.kind.name(),
            version: engine.version.clone(),
            case: options.case.clone(),
            note: options.note.clone(),
            model: engine.model.clone(),
            ranks: options.ranks,
            events_port: options.events.port(),
            replay_port: options.replay.as_ref().and_then(Endpoint::port),
            began,
        }
    }
}

/// One request and what the engine said of it.
#[derive(Debug, Default, Serialize)]
pub(super) struct RequestLine {
    pub(super) name: String,
    /// Of a call that asks for no tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    pub(super) t_start: f64,
    pub(super) t: f64,
    /// The engine's, or [`NO_ANSWER`], or [`HUNG_UP`].
    pub(super) status: u16,
    #[serde(flatten)]
    pub(super) inference: Option<Inference>,
}

/// What a request for tokens has besides.
#[derive(Debug, Default, Serialize)]
pub(super) struct Inference {
    pub(super) model: Option<String>,
    pub(super) rank: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_token_ids: Option<Vec<u32>>,
    pub(super) max_tokens: Option<u64>,
    pub(super) output_token_ids: Option<Vec<u32>>,
    pub(super) prompt_tokens: Option<u64>,
    pub(super) completion_tokens: Option<u64>,
    pub(super) cached_tokens: Option<u64>,
    pub(super) extra: Map<String, Value>,
}

impl Inference {
    /// Adds what the answer said.
    pub(super) fn add(&mut self, evidence: Evidence) {
        self.prompt_token_ids = self.prompt_token_ids.take().or(evidence.prompt_token_ids);
        self.output_token_ids = evidence.output_token_ids;
        self.prompt_tokens = evidence.prompt_tokens;
        self.completion_tokens = evidence.completion_tokens;
        self.cached_tokens = evidence.cached_tokens;
    }
}

/// Takes lines from any task.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    began: Instant,
    /// Nothing is the end: a proxy's idle connection may hold a clone for long after it.
    lines: mpsc::Sender<Option<Line>>,
}

impl Journal {
    /// Begins a recording whose clock starts now.
    pub(super) fn begin(meta: Meta) -> (Self, Lines) {
        let (sender, receiver) = mpsc::channel(LINES_MAX);
        let journal = Self { began: Instant::now(), lines: sender };
        (journal, Lines { first: Line::Meta(meta), rest: receiver })
    }

    /// Seconds since the beginning, to the microsecond.
    pub(super) fn now(&self) -> f64 {
        (self.began.elapsed().as_secs_f64() * 1e6).round() / 1e6
    }

    /// Adds a line; waits while the writer is behind.
    pub(super) async fn add(&self, line: Line) {
        // The writer is gone only when it failed, which ends the recording with its error.
        let _ = self.lines.send(Some(line)).await;
    }

    /// Ends the file. What is added later, by any clone, is dropped.
    pub(super) async fn end(&self) {
        let _ = self.lines.send(None).await;
    }

    /// Adds a line where nothing can wait.
    pub(super) fn add_later(&self, line: Line) {
        let journal = self.clone();
        tokio::spawn(async move { journal.add(line).await });
    }
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct Lines {
    first: Line,
    rest: mpsc::Receiver<Option<Line>>,
}

impl Lines {
    /// Writes every line, and flushes whenever there is none left to write: a recording that is killed ends with a whole line.
    pub(super) async fn write(mut self, mut out: impl Write) -> io::Result<Counts> {
        let mut counts = Counts::default();
        write_line(&mut out, &self.first)?;
        out.flush()?;
        let mut batch = Vec::with_capacity(LINES_MAX);
        while self.rest.recv_many(&mut batch, LINES_MAX).await > 0 {
            let ends = batch.iter().any(Option::is_none);
            for line in batch.drain(..).map_while(|line| line) {
                counts.add(&line);
                write_line(&mut out, &line)?;
            }
            out.flush()?;
            if ends {
                break;
            }
        }
        Ok(counts)
    }
}

/// How many lines of each kind a recording has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages of the publishers.
    pub live: u64,
    /// Answers of the replay sockets.
    pub replayed: u64,
    /// Requests.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Messages that could not be written in time.
    pub lost: u64,
}

impl Counts {
    fn add(&mut self, line: &Line) {
        match line {
            Line::Live { .. } => self.live += 1,
            Line::ReplayResponse { .. } => self.replayed += 1,
            Line::Lagged { lost, .. } => self.lost += lost,
            Line::Request(request) => {
                self.requests += 1;
                self.failed += u64::from(request.status != 200);
            }
            _ => {}
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { live, replayed, requests, failed, lost } = self;
        write!(f, "{live} live messages, {replayed} replayed, {requests} requests ({failed} failed), {lost} messages lost")
    }
}

/// Frames as the file has them.
pub(super) fn hex(frames: &[Bytes]) -> Vec<String> {
    frames.iter().map(hex::encode).collect()
}

fn write_line(out: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// The status where no answer came, or not to its end: what a gateway says then.
pub(super) const NO_ANSWER: u16 = 502;

/// The status of an answer that the client did not wait for, as nginx writes it.
pub(super) const HUNG_UP: u16 = 499;

/// Lines that wait for the writer, and that it takes at a time. A busy engine makes some hundred a second.
const LINES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &Line) -> Value {
        serde_json::to_value(line).unwrap()
    }

    #[test]
    fn lines_have_the_shape_of_the_captures() {
        let frames = hex(&[Bytes::from_static(b"kv"), Bytes::from_static(&[0, 0xff, 0x1a]), Bytes::new()]);
        let live = written(&Line::Live { port: 15557, t: 1.5, frames });
        assert_eq!(live, serde_json::json!({"kind": "live", "port": 15557, "t": 1.5, "frames": ["6b76", "00ff1a", ""]}));
        let request =
            written(&Line::Request(Box::new(RequestLine { name: "clear".to_owned(), status: 200, ..Default::default() })));
        let bare = serde_json::json!({"kind": "request", "name": "clear", "t_start": 0.0, "t": 0.0, "status": 200});
        assert_eq!(request, bare, "a clear has no fields of a completion");
    }

    #[tokio::test]
    async fn the_file_has_every_line_before_its_end_and_counts_them() {
        let (sender, receiver) = mpsc::channel(LINES_MAX);
        let journal = Journal { began: Instant::now(), lines: sender };
        let lines = Lines { first: Line::Lagged { port: 1, t: 0.0, lost: 9 }, rest: receiver };
        for status in [200, 500] {
            journal.add(Line::Request(Box::new(RequestLine { status, ..Default::default() }))).await;
        }
        journal.end().await;
        journal.add(Line::Lagged { port: 1, t: 0.0, lost: 1 }).await;
        let mut out = Vec::new();
        let counts = lines.write(&mut out).await.unwrap();
        assert_eq!(counts, Counts { requests: 2, failed: 1, ..Default::default() });
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 3);
    }
}
