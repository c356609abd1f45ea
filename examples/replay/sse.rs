//! Server-sent events out of a stream of bytes.

use super::limits;

/// Cuts a stream into the data of its events, wherever the network cut it into pieces.
#[derive(Debug, Default)]
pub(super) struct SseReader {
    buffer: Vec<u8>,
    /// How far the buffer holds no end of line.
    searched: usize,
}

/// An event is longer than any that a generation sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl SseReader {
    /// Adds what came and hands every complete `data:` line to `each`.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), TooLong> {
        self.buffer.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(length) = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n') {
            let end = self.searched + length;
            if let Some(data) = data(&self.buffer[start..end]) {
                each(data);
            }
            start = end + 1;
            self.searched = start;
        }
        self.buffer.drain(..start);
        self.searched = self.buffer.len();
        if self.buffer.len() > limits::EVENT_BYTES { Err(TooLong) } else { Ok(()) }
    }
}

fn data(line: &[u8]) -> Option<&[u8]> {
    line.strip_prefix(b"data:").map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_data_lines_count() {
        let mut seen = Vec::new();
        let text = b": ping\r\nevent: x\r\ndata: {\"a\": 1}\r\n\r\ndata:[DONE]\n\ndata: half";
        SseReader::default().push(text, |data| seen.push(String::from_utf8_lossy(data).into_owned())).unwrap();
        assert_eq!(seen, ["{\"a\": 1}", "[DONE]"]);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut reader = SseReader::default();
        assert_eq!(reader.push(&vec![b'x'; limits::EVENT_BYTES + 1], |_| ()), Err(TooLong));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(events in proptest::collection::vec("[a-z]{0,9}", 0..9), piece in 1..7_usize) {
            let text: String = events.iter().map(|event| ["data: ", event, "\n\n"].concat()).collect();
            let (mut reader, mut seen) = (SseReader::default(), Vec::new());
            for bytes in text.as_bytes().chunks(piece) {
                reader.push(bytes, |data| seen.push(String::from_utf8_lossy(data).into_owned())).unwrap();
            }
            prop_assert_eq!(seen, events);
        }
    }
}
