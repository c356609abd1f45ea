use std::time::Duration;

use bytes::Bytes;
use kv_events::adapter::zmq::{Endpoint, LinkError, Subscriber, SubscriberEvent, SubscriberOptions, ZmtpError};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, interval};
use zeromq::Socket;

use super::peers::{Raw, listener, nobody, publish, publisher};
use super::within;

fn subscribe(endpoint: &Endpoint) -> Subscriber {
    Subscriber::connect(endpoint.clone(), SubscriberOptions::default())
}

async fn next(subscriber: &mut Subscriber) -> SubscriberEvent {
    within("an event", subscriber.next()).await
}

async fn connected(subscriber: &mut Subscriber) {
    loop {
        match next(subscriber).await {
            SubscriberEvent::Connected => return,
            SubscriberEvent::Unreachable { .. } => {}
            other => panic!("expected a connection, got {other:?}"),
        }
    }
}

async fn disconnected(subscriber: &mut Subscriber) -> LinkError {
    match next(subscriber).await {
        SubscriberEvent::Disconnected { cause } => cause,
        other => panic!("expected a disconnection, got {other:?}"),
    }
}

async fn message(subscriber: &mut Subscriber) -> Vec<Bytes> {
    match next(subscriber).await {
        SubscriberEvent::Message(frames) => frames,
        other => panic!("expected a message, got {other:?}"),
    }
}

/// Publishes `frames` until the subscription has reached the publisher and one copy arrives.
async fn first_copy(publisher: &mut zeromq::PubSocket, frames: &[&[u8]], subscriber: &mut Subscriber) -> Vec<Bytes> {
    let mut again = interval(Duration::from_millis(5));
    loop {
        tokio::select! {
            _ = again.tick() => publish(publisher, frames).await,
            frames = message(subscriber) => return frames,
        }
    }
}

#[tokio::test]
async fn a_publisher_that_comes_late_is_found() {
    let endpoint = nobody().await;
    let mut subscriber = subscribe(&endpoint);
    assert!(matches!(next(&mut subscriber).await, SubscriberEvent::Unreachable { cause: LinkError::Io(_), retry_ms: 100 }));
    let (mut publisher, _) = publisher(&endpoint.to_string()).await;
    connected(&mut subscriber).await;
    let frames = first_copy(&mut publisher, &[b"topic", &[0; 8], b"payload"], &mut subscriber).await;
    assert_eq!(frames, [&b"topic"[..], &[0; 8], b"payload"]);
}

#[tokio::test]
async fn a_publisher_that_restarts_is_found_again_and_the_cut_is_in_its_place() {
    let (mut first, endpoint) = publisher("tcp://127.0.0.1:0").await;
    let mut subscriber = subscribe(&endpoint);
    connected(&mut subscriber).await;
    first_copy(&mut first, &[b"", b"old"], &mut subscriber).await;
    first.close().await;
    while let SubscriberEvent::Message(frames) = next(&mut subscriber).await {
        assert_eq!(frames[1], "old");
    }
    let (mut second, _) = publisher(&endpoint.to_string()).await;
    connected(&mut subscriber).await;
    assert_eq!(first_copy(&mut second, &[b"", b"new"], &mut subscriber).await[1], "new");
}

#[cfg(unix)]
#[tokio::test]
async fn an_ipc_publisher_is_heard() {
    let path = std::env::temp_dir().join(format!("kv-events-{}.sock", std::process::id()));
    let endpoint = format!("ipc://{}", path.display());
    let mut subscriber = subscribe(&endpoint.parse().unwrap());
    assert!(matches!(next(&mut subscriber).await, SubscriberEvent::Unreachable { .. }), "no such path yet");
    let (mut publisher, _) = publisher(&endpoint).await;
    connected(&mut subscriber).await;
    assert_eq!(first_copy(&mut publisher, &[b"", b"here"], &mut subscriber).await[1], "here");
    publisher.close().await;
}

