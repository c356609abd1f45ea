//! What a gRPC status says of the engine.

use tonic::{Code, Status};

use crate::adapter::tokio::{PollError, PollFailure};

/// The status as the failure of a question.
pub(super) fn error(status: Status) -> PollError {
    PollError::new(failure(status.code()), status)
}

fn failure(code: Code) -> PollFailure {
    match code {
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Aborted => PollFailure::Transport,
        Code::DeadlineExceeded => PollFailure::Late,
        Code::Unimplemented => PollFailure::Unsupported,
        _ => PollFailure::Engine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1.8 of the rules.
    #[test]
    fn four_codes_are_transport_failures() {
        let of = |kind| (0..=16).map(Code::from_i32).filter(|code| failure(*code) == kind).collect::<Vec<_>>();
        assert_eq!(of(PollFailure::Transport), [Code::Cancelled, Code::Unknown, Code::Aborted, Code::Unavailable]);
        assert_eq!(of(PollFailure::Late), [Code::DeadlineExceeded]);
        assert_eq!(of(PollFailure::Unsupported), [Code::Unimplemented]);
        assert_eq!(of(PollFailure::Engine).len(), 11);
    }
}
