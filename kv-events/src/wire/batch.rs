//! The batch around the events: `[timestamp, events, rank]`.

use super::reader::{Reader, Result, Shape, Unreadable};
use super::{array, map};
use crate::event::{Batch, Event};
use crate::limits::{EVENTS_MAX, PAYLOAD_BYTES_MAX};
use crate::loss::Loss;

/// Decodes one payload of any engine's msgpack wire. Never fails: what could not be read is counted in the batch's losses.
///
/// * The payload is an array of the timestamp, the events and (on all but the oldest wires) the rank; more is ignored.
///   Anything else is an empty batch with one [`Loss::UnreadablePayload`]; one longer than [`PAYLOAD_BYTES_MAX`] is an
///   empty batch with one [`Loss::OverLimit`].
/// * An event is a tag-first array or a map with a `type` key, in any order of keys. Unknown keys and trailing slots are
///   skipped. An unknown tag is one [`Loss::UnknownType`].
/// * A field that cannot be read, required or not, costs its event: one [`Loss::Malformed`]. There is one exception, because a
///   slot has no name: an optional slot of an array that holds another family of value than its place demands (a map where
///   a medium stands) is taken for a field of a build that we do not know, and that slot and all after it are skipped.
/// * A payload that is cut off keeps the events that were wholly read; all the rest is one [`Loss::Malformed`].
/// * A rank beyond 32 bits is absent, and one [`Loss::Malformed`].
///
/// Decoding asks the allocator for at most [`ALLOCATION_FACTOR`](crate::limits::ALLOCATION_FACTOR) bytes at a time for each
/// byte of the payload, and uses a fixed amount of stack.
pub fn decode_batch(payload: &[u8]) -> Batch {
    let mut batch = Batch::default();
    if payload.len() > PAYLOAD_BYTES_MAX {
        batch.losses.add(Loss::OverLimit);
        return batch;
    }
    let mut reader = Reader::new(payload);
    match read_header(&mut reader) {
        Ok(header) => read_body(&mut reader, &header, &mut batch),
        Err(Unreadable) => batch.losses.add(Loss::UnreadablePayload),
    }
    batch
}

/// What stands in front of the first event.
struct Header {
    fields: usize,
    timestamp_s: f64,
    events: usize,
}

/// What an event announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Stored,
    Removed,
    Cleared,
}

impl Tag {
    /// Reads an event's tag.
    pub(super) fn read(reader: &mut Reader) -> Result<Self, Loss> {
        match reader.body()? {
            b"BlockStored" => Ok(Self::Stored),
            b"BlockRemoved" => Ok(Self::Removed),
            b"AllBlocksCleared" => Ok(Self::Cleared),
            _ => Err(Loss::UnknownType),
        }
    }
}

fn read_header(reader: &mut Reader) -> Result<Header> {
    let fields = reader.array_len()?;
    if fields < 2 {
        return Err(Unreadable);
    }
    let timestamp_s = read_timestamp(reader)?;
    Ok(Header { fields, timestamp_s, events: reader.array_len()? })
}

/// An unreadable timestamp is 0: nothing depends on it that would justify losing the batch.
fn read_timestamp(reader: &mut Reader) -> Result<f64> {
    let start = *reader;
    if let Some(seconds) = reader.f64().ok().filter(|seconds| seconds.is_finite()) {
        return Ok(seconds);
    }
    *reader = start;
    reader.skip().map(|()| 0.0)
}

fn read_body(reader: &mut Reader, header: &Header, batch: &mut Batch) {
    batch.timestamp_s = header.timestamp_s;
    if read_events(reader, header.events, batch).is_err() {
        return batch.losses.add(Loss::Malformed);
    }
    if header.fields > 2 {
        match reader.nullable(Reader::u32) {
            Ok(rank) => batch.rank = rank,
            Err(Unreadable) => batch.losses.add(Loss::Malformed),
        }
    }
}

