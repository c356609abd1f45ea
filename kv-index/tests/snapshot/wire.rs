//! The layout, written down a second time from its table in the docs: snapshots that no writer would write.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// A snapshot in the making, with right checksums whatever it says.
pub(crate) struct Wire {
    bytes: Vec<u8>,
    checksum: u64,
    payload: Vec<u8>,
}

impl Wire {
    pub(crate) fn new() -> Self {
        let mut bytes = b"\x89kvindex\x01\0\0\0".to_vec();
        let checksum = xxh3_64(&bytes);
        bytes.extend(checksum.to_le_bytes());
        Self { bytes, checksum, payload: Vec::new() }
    }

    /// Adds a record to the frame.
    pub(crate) fn record(mut self, parts: &[&[u8]]) -> Self {
        parts.iter().for_each(|part| self.payload.extend(*part));
        self
    }

    /// Ends the frame.
    pub(crate) fn frame(mut self) -> Self {
        let length = u32::try_from(self.payload.len()).unwrap().to_le_bytes();
        let frame = [&length[..], &self.payload].concat();
        self.checksum = xxh3_64_with_seed(&frame, self.checksum);
        self.bytes.extend(frame);
        self.bytes.extend(self.checksum.to_le_bytes());
        self.payload.clear();
        self
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.frame().bytes
    }

    pub(crate) fn worker(self, views: u8, bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).unwrap();
        self.record(&[&[1, views], &length.to_le_bytes(), bytes])
    }

    /// A stretch whose places all have names: each the content's number.
    pub(crate) fn stretch(self, parent: u32, after: u8, contents: &[u64]) -> Self {
        let named = u64::MAX.unbounded_shr(64 - u32::try_from(contents.len()).unwrap());
        let words: Vec<u8> = contents.iter().chain(contents).flat_map(|word| word.to_le_bytes()).collect();
        let len = u8::try_from(contents.len()).unwrap();
        self.record(&[&[2], &parent.to_le_bytes(), &[after, len], &named.to_le_bytes(), &words])
    }

    pub(crate) fn held(self, stretch: u32, views: u32, mask: u64) -> Self {
        self.record(&[&[3], &stretch.to_le_bytes(), &views.to_le_bytes(), &mask.to_le_bytes()])
    }

    pub(crate) fn held_otherwise(self, stretch: u32, views: u32, mask: u64, names: &[u64]) -> Self {
        let names: Vec<u8> = names.iter().flat_map(|name| name.to_le_bytes()).collect();
        self.record(&[&[4], &stretch.to_le_bytes(), &views.to_le_bytes(), &mask.to_le_bytes(), &names])
    }

    pub(crate) fn worker_end(self, digests: &[kv_index::Digest]) -> Self {
        let words = digests.iter().flat_map(|digest| [digest.count, digest.xor, digest.sum]);
        let words: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        self.record(&[&[5, u8::try_from(digests.len()).unwrap()], &words])
    }

    pub(crate) fn end(self) -> Self {
        self.record(&[&[6]])
    }
}
