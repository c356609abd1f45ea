//! What a sequence of payloads can do to a stream's state and to the index behind it.

use kv_events::wire::decode_batch;
use kv_events::{Batch, CopyRule, Stream, StreamOptions};
use kv_index::testing::{assert_same, holdings};
use kv_index::{Index, ReferenceIndex};

/// Any batches, in any order, leave an index whose digests are those of its holdings, the same each time; a clear and
/// a drop leave nothing.
pub fn stream(data: &[u8]) {
    let Some((&flags, rest)) = data.split_first() else { return };
    let batches: Vec<Batch> = split(rest).into_iter().map(decode_batch).collect();
    let (index, again) = (ReferenceIndex::new(), ReferenceIndex::new());
    let mut stream = applied(&index, flags, &batches);
    let twin = applied(&again, flags, &batches);
    assert_same(&index, &again);
    assert_eq!((stream.counts(), stream.profile()), (twin.counts(), twin.profile()));
    stream.clear();
    assert!(holdings(&index, stream.worker()).is_empty());
    assert_eq!((stream.counted_copies(), stream.waiting_blocks()), (0, 0));
    drop(stream);
    assert!(index.workers().is_empty());
}

fn applied<I: Index>(index: &I, flags: u8, batches: &[Batch]) -> Stream<I::Worker> {
    let options = StreamOptions {
        copies: if flags & 1 == 0 { CopyRule::Counted } else { CopyRule::Reannounced },
        device_views: flags & 2 != 0,
        ..StreamOptions::default()
    };
    let mut stream = Stream::new(index.add_worker().expect("an empty index"), options);
    for batch in batches {
        stream.apply(batch);
    }
    stream
}

/// Each payload behind two bytes of its length, little-endian; the last one may be shorter than that says.
fn split(mut data: &[u8]) -> Vec<&[u8]> {
    let mut payloads = Vec::new();
    while let Some((len, rest)) = data.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len));
        let (payload, rest) = rest.split_at(rest.len().min(len));
        payloads.push(payload);
        data = rest;
    }
    payloads
}