/// Reads `declared` events. Fails where the end of one cannot be found, and thus nothing behind it.
fn read_events(reader: &mut Reader, declared: usize, batch: &mut Batch) -> Result<()> {
    let kept = declared.min(EVENTS_MAX);
    batch.events.reserve_exact(kept.min(reader.remaining() / EVENT_BYTES_MIN));
    for _ in 0..kept {
        let start = *reader;
        match read_event(reader) {
            Ok(event) => batch.events.push(event),
            Err(loss) => {
                *reader = start;
                reader.skip()?;
                batch.losses.add(loss);
            }
        }
    }
    reader.skip_many(declared - kept)?;
    batch.losses.add_many(Loss::OverLimit, (declared - kept) as u64);
    Ok(())
}

fn read_event(reader: &mut Reader) -> Result<Event, Loss> {
    match reader.shape()? {
        Shape::Array => array::read_event(reader),
        Shape::Map => map::read_event(reader),
        _ => Err(Loss::Malformed),
    }
}

/// The shortest event that can be read: `["BlockRemoved", []]`.
const EVENT_BYTES_MIN: usize = 15;

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use super::*;
    use crate::event::{Cleared, ExtraKey, Stored};
    use crate::limits::ALLOCATION_FACTOR;

    /// `["BlockStored", [], null, [], 0]`
    const STORE_BYTES_MIN: usize = 17;

    #[test]
    fn the_allocation_factor_covers_events_and_the_costliest_element() {
        // Room for events is reserved ahead, while any other byte may be a store's or an element's. All other elements are
        // smaller: a hash is 16 bytes for one, a token 4 for one, a pair 8 for three.
        let reserved = size_of::<Event>().div_ceil(EVENT_BYTES_MIN);
        let store = size_of::<Stored>().div_ceil(STORE_BYTES_MIN);
        let unknown_key = size_of::<ExtraKey>() + 1;
        assert!(reserved + store.max(unknown_key) <= ALLOCATION_FACTOR, "{reserved} + {store} or {unknown_key}");
    }

    #[test]
    fn what_is_no_batch_is_an_empty_batch() {
        for payload in [&b""[..], b"\xc0", b"\x90", b"\x91\x01", b"\x92\x01", b"\x92\x01\xc0", b"\x93\x01\x80\x00", b"\xc1"] {
            let batch = decode_batch(payload);
            assert!(batch.events.is_empty());
            assert_eq!((batch.losses.count(Loss::UnreadablePayload), batch.losses.total()), (1, 1), "{payload:x?}");
        }
    }

    #[test]
    fn ranks_may_be_missing_null_or_out_of_range() {
        assert_eq!(decode_batch(b"\x92\x01\x90").rank, None);
        assert_eq!(decode_batch(b"\x93\x01\x90\xc0").rank, None);
        assert_eq!(decode_batch(b"\x93\x01\x90\x05").rank, Some(5));
        assert_eq!(decode_batch(b"\x95\x01\x90\x05\xa1x\x80").rank, Some(5));
        let batch = decode_batch(b"\x93\x01\x90\xff");
        assert_eq!((batch.rank, batch.losses.count(Loss::Malformed)), (None, 1));
    }

    #[test]
    fn timestamps_are_of_any_number_and_never_fatal() {
        let events = b"\x91\x91\xb0AllBlocksCleared";
        for (timestamp, seconds) in
            [(&b"\x05"[..], 5.0), (b"\xca\x3f\xc0\x00\x00", 1.5), (b"\xa1x", 0.0), (b"\xca\x7f\xc0\x00\x00", 0.0)]
        {
            let batch = decode_batch(&[b"\x92", timestamp, events].concat());
            assert_eq!(batch.timestamp_s.to_bits(), f64::to_bits(seconds));
            assert_eq!(batch.events, [Event::Cleared(Cleared::default())]);
        }
    }

    #[test]
    fn events_beyond_the_limit_are_counted_and_the_rank_is_still_read() {
        let declared = u32::try_from(EVENTS_MAX + 3).expect("a limit of 20 bits");
        let mut payload = [b"\x93\x01\xdd", &declared.to_be_bytes()[..]].concat();
        payload.resize(payload.len() + EVENTS_MAX + 3, 0xc0);
        payload.push(9);
        let batch = decode_batch(&payload);
        assert_eq!((batch.losses.count(Loss::OverLimit), batch.losses.count(Loss::Malformed)), (3, EVENTS_MAX as u64));
        assert_eq!(batch.rank, Some(9));
    }
}
