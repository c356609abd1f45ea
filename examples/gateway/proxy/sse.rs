//! Cutting a stream of server-sent events into its events, wherever the network cut it into chunks.

use bytes::{Bytes, BytesMut};

/// Bytes that arrived, up to the end of the last whole event.
#[derive(Debug, Default)]
pub(super) struct EventSplitter {
    buffer: BytesMut,
    /// Where the search for the end goes on: what lies before it was searched.
    searched: usize,
}

impl EventSplitter {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole event with the blank line that ends it.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        let Some(end) = end_of_event(&self.buffer, self.searched) else {
            // The end may be cut apart; the longest that is looked for is "\n\r\n".
            self.searched = self.buffer.len().saturating_sub(2);
            return None;
        };
        self.searched = 0;
        Some(self.buffer.split_to(end).freeze())
    }

    /// How much waits for the rest of its event.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// What waits, whole or not.
    pub(super) fn take(&mut self) -> Bytes {
        self.searched = 0;
        self.buffer.split().freeze()
    }
}

/// The text after `data:` of an event's only data line. OpenAI's API has one in every event.
pub(super) fn data(event: &[u8]) -> Option<&[u8]> {
    let lines = event.split(|byte| matches!(byte, b'\n' | b'\r'));
    let mut data = lines.filter_map(|line| line.strip_prefix(b"data:"));
    let first = data.next()?;
    data.next().is_none().then(|| first.strip_prefix(b" ").unwrap_or(first))
}

/// Where the first event from `start` on ends: after a blank line, with line ends of `\n`, `\r\n` or `\r`.
fn end_of_event(bytes: &[u8], start: usize) -> Option<usize> {
    let ends = [&b"\n\n"[..], b"\n\r\n", b"\r\r"];
    (start..bytes.len()).find_map(|at| ends.iter().find(|end| bytes[at..].starts_with(end)).map(|end| at + end.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> (Vec<Bytes>, Bytes) {
        let mut splitter = EventSplitter::default();
        let mut events = Vec::new();
        for chunk in chunks {
            splitter.push(chunk);
            events.extend(std::iter::from_fn(|| splitter.next()));
        }
        (events, splitter.take())
    }

    #[test]
    fn events_are_the_same_wherever_the_chunks_end() {
        for end in ["\n\n", "\r\n\r\n", "\r\r"] {
            let stream = ["data: {\"a\":1}", end, ": ping", end, "data: [DONE]", end, "data: cut"].concat();
            let (whole, rest) = split(&[stream.as_bytes()]);
            assert_eq!(whole.len(), 3, "{end:?}: {whole:?}");
            assert_eq!(rest, "data: cut");
            for at in 0..stream.len() {
                let (left, right) = stream.as_bytes().split_at(at);
                let (events, rest) = split(&[left, right]);
                assert_eq!([events.concat(), rest.to_vec()].concat(), stream.as_bytes(), "no byte is lost at {at}");
                let data =
                    |events: &[Bytes]| events.iter().filter_map(|event| data(event).map(<[u8]>::to_vec)).collect::<Vec<_>>();
                assert_eq!(data(&events), data(&whole), "cut at {at} of {end:?}");
            }
        }
    }

    #[test]
    fn data_is_one_line() {
        assert_eq!(data(b"data: x\n\n"), Some(&b"x"[..]));
        assert_eq!(data(b"event: error\r\ndata:{}\r\n\r\n"), Some(&b"{}"[..]));
        assert_eq!(data(b"data: x\ndata: y\n\n"), None);
        assert_eq!(data(b": ping\n\n"), None);
    }
}
