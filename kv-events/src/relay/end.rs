//! Why a subscription does not begin, or ends, in the words that its reader acts upon.
//!
//! | code | when | what the reader does |
//! |---|---|---|
//! | `OUT_OF_RANGE` | a position cannot be resumed | drops what it holds of that rank, subscribes again without the position |
//! | `DATA_LOSS` | a life ended, or the reader was left behind | the same, at once |
//! | `UNAVAILABLE` | too many readers | waits and subscribes again |

use std::fmt;

use crate::Incarnation;

/// A status of gRPC, which other transports can send as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// 11.
    OutOfRange,
    /// 14.
    Unavailable,
    /// 15.
    DataLoss,
}

/// Why a subscription does not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Positions that cannot be resumed, each with its rank. Others of the same request could be.
    #[error("{}", list(.0))]
    OutOfRange(Vec<(u32, OutOfRange)>),
    /// There are `limit` subscribers.
    #[error("expected at most {limit} subscribers, all are there")]
    TooManySubscribers {
        /// How many there may be.
        limit: usize,
    },
    /// Former states of the rank are still being read, by readers that were left behind.
    #[error("rank {rank}: {limit} earlier snapshots are still being read")]
    TooManySnapshots {
        /// The rank.
        rank: u32,
        /// How many states are held on to.
        limit: usize,
    },
}

/// Why a position cannot be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutOfRange {
    /// The engine has no such rank.
    #[error("expected one of {ranks} ranks")]
    UnknownRank {
        /// How many there are.
        ranks: u32,
    },
    /// Another life of the publisher, or another relay's.
    #[error("expected a position in life {current}, got one in {got}")]
    ForeignIncarnation {
        /// The life that is relayed.
        current: Incarnation,
        /// The position's.
        got: Incarnation,
    },
    /// Nothing was relayed in this life.
    #[error("nothing was relayed yet, expected no position, got {got}")]
    Empty {
        /// The position.
        got: u64,
    },
    /// The position lies beyond what was relayed.
    #[error("expected a position up to {newest}, got {got}")]
    Ahead {
        /// The newest batch.
        newest: u64,
        /// The position.
        got: u64,
    },
    /// Batches after the position are not kept any more.
    #[error("batches are kept from {oldest} on, got a position at {got}")]
    Behind {
        /// The oldest batch kept.
        oldest: u64,
        /// The position.
        got: u64,
    },
    /// The relay joined after the position.
    #[error("relayed since {first}, got a position at {got}")]
    BeforeStart {
        /// The first batch relayed in this life.
        first: u64,
        /// The position.
        got: u64,
    },
}

/// Why a subscription ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum End {
    /// A new life of a rank's publisher began. Positions of other ranks are as good as before.
    #[error("rank {rank}: its publisher has started again")]
    Restarted {
        /// The rank.
        rank: u32,
    },
    /// The reader was so slow that batches it had not read are not kept any more.
    #[error("rank {rank}: expected a reader beyond {oldest}, it is at {next}")]
    LeftBehind {
        /// The rank.
        rank: u32,
        /// The oldest batch kept.
        oldest: u64,
        /// The batch that the reader would have read next.
        next: u64,
    },
    /// There is no such subscriber.
    #[error("there is no such subscriber")]
    Unknown,
}

impl Refusal {
    /// What the reader is told.
    pub fn code(&self) -> Code {
        match self {
            Self::OutOfRange(_) => Code::OutOfRange,
            Self::TooManySubscribers { .. } | Self::TooManySnapshots { .. } => Code::Unavailable,
        }
    }
}

impl End {
    /// What the reader is told.
    pub fn code(&self) -> Code {
        match self {
            Self::Restarted { .. } | Self::LeftBehind { .. } => Code::DataLoss,
            Self::Unknown => Code::Unavailable,
        }
    }
}

impl Code {
    /// gRPC's number.
    pub const fn number(self) -> i32 {
        match self {
            Self::OutOfRange => 11,
            Self::Unavailable => 14,
            Self::DataLoss => 15,
        }
    }

    /// gRPC's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn list(ranks: &[(u32, OutOfRange)]) -> String {
    ranks.iter().map(|(rank, reason)| format!("rank {rank}: {reason}")).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_its_code() {
        let range = Refusal::OutOfRange(vec![(2, OutOfRange::Behind { oldest: 7, got: 3 }), (3, OutOfRange::Empty { got: 1 })]);
        assert_eq!((range.code(), range.code().number(), range.code().as_str()), (Code::OutOfRange, 11, "OUT_OF_RANGE"));
        assert_eq!(
            range.to_string(),
            "rank 2: batches are kept from 7 on, got a position at 3; rank 3: nothing was relayed yet, expected no position, got 1"
        );
        assert_eq!(End::Restarted { rank: 1 }.code(), Code::DataLoss);
        assert_eq!(End::LeftBehind { rank: 1, oldest: 2, next: 1 }.code().number(), 15);
        assert_eq!(Refusal::TooManySubscribers { limit: 1 }.code(), Code::Unavailable);
    }
}
