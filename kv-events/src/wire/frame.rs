//! The ZeroMQ messages around the payloads: live ones, and the answers of a replay.
//!
//! | socket | message | frames |
//! | --- | --- | --- |
//! | SUB | live | `[topic, sequence, payload]`, or without the topic |
//! | DEALER | replayed, up to vLLM 0.25 and SGLang 0.5.21, and TokenSpeed | `["", sequence, payload]` |
//! | DEALER | replayed, since | `["", topic, sequence, payload]` |
//! | DEALER | end of a replay, old and new | `["", end, ""]`, `["", "", end, ""]` |
//! | REQ | replayed, and end | the same without the delimiter in front |
//!
//! A sequence is 8 bytes, big-endian; the end marker is the sequence `u64::MAX`. Old and new answers differ in their number of
//! frames only, and so do live and replayed ones: which function to call is known from the socket.

/// One message of a publisher, live or replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What the engine is configured to put in front; empty where the layout has no topic.
    pub topic: &'a [u8],
    /// Counts the batches of one publisher process from 0.
    pub sequence: u64,
    /// What [`decode_batch`](super::decode_batch) decodes.
    pub payload: &'a [u8],
}

/// One answer of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayAnswer<'a> {
    /// A batch that the engine still has.
    Batch(Message<'a>),
    /// Nothing follows. Batches may be missing all the same: check that their sequences are contiguous.
    End,
}

/// Why a message is none of a publisher's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Too few frames or too many.
    #[error("expected {expected} frames in a {message} message, got {got}")]
    Count {
        /// Which message was expected.
        message: &'static str,
        /// How many frames it may have.
        expected: &'static str,
        /// How many came.
        got: usize,
    },
    /// The frame at the sequence's place is of another length.
    #[error("expected a sequence of 8 bytes in frame {frame} of a {message} message, got {got} bytes")]
    SequenceLength {
        /// Which message was expected.
        message: &'static str,
        /// The frame's place, from 0, delimiter included.
        frame: usize,
        /// How long the frame is.
        got: usize,
    },
    /// A DEALER's answer that does not start with an empty frame.
    #[error("expected an empty delimiter in frame 0 of a replay message, got {got} bytes")]
    Delimiter {
        /// How long the frame is.
        got: usize,
    },
}

/// Reads a message of a SUB socket: topic, sequence and payload, or only the latter two.
///
/// # Errors
/// When there are other than 2 or 3 frames, or the sequence is not of 8 bytes.
pub fn live<F: AsRef<[u8]>>(frames: &[F]) -> Result<Message<'_>, FrameError> {
    read_message(frames, 0, LIVE)
}

/// Reads a replay's answer from a DEALER socket, which shows the empty delimiter.
///
/// # Errors
/// When there are other than 3 or 4 frames, the first is not empty, or the sequence is not of 8 bytes.
pub fn replayed_to_dealer<F: AsRef<[u8]>>(frames: &[F]) -> Result<ReplayAnswer<'_>, FrameError> {
    match frames.first().map(|frame| frame.as_ref().len()) {
        None => Err(REPLAY_DEALER.count_error(0)),
        Some(0) => read_message(frames, 1, REPLAY_DEALER).map(ReplayAnswer::from),
        Some(got) => Err(FrameError::Delimiter { got }),
    }
}

/// Reads a replay's answer from a REQ socket, which hides the delimiter. It gets the first answer only.
///
/// # Errors
/// When there are other than 2 or 3 frames, or the sequence is not of 8 bytes.
pub fn replayed_to_req<F: AsRef<[u8]>>(frames: &[F]) -> Result<ReplayAnswer<'_>, FrameError> {
    read_message(frames, 0, REPLAY_REQ).map(ReplayAnswer::from)
}

/// The frames with which a DEALER asks for all batches from `start` on. A REQ sends the second alone.
pub fn replay_request(start: u64) -> [Vec<u8>; 2] {
    [Vec::new(), start.to_be_bytes().to_vec()]
}

impl<'a> From<Message<'a>> for ReplayAnswer<'a> {
    fn from(message: Message<'a>) -> Self {
        if message.sequence == END { Self::End } else { Self::Batch(message) }
    }
}

/// A message's name and size in errors.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    frames: &'static str,
}

impl Kind {
    fn count_error(self, got: usize) -> FrameError {
        FrameError::Count { message: self.name, expected: self.frames, got }
    }
}

