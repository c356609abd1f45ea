//! What an engine, or whoever answers at its address, can put on the wire.

use kv_events::wire::decode_batch;
use kv_events::wire::frame::{Message, ReplayAnswer, live, replayed_to_dealer, replayed_to_req};
use kv_events::wire::trtllm::Decoder;
use kv_events::{Batch, Event, Stored, Tokens};

/// Any payload decodes, and to no more than its bytes can spell out: nothing was allocated on a length's word alone.
pub fn wire_batch(payload: &[u8]) {
    let batch = decode_batch(payload);
    let items = items(&batch);
    assert!(items <= payload.len(), "{items} items of {} bytes", payload.len());
}

/// Any texts decode, one drain of an engine after the other, and to no more than their bytes can spell out.
pub fn trtllm_json(data: &[u8]) {
    let mut decoder = Decoder::default();
    for text in data.split(|&byte| byte == b'\n') {
        let drain = decoder.decode(text);
        let items: usize = drain.updates.iter().map(|update| 1 + items(&update.batch)).sum();
        assert!(items <= text.len(), "{items} items of {} bytes", text.len());
    }
}

/// Any frames read, or are refused, in the same way from every socket, and lend what they hold.
pub fn wire_frames(data: &[u8]) {
    let frames = split(data);
    let to_req = replayed_to_req(&frames);
    let delimited: Vec<&[u8]> = [&b""[..]].into_iter().chain(frames.iter().copied()).collect();
    let to_dealer = replayed_to_dealer(&delimited);
    assert_eq!(to_req.as_ref().ok(), to_dealer.as_ref().ok(), "a DEALER sees the delimiter, and nothing else differs");
    let Ok(message) = live(&frames) else {
        assert!(to_req.is_err(), "{frames:?}");
        return;
    };
    check_borrowed(&frames, &message);
    let answer = if message.sequence == u64::MAX { ReplayAnswer::End } else { ReplayAnswer::Batch(message) };
    assert_eq!(to_req, Ok(answer));
}

fn check_borrowed(frames: &[&[u8]], message: &Message<'_>) {
    assert_eq!(frames.last(), Some(&message.payload));
    assert!(message.topic.is_empty() || frames[0] == message.topic, "{frames:?}");
    assert!(frames.contains(&&message.sequence.to_be_bytes()[..]), "{frames:?}");
}

/// Each frame behind a byte of its length; the last one may be shorter than that says.
fn split(mut data: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some((&len, rest)) = data.split_first() {
        let (frame, rest) = rest.split_at(rest.len().min(len.into()));
        frames.push(frame);
        data = rest;
    }
    frames
}

/// Events, hashes, tokens and keys: each takes a byte of the payload at the least.
fn items(batch: &Batch) -> usize {
    let of = |event: &Event| match event {
        Event::Stored(stored) => stored_items(stored),
        Event::Removed(removed) => removed.hashes.len(),
        Event::Cleared(_) => 0,
    };
    batch.events.iter().map(|event| 1 + of(event)).sum()
}

fn stored_items(stored: &Stored) -> usize {
    let tokens = match &stored.tokens {
        Tokens::Ids(ids) => ids.len(),
        Tokens::Bigrams(pairs) => 2 * pairs.len(),
    };
    let keys = stored.extra_keys.iter().flatten().map(Vec::len).sum::<usize>();
    let lookahead = stored.lookahead.iter().flatten().map(Vec::len).sum::<usize>();
    stored.hashes.len() + tokens + keys + lookahead + stored.components.len()
}
