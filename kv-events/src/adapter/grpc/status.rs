//! The ends of a stream in gRPC's words, and what its reader does about them.
//!
//! | status | from our server when | its reader |
//! |---|---|---|
//! | `OUT_OF_RANGE`, `DATA_LOSS` | a position cannot be resumed; a life ended, or the reader was left behind | [`Remedy::Relearn`], at once |
//! | `UNIMPLEMENTED` | the other end is no relay, or has no such service | [`Remedy::Stop`] |
//! | `UNAVAILABLE`, `UNKNOWN`, `CANCELLED`, `ABORTED` | it stops, is full, or the connection broke | [`Remedy::Reconnect`] after a pause: the engine may be unreachable |
//! | others | a request that makes no sense (`INVALID_ARGUMENT`); a relay that failed (`INTERNAL`) | [`Remedy::Retry`] after a pause |

use tonic::{Code, Status};

use super::message::MessageError;
use crate::adapter::hub::SubscribeError;
use crate::relay::{self, End};

/// What a reader does about the end of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Drops what it holds, and subscribes from the beginning at once.
    Relearn,
    /// Nothing: asking again would bring the same.
    Stop,
    /// Subscribes again behind its position after a pause. That the engine can be reached is in doubt.
    Reconnect,
    /// The same; the engine is not in doubt.
    Retry,
}

impl Remedy {
    /// What `code` asks for.
    pub fn of(code: Code) -> Self {
        match code {
            Code::OutOfRange | Code::DataLoss => Self::Relearn,
            Code::Unimplemented => Self::Stop,
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Aborted => Self::Reconnect,
            _ => Self::Retry,
        }
    }
}

fn code(code: relay::Code) -> Code {
    match code {
        relay::Code::OutOfRange => Code::OutOfRange,
        relay::Code::DataLoss => Code::DataLoss,
        relay::Code::Unavailable => Code::Unavailable,
    }
}

/// Why a subscription does not begin.
pub(super) fn refused(error: &SubscribeError) -> Status {
    match error {
        SubscribeError::Refused(refusal) => Status::new(code(refusal.code()), refusal.to_string()),
        SubscribeError::Stopped(stopped) => Status::unavailable(stopped.to_string()),
    }
}

/// Why one ended.
pub(super) fn ended(end: End) -> Status {
    Status::new(code(end.code()), end.to_string())
}

/// A request that cannot be read.
pub(super) fn invalid(error: MessageError) -> Status {
    Status::invalid_argument(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::Refusal;

    /// 1.8 of the rules: what each code asks for.
    #[test]
    fn every_code_has_its_remedy() {
        let of = |codes: &[Code]| codes.iter().map(|code| Remedy::of(*code)).collect::<Vec<_>>();
        assert_eq!(of(&[Code::OutOfRange, Code::DataLoss]), [Remedy::Relearn; 2]);
        assert_eq!(of(&[Code::Unimplemented]), [Remedy::Stop]);
        assert_eq!(of(&[Code::Unavailable, Code::Unknown, Code::Cancelled, Code::Aborted]), [Remedy::Reconnect; 4]);
        assert_eq!(of(&[Code::Internal, Code::DeadlineExceeded, Code::InvalidArgument, Code::Ok]), [Remedy::Retry; 4]);
    }

    #[test]
    fn the_relays_codes_are_grpcs() {
        for kind in [relay::Code::OutOfRange, relay::Code::DataLoss, relay::Code::Unavailable] {
            assert_eq!(code(kind) as i32, kind.number());
        }
        let full = refused(&SubscribeError::Refused(Refusal::TooManySubscribers { limit: 2 }));
        assert_eq!((full.code(), full.message()), (Code::Unavailable, "expected at most 2 subscribers, all are there"));
        assert_eq!(ended(End::Restarted { rank: 1 }).code(), Code::DataLoss);
    }
}