/// Reads what follows the first `skipped` frames: an optional topic, the sequence, the payload.
fn read_message<F: AsRef<[u8]>>(frames: &[F], skipped: usize, kind: Kind) -> Result<Message<'_>, FrameError> {
    let (topic, sequence, payload) = match frames.get(skipped..).unwrap_or_default() {
        [sequence, payload] => (&[][..], sequence.as_ref(), payload.as_ref()),
        [topic, sequence, payload] => (topic.as_ref(), sequence.as_ref(), payload.as_ref()),
        _ => return Err(kind.count_error(frames.len())),
    };
    let Ok(bytes) = sequence.try_into() else {
        return Err(FrameError::SequenceLength { message: kind.name, frame: frames.len() - 2, got: sequence.len() });
    };
    Ok(Message { topic, sequence: u64::from_be_bytes(bytes), payload })
}

/// The sequence that ends a replay: eight bytes of 0xff.
const END: u64 = u64::MAX;

const LIVE: Kind = Kind { name: "live", frames: "2 or 3" };
const REPLAY_DEALER: Kind = Kind { name: "replay", frames: "3 or 4" };
const REPLAY_REQ: Kind = Kind { name: "replay", frames: "2 or 3" };

#[cfg(test)]
mod tests {
    use super::*;

    const SEQUENCE: &[u8] = &[0, 0, 0, 0, 0, 0, 1, 2];
    const FF: &[u8] = &[0xff; 8];

    #[test]
    fn live_messages_have_a_topic_or_none() {
        let with = Message { topic: b"kv", sequence: 0x102, payload: b"p" };
        assert_eq!(live(&[&b"kv"[..], SEQUENCE, b"p"]), Ok(with));
        assert_eq!(live(&[SEQUENCE, b"p"]), Ok(Message { topic: b"", ..with }));
        assert_eq!(live(&[Vec::from(SEQUENCE), Vec::from(b"p")]), Ok(Message { topic: b"", ..with }));
    }

    // P19.
    #[test]
    fn replays_have_two_layouts_on_two_sockets() {
        let new = ReplayAnswer::Batch(Message { topic: b"kv", sequence: 0x102, payload: b"p" });
        let old = ReplayAnswer::Batch(Message { topic: b"", sequence: 0x102, payload: b"p" });
        assert_eq!(replayed_to_dealer(&[&b""[..], b"kv", SEQUENCE, b"p"]), Ok(new));
        assert_eq!(replayed_to_dealer(&[&b""[..], SEQUENCE, b"p"]), Ok(old));
        assert_eq!(replayed_to_req(&[&b"kv"[..], SEQUENCE, b"p"]), Ok(new));
        assert_eq!(replayed_to_req(&[SEQUENCE, b"p"]), Ok(old));
        for end in [&[&b""[..], b"", FF, b""][..], &[b"", FF, b""]] {
            assert_eq!(replayed_to_dealer(end), Ok(ReplayAnswer::End));
            assert_eq!(replayed_to_req(&end[1..]), Ok(ReplayAnswer::End));
        }
    }

    #[test]
    fn requests_are_a_delimiter_and_a_big_endian_start() {
        assert_eq!(replay_request(0x102), [vec![], SEQUENCE.to_vec()]);
    }

    #[test]
    fn errors_say_what_was_expected_and_what_came() {
        let text = |error: FrameError| error.to_string();
        assert_eq!(text(live(&[SEQUENCE]).unwrap_err()), "expected 2 or 3 frames in a live message, got 1");
        assert_eq!(text(live::<&[u8]>(&[]).unwrap_err()), "expected 2 or 3 frames in a live message, got 0");
        assert_eq!(text(replayed_to_dealer::<&[u8]>(&[]).unwrap_err()), "expected 3 or 4 frames in a replay message, got 0");
        assert_eq!(
            text(replayed_to_dealer(&[&b""[..], SEQUENCE]).unwrap_err()),
            "expected 3 or 4 frames in a replay message, got 2"
        );
        assert_eq!(
            text(live(&[&b"kv"[..], b"123", b"p"]).unwrap_err()),
            "expected a sequence of 8 bytes in frame 1 of a live message, got 3 bytes"
        );
        assert_eq!(
            text(replayed_to_dealer(&[SEQUENCE, b"p", b"q"]).unwrap_err()),
            "expected an empty delimiter in frame 0 of a replay message, got 8 bytes"
        );
    }
}
