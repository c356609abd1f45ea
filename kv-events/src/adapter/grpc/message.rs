//! Updates and positions as messages, and messages as these.

use std::sync::Arc;

use prost::Message;
use thiserror::Error;

use super::event::{read_batch, write_batch};
use super::limits::UPDATE_BYTES_MAX;
use super::proto::kv_events as proto;
use super::update::{News, Update};
use crate::limits::{RELAY_RANKS_MAX, TELEMETRY_MAX, TEXT_BYTES_MAX};
use crate::loss::{Loss, Losses};
use crate::relay::{LoadCore, LoadSample};
use crate::{Batch, Incarnation, Position};

/// Why a message is none of a relay's, or of its reader's. It says nothing of the messages around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// A field without which the others mean nothing.
    #[error("expected the field {0}, it is absent")]
    Absent(&'static str),
    /// More ranks, or positions, than a relay has.
    #[error("expected at most {RELAY_RANKS_MAX} {0}, got {1}")]
    TooMany(&'static str, usize),
    /// A sequence that no batch has.
    #[error("expected a sequence below 2^64 - 1")]
    Sequence,
    /// A rank that was not asked for.
    #[error("expected rank {asked}, got {got}")]
    Rank {
        /// The rank that was asked for.
        asked: u32,
        /// The message's.
        got: u32,
    },
}

impl From<&Update> for proto::Update {
    /// A batch that is too long for a message is left out, and its loss is counted.
    fn from(update: &Update) -> Self {
        use proto::update::Kind;
        let kind = match &update.news {
            News::Published { missed, batch } => {
                Kind::Published(proto::Published { batch: Some(write_batch(batch)), missed: *missed })
            }
            &News::Chunk { index, count, total, unknown_before, lost, ref batch } => {
                Kind::Chunk(proto::Chunk { batch: Some(write_batch(batch)), index, count, total, unknown_before, lost })
            }
            &News::Heartbeat { vouched } => Kind::Heartbeat(proto::Heartbeat { vouched }),
        };
        let message = Self {
            rank: update.rank,
            incarnation: Some(update.incarnation.into()),
            sequence: update.sequence,
            doubted: update.doubted,
            load: update.load.as_ref().map(write_load),
            kind: Some(kind),
        };
        if message.encoded_len() <= UPDATE_BYTES_MAX { message } else { Self::from(&without_events(update)) }
    }
}

impl TryFrom<proto::Update> for Update {
    type Error = MessageError;

    fn try_from(message: proto::Update) -> Result<Self, MessageError> {
        use proto::update::Kind;
        let news = match message.kind.ok_or(MessageError::Absent("kind"))? {
            Kind::Published(published) => {
                News::Published { missed: published.missed, batch: read_batch(published.batch.ok_or(ABSENT_BATCH)?) }
            }
            Kind::Chunk(chunk) => News::Chunk {
                index: chunk.index,
                count: chunk.count,
                total: chunk.total,
                unknown_before: chunk.unknown_before,
                lost: chunk.lost,
                batch: read_batch(chunk.batch.ok_or(ABSENT_BATCH)?),
            },
            Kind::Heartbeat(beat) => News::Heartbeat { vouched: beat.vouched },
        };
        if message.sequence == u64::MAX {
            return Err(MessageError::Sequence);
        }
        Ok(Self {
            rank: message.rank,
            incarnation: message.incarnation.ok_or(MessageError::Absent("incarnation"))?.into(),
            sequence: message.sequence,
            doubted: message.doubted,
            load: message.load.map(read_load),
            news,
        })
    }
}

/// The ranks of a request, and the positions in some.
pub(super) fn read_request(request: proto::SubscribeRequest) -> Result<(Vec<u32>, Vec<RankPosition>), MessageError> {
    for (what, count) in [("ranks", request.ranks.len()), ("positions", request.positions.len())] {
        if count > RELAY_RANKS_MAX as usize {
            return Err(MessageError::TooMany(what, count));
        }
    }
    let position = |position: proto::Position| {
        let incarnation = position.incarnation.ok_or(MessageError::Absent("incarnation"))?.into();
        Ok((position.rank, Position { incarnation, sequence: position.sequence }))
    };
    Ok((request.ranks, request.positions.into_iter().map(position).collect::<Result<_, MessageError>>()?))
}

/// A request for one rank.
pub(super) fn write_request(rank: u32, after: Option<Position>) -> proto::SubscribeRequest {
    let position = |at: Position| proto::Position { rank, incarnation: Some(at.incarnation.into()), sequence: at.sequence };
    proto::SubscribeRequest { ranks: vec![rank], positions: after.into_iter().map(position).collect() }
}

impl From<Incarnation> for proto::Incarnation {
    fn from(incarnation: Incarnation) -> Self {
        Self { watcher: incarnation.watcher, life: incarnation.life }
    }
}

impl From<proto::Incarnation> for Incarnation {
    fn from(message: proto::Incarnation) -> Self {
        Self { watcher: message.watcher, life: message.life }
    }
}

fn without_events(update: &Update) -> Update {
    let mut losses = Losses::default();
    losses.add(Loss::OverLimit);
    let mut update = update.clone();
    if let News::Published { batch, .. } | News::Chunk { batch, .. } = &mut update.news {
        *batch = Batch { timestamp_s: batch.timestamp_s, rank: batch.rank, losses, ..Batch::default() };
    }
    update
}

fn write_load(load: &LoadSample) -> proto::Load {
    let LoadCore { running, waiting, queued_tokens, window_tokens, kv_usage, tokens_per_s } = load.core;
    let measure = |(name, value): &(Box<str>, f64)| proto::Measure { name: name.to_string(), value: *value };
    let telemetry = load.telemetry.as_ref();
    let telemetry = telemetry.map(|all| proto::Telemetry { measures: all.iter().map(measure).collect() });
    proto::Load { running, waiting, queued_tokens, window_tokens, kv_usage, tokens_per_s, sample: load.sample, telemetry }
}

/// Measures beyond [`TELEMETRY_MAX`], and those whose names are too long, are passed over.
fn read_load(message: proto::Load) -> LoadSample {
    let proto::Load { running, waiting, queued_tokens, window_tokens, kv_usage, tokens_per_s, sample, telemetry } = message;
    let known = |measure: &proto::Measure| measure.name.len() <= TEXT_BYTES_MAX;
    let measures = |all: proto::Telemetry| -> Arc<[_]> {
        all.measures.into_iter().filter(known).take(TELEMETRY_MAX).map(|measure| (measure.name.into(), measure.value)).collect()
    };
    let core = LoadCore { running, waiting, queued_tokens, window_tokens, kv_usage, tokens_per_s };
    LoadSample { core, telemetry: telemetry.map(measures), sample }
}

type RankPosition = (u32, Position);

const ABSENT_BATCH: MessageError = MessageError::Absent("batch");
