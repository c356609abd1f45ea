use std::time::Duration;

use bytes::Bytes;
use kv_events::adapter::zmq::limits::QUEUE_MESSAGES_MAX;
use kv_events::adapter::zmq::{Endpoint, LinkError, Replay, ReplayEnd, ReplayEvent, ReplayOptions};
use tokio::time::Instant;
use zeromq::{Socket, SocketRecv, SocketSend, ZmqMessage};

use super::peers::{Raw, listener, message, nobody};
use super::within;

const END: [u8; 8] = [0xff; 8];

/// All answers, and how they ended.
async fn replayed(endpoint: &Endpoint, start: u64, options: ReplayOptions) -> (Vec<Vec<Bytes>>, ReplayEnd) {
    let (mut answers, mut replaying) = (Vec::new(), Replay::new(endpoint.clone(), options).request(start));
    loop {
        match within("an answer", replaying.next()).await {
            ReplayEvent::Message(frames) => answers.push(frames),
            ReplayEvent::End(end) => return (answers, end),
        }
    }
}

/// A ROUTER of the `zeromq` crate that answers one request with `answers`, each behind the client's identity, and then stays.
async fn router(answers: Vec<Vec<Vec<u8>>>) -> (Endpoint, tokio::task::JoinHandle<Bytes>) {
    let mut router = zeromq::RouterSocket::new();
    let endpoint = router.bind("tcp://127.0.0.1:0").await.unwrap().to_string().parse().unwrap();
    let served = tokio::spawn(async move {
        let request = router.recv().await.unwrap();
        assert_eq!(request.len(), 3, "identity, delimiter, start");
        assert!(request.get(1).unwrap().is_empty());
        for answer in answers {
            router.send(addressed(request.get(0).unwrap(), &answer)).await.unwrap();
        }
        let start = request.get(2).unwrap().clone();
        let _stays = tokio::spawn(async move { router.recv().await });
        start
    });
    (endpoint, served)
}

fn addressed(identity: &Bytes, answer: &[Vec<u8>]) -> ZmqMessage {
    let frames: Vec<&[u8]> = std::iter::once(&identity[..]).chain(answer.iter().map(Vec::as_slice)).collect();
    message(&frames)
}

/// An answer of vLLM from 0.26 and SGLang from 0.5.22, with the topic.
fn new_layout(seq: [u8; 8], payload: &[u8]) -> Vec<Vec<u8>> {
    let topic = if seq == END { vec![] } else { b"kv".to_vec() };
    vec![vec![], topic, seq.to_vec(), payload.to_vec()]
}

fn old_layout(seq: [u8; 8], payload: &[u8]) -> Vec<Vec<u8>> {
    vec![vec![], seq.to_vec(), payload.to_vec()]
}

#[tokio::test]
async fn all_answers_of_both_layouts_arrive_and_the_marker_ends_them() {
    for layout in [new_layout, old_layout] {
        // An empty payload under an ordinary number is an answer like any other.
        let sent = vec![layout([7; 8], b"seven"), layout([8; 8], b""), layout([9; 8], &[b'x'; 300_000])];
        let (endpoint, served) = router([sent.clone(), vec![layout(END, b"")]].concat()).await;
        let (answers, end) = replayed(&endpoint, 0x0102_0304, ReplayOptions::default()).await;
        assert!(end.is_complete(), "{end:?}");
        assert_eq!(answers, sent);
        assert_eq!(served.await.unwrap(), [0, 0, 0, 0, 1, 2, 3, 4][..]);
    }
}

#[tokio::test]
async fn nothing_to_replay_is_complete_too() {
    let (endpoint, _served) = router(vec![old_layout(END, b"")]).await;
    let (answers, end) = replayed(&endpoint, u64::MAX, ReplayOptions::default()).await;
    assert!(answers.is_empty() && end.is_complete());
}

#[tokio::test]
async fn the_end_is_told_again_to_who_asks_again() {
    let (endpoint, _served) = router(vec![old_layout(END, b"")]).await;
    let mut replaying = Replay::new(endpoint, ReplayOptions::default()).request(0);
    for _ in 0..3 {
        let event = within("the end", replaying.next()).await;
        assert!(matches!(event, ReplayEvent::End(ReplayEnd::Complete)), "{event:?}");
    }
}

