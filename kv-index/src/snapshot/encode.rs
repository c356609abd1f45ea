//! Records into bytes. [`super`] has the layouts.

use crate::{BlockName, ContentHash, Digest};

/// A record's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Worker = 1,
    Stretch = 2,
    Held = 3,
    HeldOtherwise = 4,
    WorkerEnd = 5,
    End = 6,
}

/// A worker begins. `bytes` are at most `SNAPSHOT_WORKER_BYTES_MAX`.
pub(super) fn worker(out: &mut Vec<u8>, views: u8, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("at most SNAPSHOT_WORKER_BYTES_MAX");
    out.extend([Kind::Worker as u8, views]);
    out.extend(length.to_le_bytes());
    out.extend(bytes);
}

/// What a stretch's record begins with: where the stretch is.
pub(super) fn stretch(out: &mut Vec<u8>, parent: u32, after: u8) {
    out.push(Kind::Stretch as u8);
    out.extend(parent.to_le_bytes());
    out.push(after);
}

/// The rest of it: what is there, whatever stands before. A name for each bit of `agreed`.
pub(super) fn stretch_body(out: &mut Vec<u8>, contents: &[ContentHash], agreed: u64, names: impl Iterator<Item = BlockName>) {
    out.push(u8::try_from(contents.len()).expect("at most STRETCH_PLACES"));
    out.extend(agreed.to_le_bytes());
    contents.iter().for_each(|content| out.extend(content.0.to_le_bytes()));
    names.for_each(|name| out.extend(name.0.to_le_bytes()));
}

/// What the worker holds of a stretch: by the agreed names, or by `names`, one for each bit of `mask`.
pub(super) fn held(out: &mut Vec<u8>, stretch: u32, views: u32, mask: u64, names: Option<&[BlockName]>) {
    out.push(if names.is_some() { Kind::HeldOtherwise } else { Kind::Held } as u8);
    out.extend(stretch.to_le_bytes());
    out.extend(views.to_le_bytes());
    out.extend(mask.to_le_bytes());
    names.into_iter().flatten().for_each(|name| out.extend(name.0.to_le_bytes()));
}

/// A worker ends. One digest for each view.
pub(super) fn worker_end(out: &mut Vec<u8>, digests: impl ExactSizeIterator<Item = Digest>) {
    out.push(Kind::WorkerEnd as u8);
    out.push(u8::try_from(digests.len()).expect("at most VIEWS_MAX"));
    digests.flat_map(|digest| [digest.count, digest.xor, digest.sum]).for_each(|word| out.extend(word.to_le_bytes()));
}

/// The snapshot ends.
pub(super) fn end(out: &mut Vec<u8>) {
    out.push(Kind::End as u8);
}
