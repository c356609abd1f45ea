//! Answers requests for batches that went by.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use zeromq::{RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage, ZmqResult};

use super::buffer::ReplayBuffer;
use crate::mock_engine::config::ReplayLayout;
use crate::mock_engine::limits;

/// Serves until `stop`. One request at a time, like the publisher thread of a real engine.
pub(super) async fn serve(
    mut router: RouterSocket,
    buffer: Arc<Mutex<ReplayBuffer>>,
    layout: ReplayLayout,
    topic: Bytes,
    stop: CancellationToken,
) {
    while let Some(Ok(message)) = stop.run_until_cancelled(router.recv()).await {
        let Some(request) = Request::parse(&message) else { continue };
        let batches = buffer.lock().since(request.start);
        let answer = answer(&mut router, &request.client, batches, layout, &topic);
        // A client that does not read, or went away, gets no end marker: the others come first.
        let _ = tokio::time::timeout(limits::REPLAY_STALL, answer).await;
    }
    router.unbind_all().await;
}

struct Request {
    client: Bytes,
    start: u64,
}

impl Request {
    /// Exactly identity, empty delimiter and start; anything else gets no answer. The start may have any length.
    fn parse(message: &ZmqMessage) -> Option<Self> {
        let (3, Some(client), Some(delimiter), Some(start)) = (message.len(), message.get(0), message.get(1), message.get(2))
        else {
            return None;
        };
        let significant = start.iter().skip_while(|&&byte| byte == 0);
        let start = if significant.clone().count() > size_of::<u64>() {
            u64::MAX
        } else {
            significant.fold(0, |start, &byte| start << 8 | u64::from(byte))
        };
        delimiter.is_empty().then(|| Self { client: client.clone(), start })
    }
}

async fn answer(
    router: &mut RouterSocket,
    client: &Bytes,
    batches: Vec<(u64, Bytes)>,
    layout: ReplayLayout,
    topic: &Bytes,
) -> ZmqResult<()> {
    for (sequence, payload) in batches {
        router.send(reply(client, layout, topic, sequence, payload)).await?;
    }
    router.send(reply(client, layout, &Bytes::new(), END_SEQUENCE, Bytes::new())).await
}

fn reply(client: &Bytes, layout: ReplayLayout, topic: &Bytes, sequence: u64, payload: Bytes) -> ZmqMessage {
    let mut message = ZmqMessage::from(client.clone());
    message.push_back(Bytes::new());
    if layout == ReplayLayout::WithTopic {
        message.push_back(topic.clone());
    }
    message.push_back(Bytes::copy_from_slice(&sequence.to_be_bytes()));
    message.push_back(payload);
    message
}

/// -1 as eight bytes: nothing follows.
const END_SEQUENCE: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn start_of(frames: &[&'static [u8]]) -> Option<u64> {
        let frames: Vec<Bytes> = frames.iter().map(|&frame| Bytes::from_static(frame)).collect();
        Request::parse(&ZmqMessage::try_from(frames).unwrap()).map(|request| request.start)
    }

    #[test]
    fn requests_are_exact_in_frames_and_free_in_length() {
        assert_eq!(start_of(&[b"me", b"", &[0, 0, 0, 0, 0, 0, 1, 2]]), Some(258));
        assert_eq!(start_of(&[b"me", b"", b""]), Some(0));
        assert_eq!(start_of(&[b"me", b"", &[7]]), Some(7));
        assert_eq!(start_of(&[b"me", b"", &[1; 9]]), Some(u64::MAX));
        assert_eq!(start_of(&[b"me", b"x", &[7]]), None);
        assert_eq!(start_of(&[b"me", &[7]]), None);
        assert_eq!(start_of(&[b"me", b"", &[7], b""]), None);
    }

    #[test]
    fn both_layouts_end_in_sequence_and_payload() {
        let frames = |layout| reply(&Bytes::from("me"), layout, &Bytes::from("t"), 5, Bytes::from("p")).into_vec();
        let sequence = &5_u64.to_be_bytes()[..];
        assert_eq!(frames(ReplayLayout::WithTopic), [&b"me"[..], b"", b"t", sequence, b"p"]);
        assert_eq!(frames(ReplayLayout::Bare), [&b"me"[..], b"", sequence, b"p"]);
    }
}