#[tokio::test]
async fn a_dead_socket_is_unreachable_at_once() {
    let (answers, end) = replayed(&nobody().await, 0, ReplayOptions::default()).await;
    assert!(answers.is_empty());
    assert!(matches!(end, ReplayEnd::Unreachable { cause: LinkError::Io(_) }), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_accepts_and_never_speaks_ends_within_its_handshake() {
    let ((_listener, endpoint), since) = (listener().await, Instant::now());
    let (_, end) = replayed(&endpoint, 0, ReplayOptions::default()).await;
    assert!(matches!(end, ReplayEnd::Unreachable { cause: LinkError::HandshakeTimeout { .. } }), "{end:?}");
    assert_eq!(since.elapsed().as_secs(), 5);
}

#[tokio::test]
async fn silence_before_the_marker_ends_it_with_what_has_come() {
    let (endpoint, _served) = router(vec![new_layout([1; 8], b"one"), new_layout([2; 8], b"two")]).await;
    let options = ReplayOptions { silence_max: Duration::from_millis(100), ..Default::default() };
    let (answers, end) = replayed(&endpoint, 1, options).await;
    assert_eq!(answers.len(), 2);
    assert!(matches!(end, ReplayEnd::Silent { after_ms: 100 }), "{end:?}");
}

#[tokio::test]
async fn a_peer_that_never_ends_is_ended_by_the_deadline() {
    let (listener, endpoint) = listener().await;
    let drip = tokio::spawn(async move {
        let mut peer = Raw::accept(&listener, "ROUTER", 1).await;
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        while peer.stream.writable().await.is_ok() {
            tick.tick().await;
            peer.send([["", "1234567", "payload"]]).await;
        }
    });
    let options = ReplayOptions { total_max: Duration::from_millis(300), ..Default::default() };
    let (answers, end) = replayed(&endpoint, 1, options).await;
    assert!(!answers.is_empty());
    assert!(matches!(end, ReplayEnd::Overdue { after_ms: 300 }), "{end:?}");
    drip.abort();
}

#[tokio::test]
async fn a_reader_that_does_not_read_cannot_hold_it_beyond_the_deadline() {
    let (listener, endpoint) = listener().await;
    let options = ReplayOptions { total_max: Duration::from_millis(300), ..Default::default() };
    let mut replaying = Replay::new(endpoint, options).request(0);
    let mut peer = Raw::accept(&listener, "ROUTER", 1).await;
    peer.send(vec![["", "1234567", "payload"]; QUEUE_MESSAGES_MAX + 2]).await;
    within("the end of the connection", peer.read_to_end()).await;
    for _ in 0..QUEUE_MESSAGES_MAX {
        assert!(matches!(replaying.next().await, ReplayEvent::Message(_)), "what has come is kept");
    }
    assert!(matches!(replaying.next().await, ReplayEvent::End(ReplayEnd::Overdue { .. })));
}

#[tokio::test]
async fn too_many_answers_and_too_many_bytes_end_it() {
    let sent: Vec<_> = (0..10).map(|n| old_layout([n; 8], &[b'x'; 90])).collect();
    for (options, taken) in [
        (ReplayOptions { messages_max: 4, ..Default::default() }, 4),
        (ReplayOptions { bytes_max: 300, ..Default::default() }, 3),
    ] {
        let (endpoint, _served) = router(sent.clone()).await;
        let (answers, end) = replayed(&endpoint, 0, options).await;
        assert_eq!(answers.len(), taken);
        assert!(
            matches!(end, ReplayEnd::TooLarge { messages, bytes } if messages == taken + 1 && bytes == 98 * (taken + 1)),
            "{end:?}"
        );
    }
}

#[tokio::test]
async fn a_publisher_that_dies_half_way_breaks_it() {
    let (listener, endpoint) = listener().await;
    let half = tokio::spawn(async move {
        let mut peer = Raw::accept(&listener, "ROUTER", 1).await;
        peer.wait_for(&9_u64.to_be_bytes()).await;
        peer.send([["", "1234567", "payload"]]).await;
    });
    let (answers, end) = replayed(&endpoint, 9, ReplayOptions::default()).await;
    half.await.unwrap();
    assert_eq!(answers.len(), 1);
    assert!(matches!(end, ReplayEnd::Broken { cause: LinkError::Closed }), "{end:?}");
}
