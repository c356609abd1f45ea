//! `capture check`: a recording through decode, admission, normalization, copies and index, and what that predicts beside what
//! the engine reported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kv_events::{Caveat, Dialect, Event, Loss, Losses, StreamOptions};
use kv_index::{Namespace, WorkersExhausted};
use serde::Serialize;
use thiserror::Error;

use super::file::{FileError, Message, MessageKind, Recording, Request};
use super::replayer::{Replayer, decode};
use super::timeline::{Place, place};
use super::tree;

/// What a recording showed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The file.
    pub file: String,
    /// The engine, its version and the case.
    pub title: String,
    /// The engine as it was recognised from the stream.
    pub dialect: Option<&'static str>,
    /// What its wire leaves open.
    pub caveats: Vec<&'static str>,
    /// Events of each kind that were applied.
    pub stored: u64,
    /// Removals.
    pub removed: u64,
    /// Clears.
    pub cleared: u64,
    /// What was left out, by reason.
    pub losses: Vec<(&'static str, u64)>,
    /// Losses for which no release's format is an excuse, and live messages with odd frames.
    pub unexplained_losses: u64,
    /// Batches that never came.
    pub missed_batches: u64,
    /// Blocks held at the end.
    pub blocks: u64,
    /// The requests.
    pub rows: Vec<Row>,
}

/// One request: what was predicted, and what the engine reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What the recorder called it.
    pub name: String,
    /// Tokens that the index predicts; of several that are possible, the one nearest to what was reported.
    pub predicted: u64,
    /// Tokens that the engine reported.
    pub reported: u64,
    /// Why the two need not be equal; nothing for a request that is labelled exact.
    pub label: Option<&'static str>,
    /// It ran beside others, and some order of starts gives the prediction.
    pub side_by_side: bool,
}

/// Why a recording could not be checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It has more ranks than the index takes workers.
    #[error(transparent)]
    Ranks(#[from] WorkersExhausted),
}

impl Row {
    /// Whether this request counts against the recording.
    pub fn differs(&self) -> bool {
        self.label.is_none() && self.predicted != self.reported
    }
}

impl Report {
    /// Whether nothing is left that no stated rule explains.
    pub fn passes(&self) -> bool {
        self.unexplained_losses == 0 && !self.rows.iter().any(Row::differs)
    }
}

/// Checks one recording.
///
/// # Errors
/// [`CheckError`] when the file cannot be read; differences are in the report.
pub fn check(path: &Path, options: StreamOptions) -> Result<Report, CheckError> {
    let recording = Recording::read(path)?;
    let mut replayer = Replayer::new(&recording.messages, options)?;
    let rows =
        if recording.tree.is_empty() { requests(&recording, &mut replayer) } else { tree::rows(&recording, &mut replayer) };
    if let Some(text) = &recording.trtllm {
        replayer.apply_drain(text, options)?;
    }
    let losses = replayer.losses();
    let mut report = Report { file: path.display().to_string(), title: recording.title.clone(), rows, ..Report::default() };
    report.sum_up(&replayer, &losses);
    Ok(report)
}

impl Report {
    fn sum_up(&mut self, replayer: &Replayer, losses: &Losses) {
        [self.stored, self.removed, self.cleared] = replayer.events;
        self.blocks = replayer.blocks();
        self.losses = losses.iter().map(|(loss, count)| (loss.as_str(), count)).collect();
        let unexplained: u64 = losses.iter().filter(|(loss, _)| is_unexplained(*loss)).map(|(_, count)| count).sum();
        self.unexplained_losses = unexplained + replayer.odd_frames;
        let mut caveats = BTreeSet::new();
        for (_, rank) in replayer.ranks() {
            let profile = rank.stream.profile();
            self.dialect = self.dialect.or(profile.dialect.map(Dialect::as_str));
            caveats.extend(profile.caveats.iter().map(|caveat| caveat.as_str()));
            self.missed_batches = self.missed_batches.saturating_add(rank.cursor.missed());
        }
        self.caveats = caveats.into_iter().collect();
    }
}

/// What only a defect, of the engine or of ours, can cause.
fn is_unexplained(loss: Loss) -> bool {
    matches!(
        loss,
        Loss::UnreadablePayload | Loss::Malformed | Loss::OverLimit | Loss::OrphanExpired | Loss::Refused | Loss::OverBudget
    )
}

fn requests(recording: &Recording, replayer: &mut Replayer) -> Vec<Row> {
    let live: Vec<Message> = recording.messages.iter().filter(|message| message.kind == MessageKind::Live).cloned().collect();
    prime(&recording.messages, &live, replayer);
    let places = place(&live, &recording.requests);
    let adapters = adapters(&live);
    let mut answers: Vec<Answer> = vec![Answer::default(); recording.requests.len()];
    for cut in 0..=live.len() {
        for at in (0..places.len()).filter(|&at| places[at].cuts.contains(&cut)) {
            answers[at].try_cut(replayer, &recording.requests, at, &adapters);
        }
        if let Some(message) = live.get(cut) {
            replayer.apply(message);
        }
    }
    // What a router would have asked for at the end changes nothing any more.
    recording.messages.iter().filter(|message| message.kind != MessageKind::Live).for_each(|message| replayer.apply(message));
    let rows = recording.requests.iter().zip(answers).zip(places);
    rows.filter(|((request, _), _)| request.is_completion())
        .map(|((request, answer), place)| answer.row(request, &place))
        .collect()
}

