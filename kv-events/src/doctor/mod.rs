//! Why a rank's cache is not predicted right, in a word, with what to do about it.
//!
//! Most of what goes wrong between a router and an engine is configuration, and looks like nothing: events are switched off, a
//! topic has a typo, one side salts, a seed differs. No line of a log says so; the hit rate is low, and nobody knows why. The
//! evidence is there, though, in what is counted anyway. This is a pure function from the counts of one rank, its [`Chart`], to
//! named causes, and one small state, [`Doctor`], for what only time shows.
//!
//! # Causes
//! | cause | what shows it |
//! |---|---|
//! | [`NeverHeard`](Cause::NeverHeard) | requests were answered, the subscription stands, and no batch ever came |
//! | [`FellSilent`](Cause::FellSilent) | batches came before; since the last one the engine computed whole blocks, and announced none |
//! | [`Unreadable`](Cause::Unreadable) | many events are of no form that is known |
//! | [`HashingDiffers`](Cause::HashingDiffers) | no block is called as recomputed, from the first of a prompt on |
//! | [`RootsDiffer`](Cause::RootsDiffer) | some prompts' first blocks are called otherwise than recomputed, and others are not |
//! | [`ChainsDiffer`](Cause::ChainsDiffer) | blocks inside prompts are called otherwise |
//! | [`ParentsUnknown`](Cause::ParentsUnknown) | stores wait for a parent that was never announced |
//! | [`BlocksDiffer`](Cause::BlocksDiffer) | stores of several block sizes in one group |
//! | [`RequestBlocksDiffer`](Cause::RequestBlocksDiffer) | requests are cut into blocks that the engine's are no multiple of |
//! | [`RemovalsMissing`](Cause::RemovalsMissing) | more is held than fits, or more is predicted than is reused, and nothing was ever removed |
//! | [`SaltNotShown`](Cause::SaltNotShown) | requests have salts, and the engine's wire shows none |
//! | [`SaltNotSent`](Cause::SaltNotSent) | the engine's stores have salts, and no request has one |
//! | [`TokensDiffer`](Cause::TokensDiffer) | the engine reuses blocks, and none is ever predicted |
//! | [`NothingReused`](Cause::NothingReused) | blocks are predicted, and the engine never reuses one |
//! | [`NothingShared`](Cause::NothingShared) | stores arrive, and no prompt is like another |
//!
//! Evidence below [`EVIDENCE_MIN`](crate::limits::EVIDENCE_MIN) shows nothing: a single answer may be an accident.

mod cause;
mod signs;

use std::num::NonZeroU32;
use std::time::Duration;

pub use self::cause::{Cause, Diagnosis};
use crate::admission::Findings;
use crate::{Counts, HashCounts, Profile};

/// What is known of one rank: its stream, and the requests that were sent there.
#[derive(Clone, Copy, Debug)]
pub struct Chart<'a> {
    /// Whether its events are subscribed to, and the subscription stands.
    pub subscribed: bool,
    /// What its batches did.
    pub counts: &'a Counts,
    /// What applying them found.
    pub findings: Findings,
    /// What was learned of its wire.
    pub profile: &'a Profile,
    /// What the check of its hashes found, if they are checked.
    pub hashes: Option<&'a HashCounts>,
    /// How full its cache must be, if somebody knows how large it is.
    pub filling: Option<Filling>,
    /// Tokens of a block in requests, if they are fixed and not the stream's.
    pub request_block_tokens: Option<NonZeroU32>,
    /// What came of the requests.
    pub requests: Requests,
}

/// How many blocks a rank holds, as its stream says, and for how many it has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filling {
    /// Blocks that the index holds of it.
    pub held_blocks: u64,
    /// Blocks that its cache has room for, on all served tiers.
    pub pool_blocks: u64,
}

/// What came of a rank's requests. Counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Sent there.
    pub sent: u64,
    /// Of these, with a salt.
    pub salted: u64,
    /// Answers of which both are known: how much was predicted to be cached, and how much was. What follows is about these.
    pub compared: u64,
    /// Tokens of their prompts.
    pub prompt_tokens: u64,
    /// Tokens that were predicted to be cached.
    pub predicted_tokens: u64,
    /// Tokens that were.
    pub cached_tokens: u64,
}

/// What only time shows of one rank: how long it has been silent, and what it did meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Doctor {
    /// Batches when it was last heard, when that was, and what its requests had come to.
    heard: Option<(u64, Duration, Requests)>,
}

/// What a rank did since its last batch.
#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    lasted: Duration,
    /// Tokens that it computed, and should have stored.
    computed_tokens: u64,
    answers: u64,
}

impl Doctor {
    /// Of a rank of which nothing was seen.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the chart, and the charts before it, show: the gravest first. `now` is the time since any moment of the caller's choice,
    /// and must not go back.
    pub fn examine(&mut self, now: Duration, chart: &Chart<'_>) -> Vec<Diagnosis> {
        let silence = self.listen(now, chart);
        signs::ALL.iter().filter_map(|sign| sign(chart, &silence)).collect()
    }

    fn listen(&mut self, now: Duration, chart: &Chart<'_>) -> Silence {
        let batches = chart.counts.batches;
        let (heard, at, then) = *self.heard.get_or_insert((batches, now, chart.requests));
        // Who began anew counts from the start again.
        if heard != batches || chart.requests.compared < then.compared {
            self.heard = Some((batches, now, chart.requests));
            return Silence::default();
        }
        let computed = |requests: &Requests| requests.prompt_tokens.saturating_sub(requests.cached_tokens);
        Silence {
            lasted: now.saturating_sub(at),
            computed_tokens: computed(&chart.requests).saturating_sub(computed(&then)),
            answers: chart.requests.compared - then.compared,
        }
    }
}
