//! What can be wrong, and what to do about it.

use std::fmt;

/// Something between a router and an engine that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// No batch ever came.
    NeverHeard,
    /// Batches came, and come no more.
    FellSilent,
    /// Events of no form that is known.
    Unreadable,
    /// The engine hashes in another way than it is believed to.
    HashingDiffers,
    /// Something that is not on the wire makes some prompts different.
    RootsDiffer,
    /// Blocks inside prompts are not what their stores say.
    ChainsDiffer,
    /// What was stored before is not known.
    ParentsUnknown,
    /// The engine's blocks are of several sizes.
    BlocksDiffer,
    /// Requests are cut into other blocks than the engine's.
    RequestBlocksDiffer,
    /// The engine does not say what it evicts.
    RemovalsMissing,
    /// Requests have salts that the engine's wire does not show.
    SaltNotShown,
    /// The engine's prompts have salts that the requests here do not have.
    SaltNotSent,
    /// The prompts that the engine computes are not those that are hashed here.
    TokensDiffer,
    /// The engine reuses nothing.
    NothingReused,
    /// There is nothing to reuse.
    NothingShared,
}

/// A cause, and what shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// What is wrong.
    pub cause: Cause,
    /// What shows it, in numbers.
    pub because: String,
}

impl Cause {
    /// All causes, the gravest first.
    pub const ALL: [Self; 15] = [
        Self::NeverHeard,
        Self::FellSilent,
        Self::Unreadable,
        Self::HashingDiffers,
        Self::RootsDiffer,
        Self::ChainsDiffer,
        Self::ParentsUnknown,
        Self::BlocksDiffer,
        Self::RequestBlocksDiffer,
        Self::RemovalsMissing,
        Self::SaltNotShown,
        Self::SaltNotSent,
        Self::TokensDiffer,
        Self::NothingReused,
        Self::NothingShared,
    ];

    /// The cause's name in metrics and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NeverHeard => "never_heard",
            Self::FellSilent => "fell_silent",
            Self::Unreadable => "unreadable",
            Self::HashingDiffers => "hashing_differs",
            Self::RootsDiffer => "roots_differ",
            Self::ChainsDiffer => "chains_differ",
            Self::ParentsUnknown => "parents_unknown",
            Self::BlocksDiffer => "blocks_differ",
            Self::RequestBlocksDiffer => "request_blocks_differ",
            Self::RemovalsMissing => "removals_missing",
            Self::SaltNotShown => "salt_not_shown",
            Self::SaltNotSent => "salt_not_sent",
            Self::TokensDiffer => "tokens_differ",
            Self::NothingReused => "nothing_reused",
            Self::NothingShared => "nothing_shared",
        }
    }

    /// What to look at, or to change.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::NeverHeard => {
                "see whether the engine publishes: vLLM wants --enable-prefix-caching and --kv-events-config with \
                 enable_kv_cache_events, SGLang --kv-events-config; the topic here must be a start of the engine's; an engine whose endpoint \
                 names a host connects, and must be listened for (bind)"
            }
            Self::FellSilent => {
                "the publisher may have died or moved while its process serves on: look at the engine's log and its \
                 events port; behind a proxy, at idle timeouts"
            }
            Self::Unreadable => "the engine's release may be newer than this one knows, or the endpoint another service's",
            Self::HashingDiffers => {
                "set the check to how the engine hashes (--prefix-caching-hash-algo), and PYTHONHASHSEED to the same value on all of its \
                 processes; before vLLM 0.29 it must be set"
            }
            Self::RootsDiffer => {
                "some prompts carry a salt, an adapter or an image that this release's events do not show: a newer release shows it, or \
                 requests with it must not be predicted"
            }
            Self::ChainsDiffer => {
                "blocks hold more than their tokens (images, prompt embeddings, hashes that look ahead), or the stream is damaged on its way"
            }
            Self::ParentsUnknown => {
                "the beginning of the stream was missed: give the engine's replay endpoint (replay_endpoint), or a relay beside it, or \
                 reset its prefix cache once"
            }
            Self::BlocksDiffer => {
                "several publishers may share one endpoint and rank, or a process was restarted with another block size"
            }
            Self::RequestBlocksDiffer => {
                "leave the block size out, so that it is learned from the stream, or set it to the engine's own"
            }
            Self::RemovalsMissing => {
                "the engine announces blocks again that it has (kv_cache_report_mode=full: set copies to reannounced), or its removals are \
                 filtered on their way"
            }
            Self::SaltNotShown => {
                "salted requests are not predicted on this engine: vLLM shows salts from 0.17 on, SGLang from 0.5.18 on"
            }
            Self::SaltNotSent => {
                "something between here and the engine adds a cache_salt: add it in front of the router, so that both hash it"
            }
            Self::TokensDiffer => {
                "the tokens here are not the engine's: compare tokenizer and chat template (a date or a system prompt of its own is \
                 enough), and what tools, reasoning or images add"
            }
            Self::NothingReused => {
                "prefix caching may be off in the engine, or its answers do not tell the cached tokens of this route"
            }
            Self::NothingShared => "nothing may be wrong: but a time or an id at the start of each prompt makes all of it new",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.cause, self.because, self.cause.advice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_own_name_and_advice() {
        let names: std::collections::BTreeSet<_> = Cause::ALL.iter().map(|cause| cause.as_str()).collect();
        let advice: std::collections::BTreeSet<_> = Cause::ALL.iter().map(|cause| cause.advice()).collect();
        assert_eq!((names.len(), advice.len()), (Cause::ALL.len(), Cause::ALL.len()));
        assert!(Cause::ALL.is_sorted());
    }
}
