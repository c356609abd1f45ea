//! Reading the usage of a streamed answer while it passes by.

use bytes::{Bytes, BytesMut};

use super::sse::{EventSplitter, data};
use super::usage::Usage;
use crate::gateway::limits::STREAM_EVENT_BYTES_MAX;

/// Takes an engine's chunks and gives the client's.
///
/// A client that asked for its usage itself gets every byte as it came, at once. For one that did not, the gateway asked,
/// and takes the event that holds the usage alone out again; there, bytes pass event by event.
#[derive(Debug)]
pub(super) struct Sniffer {
    events: EventSplitter,
    hides_usage: bool,
    /// An event was longer than [`STREAM_EVENT_BYTES_MAX`]: what follows cannot be told apart from it any more.
    gave_up: bool,
    usage: Option<Usage>,
}

impl Sniffer {
    pub(super) fn new(hides_usage: bool) -> Self {
        Self { events: EventSplitter::default(), hides_usage, gave_up: false, usage: None }
    }

    /// The latest usage that passed.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// What of the stream the client gets when `chunk` has come. Possibly nothing yet.
    pub(super) fn pass(&mut self, chunk: Bytes) -> Bytes {
        if self.gave_up {
            return chunk;
        }
        self.events.push(&chunk);
        let shown = self.read_events();
        if self.events.waiting_bytes() > STREAM_EVENT_BYTES_MAX {
            self.gave_up = true;
            let rest = self.events.take();
            return if self.hides_usage { [shown, rest].concat().into() } else { chunk };
        }
        if self.hides_usage { shown } else { chunk }
    }

    /// What the client has not got when the engine's stream has ended.
    pub(super) fn finish(&mut self) -> Bytes {
        if self.hides_usage { self.events.take() } else { Bytes::new() }
    }

    /// Reads the whole events, and returns those that are not hidden.
    fn read_events(&mut self) -> Bytes {
        let mut shown = BytesMut::new();
        while let Some(event) = self.events.next() {
            let hidden = self.read(&event) && self.hides_usage;
            if self.hides_usage && !hidden {
                shown.extend_from_slice(&event);
            }
        }
        shown.freeze()
    }

    /// Reads one event; whether it holds the usage and nothing else.
    fn read(&mut self, event: &[u8]) -> bool {
        // Nearly every event is without, and need not be parsed.
        let named = event.windows(USAGE_KEY.len()).any(|window| window == USAGE_KEY);
        let Some((usage, alone)) = named.then(|| data(event)).flatten().and_then(Usage::of_event) else { return false };
        self.usage = Some(usage);
        alone
    }
}

const USAGE_KEY: &[u8] = br#""usage""#;

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: &str = "data: {\"choices\":[{\"text\":\"hi\"}],\"usage\":null}\n\n";
    const USAGE: &str =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":64,\"prompt_tokens_details\":{\"cached_tokens\":48}}}\n\n";
    const DONE: &str = "data: [DONE]\n\n";
    const EXPECTED: Option<Usage> = Some(Usage { prompt_tokens: 64, cached_tokens: Some(48) });

    /// What the client gets, and the usage, when the stream comes in pieces of `piece` bytes.
    fn relay(stream: &str, piece: usize, hides_usage: bool) -> (String, Option<Usage>) {
        let mut sniffer = Sniffer::new(hides_usage);
        let chunks = stream.as_bytes().chunks(piece);
        let mut got: Vec<u8> = chunks.flat_map(|chunk| sniffer.pass(Bytes::copy_from_slice(chunk))).collect();
        got.extend_from_slice(&sniffer.finish());
        (String::from_utf8(got).unwrap(), sniffer.usage())
    }

    #[test]
    fn a_client_that_asked_gets_every_byte() {
        let stream = [CONTENT, CONTENT, USAGE, DONE].concat();
        for piece in 1..=stream.len() {
            assert_eq!(relay(&stream, piece, false), (stream.clone(), EXPECTED), "pieces of {piece}");
        }
    }

    #[test]
    fn a_client_that_did_not_ask_gets_all_but_the_usage() {
        let stream = [CONTENT, CONTENT, USAGE, DONE].concat();
        for piece in 1..=stream.len() {
            let (got, usage) = relay(&stream, piece, true);
            assert_eq!(got, [CONTENT, CONTENT, DONE].concat(), "pieces of {piece}");
            assert_eq!(usage, EXPECTED);
        }
    }

    #[test]
    fn usage_beside_content_is_read_and_shown() {
        let event = "data: {\"choices\":[{\"text\":\"x\"}],\"usage\":{\"prompt_tokens\":5}}\n\n";
        let usage = Usage { prompt_tokens: 5, cached_tokens: None };
        assert_eq!(relay(event, 7, true), (event.to_owned(), Some(usage)));
    }

    #[test]
    fn a_stream_that_breaks_off_is_passed_to_its_last_byte() {
        let stream = [CONTENT, "data: {\"cho"].concat();
        assert_eq!(relay(&stream, 5, true), (stream, None));
    }

    #[test]
    fn an_endless_event_is_not_kept() {
        let mut sniffer = Sniffer::new(true);
        let chunk = Bytes::from(vec![b'x'; STREAM_EVENT_BYTES_MAX / 2 + 1]);
        assert!(sniffer.pass(chunk.clone()).is_empty());
        assert_eq!(sniffer.pass(chunk.clone()).len(), 2 * chunk.len());
        assert_eq!(sniffer.events.waiting_bytes(), 0);
        assert_eq!(sniffer.pass(chunk.clone()), chunk);
    }
}