#[tokio::test]
async fn only_the_topic_asked_for_arrives() {
    let (mut publisher, endpoint) = publisher("tcp://127.0.0.1:0").await;
    let options = SubscriberOptions { topic: b"kv@a".to_vec(), ..Default::default() };
    let mut subscriber = Subscriber::connect(endpoint, options);
    connected(&mut subscriber).await;
    first_copy(&mut publisher, &[b"kv@a@model", b"warm"], &mut subscriber).await;
    for topic in [&b"kv@b"[..], b"kv@", b"", b"kv@a2"] {
        publish(&mut publisher, &[topic, b"cold"]).await;
    }
    let mut frames = message(&mut subscriber).await;
    while frames[1] == "warm" {
        frames = message(&mut subscriber).await;
    }
    assert_eq!(frames, ["kv@a2", "cold"]);
}

#[tokio::test]
async fn a_publisher_that_does_not_filter_is_filtered() {
    let (listener, endpoint) = listener().await;
    let options = SubscriberOptions { topic: b"kv".to_vec(), ..Default::default() };
    let mut subscriber = Subscriber::connect(endpoint, options);
    let mut peer = Raw::accept(&listener, "PUB", 1).await;
    peer.wait_for(b"\x04\x0c\x09SUBSCRIBEkv").await;
    peer.send([["other", "0", ""], ["kv", "1", ""]]).await;
    connected(&mut subscriber).await;
    assert_eq!(message(&mut subscriber).await[0], "kv");
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_told_how_much_it_missed() {
    let (listener, endpoint) = listener().await;
    let options = SubscriberOptions { queue_messages_max: 5, ..Default::default() };
    let mut subscriber = Subscriber::connect(endpoint, options);
    let mut peer = Raw::accept(&listener, "PUB", 1).await;
    peer.send([["", "seq", "payload"]; 100]).await;
    peer.settle().await;

    connected(&mut subscriber).await;
    for _ in 0..4 {
        message(&mut subscriber).await;
    }
    assert!(matches!(next(&mut subscriber).await, SubscriberEvent::Lagged { lost: 96 }));
    peer.send([["", "seq", "after"]]).await;
    assert_eq!(message(&mut subscriber).await[2], "after");
}

#[tokio::test]
async fn no_message_is_lost_with_a_cancelled_call() {
    let (listener, endpoint) = listener().await;
    let mut subscriber = subscribe(&endpoint);
    let mut peer = Raw::accept(&listener, "PUB", 0).await;
    connected(&mut subscriber).await;
    let texts: Vec<_> = (0..300).map(|n| n.to_string()).collect();
    let send = async {
        for text in &texts {
            peer.send([["", text, ""]]).await;
            tokio::task::yield_now().await;
        }
    };
    let receive = async {
        let mut arrived = Vec::new();
        while arrived.len() < texts.len() {
            tokio::select! {
                biased;
                SubscriberEvent::Message(frames) = subscriber.next() => arrived.push(frames[1].clone()),
                () = tokio::task::yield_now() => {}
            }
        }
        arrived
    };
    let (arrived, ()) = within("300 messages", async { tokio::join!(receive, send) }).await;
    assert_eq!(arrived, texts);
}

#[tokio::test]
async fn a_length_that_no_memory_holds_ends_the_link_and_nothing_else() {
    let (listener, endpoint) = listener().await;
    let mut subscriber = subscribe(&endpoint);
    let mut peer = Raw::accept(&listener, "PUB", 1).await;
    peer.send([["", "fine", ""]]).await;
    peer.stream.write_all(&[&[2][..], &(1_u64 << 40).to_be_bytes()].concat()).await.unwrap();
    connected(&mut subscriber).await;
    assert_eq!(message(&mut subscriber).await[1], "fine");
    let cause = disconnected(&mut subscriber).await;
    assert!(matches!(cause, LinkError::Zmtp(ZmtpError::TooLong { got, .. }) if got == 1 << 40), "{cause}");
    let _again = Raw::accept(&listener, "PUB", 1).await;
    connected(&mut subscriber).await;
}

#[tokio::test]
async fn the_wrong_one_of_two_endpoints_is_named() {
    let (listener, endpoint) = listener().await;
    let mut subscriber = subscribe(&endpoint);
    let _router = Raw::accept(&listener, "ROUTER", 1).await;
    let SubscriberEvent::Unreachable { cause, .. } = next(&mut subscriber).await else { panic!("a ROUTER publishes nothing") };
    assert!(cause.to_string().contains("got \"ROUTER\""), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_accepts_and_never_speaks_is_given_up_and_tried_again() {
    let (_listener, endpoint) = listener().await;
    let (mut subscriber, since) = (subscribe(&endpoint), Instant::now());
    for attempt in 1..=3 {
        let event = next(&mut subscriber).await;
        assert!(
            matches!(event, SubscriberEvent::Unreachable { cause: LinkError::HandshakeTimeout { within_ms: 5000 }, .. }),
            "attempt {attempt}: {event:?}"
        );
    }
    assert_eq!(since.elapsed().as_secs(), 15, "three handshakes of 5 s, with short pauses between");
}

#[tokio::test]
async fn a_peer_that_answers_no_ping_is_given_up() {
    let (listener, endpoint) = listener().await;
    let mut subscriber = subscribe(&endpoint);
    let peer = Raw::accept(&listener, "PUB", 1).await;
    connected(&mut subscriber).await;
    tokio::time::pause();
    let since = Instant::now();
    let cause = disconnected(&mut subscriber).await;
    assert!(matches!(cause, LinkError::Unanswered { pings: 3 }), "{cause}");
    assert_eq!(since.elapsed().as_secs(), 20);
    let sent = peer.read_to_end().await;
    assert_eq!(sent.windows(7).filter(|window| window == b"\x04PING\0\0").count(), 3);
}

#[tokio::test]
async fn a_silent_peer_that_knows_no_pings_is_left_alone() {
    let (listener, endpoint) = listener().await;
    let mut subscriber = subscribe(&endpoint);
    let mut peer = Raw::accept(&listener, "PUB", 0).await;
    peer.wait_for(b"\x00\x01\x01").await;
    connected(&mut subscriber).await;
    tokio::time::pause();
    let minutes = Duration::from_mins(10);
    assert!(tokio::time::timeout(minutes, subscriber.next()).await.is_err(), "nothing happened");
    tokio::time::resume();
    drop(subscriber);
    let sent = peer.read_to_end().await;
    assert!(!sent.windows(4).any(|window| window == b"PING"));
}

#[tokio::test]
async fn a_publisher_that_connects_is_served_and_replaced_by_the_next() {
    let anywhere = "tcp://127.0.0.1:0".parse().unwrap();
    let mut subscriber = Subscriber::bind(anywhere, SubscriberOptions::default()).await.unwrap();
    let endpoint = subscriber.endpoint().to_string();
    let mut first = zeromq::PubSocket::new();
    first.connect(&endpoint).await.unwrap();
    connected(&mut subscriber).await;
    first_copy(&mut first, &[b"", b"first"], &mut subscriber).await;

    let mut second = zeromq::PubSocket::new();
    second.connect(&endpoint).await.unwrap();
    let mut event = next(&mut subscriber).await;
    while matches!(event, SubscriberEvent::Message(_)) {
        event = next(&mut subscriber).await;
    }
    assert!(matches!(event, SubscriberEvent::Disconnected { cause: LinkError::Replaced }), "{event:?}");
    connected(&mut subscriber).await;
    assert_eq!(first_copy(&mut second, &[b"", b"second"], &mut subscriber).await[1], "second");
}

#[tokio::test]
async fn an_address_in_use_is_refused_by_name() {
    let (_listener, endpoint) = listener().await;
    let refused = Subscriber::bind(endpoint.clone(), SubscriberOptions::default()).await.unwrap_err();
    assert_eq!(refused.endpoint, endpoint);
    assert_eq!(refused.source.kind(), std::io::ErrorKind::AddrInUse);
}

// #10.
#[tokio::test]
async fn when_close_returns_the_connection_is_closed() {
    let (listener, endpoint) = listener().await;
    let mut subscriber = subscribe(&endpoint);
    let peer = Raw::accept(&listener, "PUB", 1).await;
    connected(&mut subscriber).await;
    subscriber.close().await;
    within("the end", peer.read_to_end()).await;
    let again = tokio::time::timeout(Duration::from_millis(300), listener.accept()).await;
    assert!(again.is_err(), "a closed subscriber does not connect again");
}
