use proptest::prelude::*;

use super::*;

fn decode(bytes: &[u8]) -> Result<Vec<Item>, ZmtpError> {
    let (mut decoder, mut buffer) = (Decoder::default(), BytesMut::from(bytes));
    let mut items = Vec::new();
    while let Some(item) = decoder.next(&mut buffer)? {
        items.push(item);
    }
    Ok(items)
}

fn encoded(messages: &[Vec<Vec<u8>>]) -> BytesMut {
    let mut out = BytesMut::new();
    for message in messages {
        put_message(message, &mut out);
    }
    out
}

/// READY as libzmq 4.3.5 sends it from a PUB socket (recorded).
const LIBZMQ_READY: &[u8] = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB";

#[test]
fn libzmqs_own_handshake_is_understood() {
    let mut libzmq = greeting();
    libzmq[8] = 1; // libzmq sets a bit that the specification leaves free
    assert_eq!(read_greeting(&libzmq), Ok(true));
    let Item::Command(ready) = decode(LIBZMQ_READY).unwrap().remove(0) else { panic!("READY is a command") };
    assert_eq!(read_ready(&ready, Role::Sub), Ok(()));
    let wrong_end = read_ready(&ready, Role::Dealer).unwrap_err();
    assert!(matches!(wrong_end, ZmtpError::SocketType { ref got, .. } if got == "PUB"), "{wrong_end}");
}

#[test]
fn greetings_of_other_worlds_are_refused_by_name() {
    let refused = |change: fn(&mut [u8; GREETING_LEN])| {
        let mut bytes = greeting();
        change(&mut bytes);
        read_greeting(&bytes)
    };
    assert!(matches!(refused(|g| g[..9].copy_from_slice(b"HTTP/1.1 ")), Err(ZmtpError::Greeting { first: b'H', .. })));
    assert!(matches!(refused(|g| g[10] = 1), Err(ZmtpError::Version { major: 1 })));
    assert!(matches!(refused(|g| g[12..17].copy_from_slice(b"CURVE")), Err(ZmtpError::Mechanism { got }) if got == "CURVE"));
    assert_eq!(refused(|g| g[11] = 0), Ok(false), "3.0 has no PING");
    assert_eq!(refused(|g| g[10..12].copy_from_slice(&[4, 0])), Ok(true), "later versions speak ours");
}

#[test]
fn ready_is_read_to_its_end_and_never_beyond() {
    let mut out = BytesMut::new();
    put_ready(Role::Dealer, &mut out);
    let ready = &out[2..];
    let is_router = |bytes: &[u8]| read_ready(bytes, Role::Dealer);
    assert_eq!(is_router(ready), Ok(()), "DEALER may meet DEALER");
    for cut in 0..ready.len() - "\x08Identity\0\0\0\0".len() {
        assert!(matches!(is_router(&ready[..cut]), Err(ZmtpError::Command { .. })), "cut at {cut}");
    }
    let refused = is_router(b"\x05ERROR\x0bgo away now");
    assert_eq!(refused, Err(ZmtpError::Refused { reason: "go away now".to_owned() }));
}

#[test]
fn a_subscription_is_a_command_in_3_1_and_a_message_in_3_0() {
    let sent = |by_command| {
        let mut out = BytesMut::new();
        put_subscription(b"kv", by_command, &mut out);
        out.to_vec()
    };
    assert_eq!(sent(true), b"\x04\x0c\x09SUBSCRIBEkv");
    assert_eq!(sent(false), b"\x00\x03\x01kv");
}

#[test]
fn lengths_and_counts_are_refused_at_the_header() {
    let long = |flags: u8, len: u64| [&[flags][..], &len.to_be_bytes()].concat();
    let limit = MESSAGE_BYTES_MAX as u64;
    assert_eq!(decode(&long(LONG, limit)), Ok(vec![]), "waits for the rest");
    for len in [limit + 1, 1 << 40, u64::MAX] {
        assert_eq!(decode(&long(LONG, len)), Err(ZmtpError::TooLong { limit: MESSAGE_BYTES_MAX, got: len }));
    }
    let second = [&[MORE, 1, b'a'][..], &long(LONG, limit)].concat();
    assert_eq!(decode(&second), Err(ZmtpError::TooLong { limit: MESSAGE_BYTES_MAX, got: limit + 1 }), "all frames together");
    let command = decode(&long(LONG | COMMAND, COMMAND_BYTES_MAX as u64 + 1));
    assert!(matches!(command, Err(ZmtpError::TooLong { limit: COMMAND_BYTES_MAX, .. })));
    assert_eq!(decode(&[MORE, 0].repeat(FRAMES_MAX + 1)), Err(ZmtpError::TooManyFrames { limit: FRAMES_MAX }));
    for flags in [8, 0x80, MORE | COMMAND, MORE | COMMAND | LONG] {
        assert_eq!(decode(&[flags, 0]), Err(ZmtpError::Flags { got: flags }));
    }
}

#[test]
fn a_command_may_stand_between_two_frames_of_a_message() {
    // Not something that libzmq does, but a peer's PING must not cost a message.
    let items = decode(b"\x01\x01a\x04\x05\x04PING\x00\x01b").unwrap();
    let frames = vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")];
    assert_eq!(items, [Item::Command(Bytes::from_static(b"\x04PING")), Item::Message(frames)]);
}

fn messages() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let frame = prop_oneof![3 => prop::collection::vec(any::<u8>(), 0..20), 1 => prop::collection::vec(any::<u8>(), 250..600)];
    prop::collection::vec(prop::collection::vec(frame, 1..=FRAMES_MAX), 0..8)
}

proptest! {
    #[test]
    fn what_was_sent_arrives_however_the_bytes_are_cut(sent in messages(), cuts in prop::collection::vec(1_usize..300, 1..40)) {
        let (mut decoder, mut buffer, mut arrived) = (Decoder::default(), BytesMut::new(), Vec::new());
        let (mut rest, mut cuts) = (encoded(&sent), cuts.iter().cycle());
        while !rest.is_empty() {
            let cut = rest.len().min(*cuts.next().unwrap());
            buffer.extend_from_slice(&rest.split_to(cut));
            while let Some(item) = decoder.next(&mut buffer).unwrap() {
                arrived.push(item);
            }
        }
        let sent: Vec<_> = sent.into_iter().map(|m| Item::Message(m.into_iter().map(Bytes::from).collect())).collect();
        prop_assert_eq!(arrived, sent);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn any_bytes_end_in_items_a_wait_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(items) = decode(&bytes) {
            let kept: usize = items.iter().map(|item| match item {
                Item::Message(frames) => frames.iter().map(Bytes::len).sum(),
                Item::Command(command) => command.len(),
            }).sum();
            prop_assert!(kept <= bytes.len());
        }
        let _ = read_ready(&bytes, Role::Sub);
    }
}