/// Before the recorder came, the engine had published already: a router replays that first, for each rank up to its first live
/// message.
fn prime(all: &[Message], live: &[Message], replayer: &mut Replayer) {
    let mut first: BTreeMap<u16, u64> = BTreeMap::new();
    for (message, (sequence, _)) in live.iter().filter_map(|message| Some((message, decode(message)?))) {
        first.entry(message.port).or_insert(sequence);
    }
    let is_earlier = |message: &Message, replayer: &Replayer| {
        let first = replayer.live_port(message).and_then(|port| first.get(&port));
        first.zip(decode(message)).is_some_and(|(first, (sequence, _))| sequence < *first)
    };
    for message in all.iter().filter(|message| message.kind != MessageKind::Live) {
        if is_earlier(message, replayer) {
            replayer.apply(message);
        }
    }
}

/// The names of adapters that the stream announced. Older recordings show a request's adapter in its name only.
fn adapters(live: &[Message]) -> BTreeSet<String> {
    let events = live.iter().filter_map(decode).flat_map(|(_, batch)| batch.events);
    events.filter_map(|event| if let Event::Stored(store) = event { store.lora_name } else { None }).collect()
}

fn namespace<'a>(request: &'a Request, adapters: &'a BTreeSet<String>) -> Namespace<'a> {
    let named = |adapter: &&String| request.name.strip_prefix(adapter.as_str()).is_some_and(|rest| rest.starts_with('-'));
    let lora = match &request.model {
        Some(model) => adapters.get(model),
        None => adapters.iter().find(named),
    };
    Namespace { lora: lora.map(String::as_str), salt: request.extra.cache_salt.as_deref() }
}

/// What the cuts that are possible for one request gave.
#[derive(Clone, Debug, Default)]
struct Answer {
    predicted: Option<u64>,
    label: Option<&'static str>,
}

impl Answer {
    fn try_cut(&mut self, replayer: &mut Replayer, requests: &[Request], at: usize, adapters: &BTreeSet<String>) {
        let request = &requests[at];
        let reported = request.cached_tokens.unwrap_or(0);
        let namespace = namespace(request, adapters);
        let ports: Vec<u16> = replayer.ranks().map(|(port, _)| port).collect();
        // A request whose rank is not known may have gone to any.
        let candidates = match request.asked_rank() {
            Some(rank) => ports.get(usize::from(rank)).copied().into_iter().collect(),
            None => ports,
        };
        for port in candidates {
            let predicted = predict(replayer, port, namespace, request);
            let better = self.predicted.is_none_or(|before| before.abs_diff(reported) > predicted.abs_diff(reported));
            if better {
                self.predicted = Some(predicted);
                self.label = label(replayer, port, requests, at, namespace)
                    .or_else(|| (predicted < reported).then(|| hides_blocks(replayer, port)).flatten());
            }
        }
    }

    fn row(self, request: &Request, place: &Place) -> Row {
        Row {
            name: request.name.clone(),
            predicted: self.predicted.unwrap_or(0),
            reported: request.cached_tokens.unwrap_or(0),
            label: self.label,
            side_by_side: place.side_by_side,
        }
    }
}

fn predict(replayer: &mut Replayer, port: u16, namespace: Namespace<'_>, request: &Request) -> u64 {
    let predicted = replayer.predict(port, namespace, &request.prompt_token_ids).tokens as u64;
    let dialect = replayer.rank(port).and_then(|rank| rank.stream.profile().dialect);
    // vLLM reads no cache for a request that wants the log probabilities of its prompt.
    if dialect == Some(Dialect::Vllm) && request.extra.prompt_logprobs.is_some() { 0 } else { predicted }
}

/// Why the rank may hold more than the index knows, and never less.
fn hides_blocks(replayer: &Replayer, port: u16) -> Option<&'static str> {
    let rank = replayer.rank(port)?;
    if rank.joined_late() {
        return Some("stored before the recording began");
    }
    (rank.stream.waiting_blocks() > 0).then_some("a store waits for a parent that was not announced")
}

/// Why the request is not labelled exact.
fn label(replayer: &Replayer, port: u16, requests: &[Request], at: usize, namespace: Namespace<'_>) -> Option<&'static str> {
    let rank = replayer.rank(port)?;
    let profile = rank.stream.profile();
    if rank.cursor.missed() > rank.cursor.unknown_before() {
        return Some("the stream lost batches");
    }
    if requests[..at].iter().any(Request::reannounces) {
        return Some("a request asked for kv_cache_report_mode=full, whose announcements look like copies");
    }
    if profile.dialect == Some(Dialect::Vllm) && at > 0 && requests[at - 1].clears() {
        return Some("an idle vLLM announces a clear with its next step");
    }
    // Before the first store nothing is held, whatever the engine will turn out to be.
    let caveat = profile.caveat_for(namespace).filter(|caveat| *caveat != Caveat::NotRecognised || profile.scheme.is_some());
    if let Some(caveat) = caveat {
        return Some(caveat.as_str());
    }
    let hidden = profile.caveats.contains(&Caveat::SaltNotShown)
        && requests[..at].iter().any(|earlier| shares_salted_content(earlier, &requests[at]));
    hidden.then_some("content that a request with a salt stored, on a wire that does not show salts")
}

/// Whether an earlier salted request put blocks under content that this one looks up.
fn shares_salted_content(earlier: &Request, request: &Request) -> bool {
    let salted = earlier.extra.cache_salt.as_deref().is_some_and(|salt| !salt.is_empty());
    salted && earlier.prompt_token_ids.first() == request.prompt_token_ids.first()
}
