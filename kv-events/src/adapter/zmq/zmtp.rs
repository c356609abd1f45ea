//! The part of ZMTP 3.1 that a subscriber and a replay client need, without I/O: greeting, READY, frames, PING.
//!
//! Bounded: a length is compared with its limit before anything is kept for it, and nothing is reserved on the word of a length.
//! Specification: <https://rfc.zeromq.org/spec/37/>.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

use super::limits::{COMMAND_BYTES_MAX, FRAMES_MAX, MESSAGE_BYTES_MAX};

/// Bytes of the greeting that both sides begin with.
pub(super) const GREETING_LEN: usize = 64;

/// What this side of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Sub,
    Dealer,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Sub => "SUB",
            Self::Dealer => "DEALER",
        }
    }

    /// The socket types that the specification pairs with this one.
    fn peers(self) -> &'static [&'static str] {
        match self {
            Self::Sub => &["PUB", "XPUB"],
            Self::Dealer => &["ROUTER", "REP", "DEALER"],
        }
    }
}

/// What makes a peer's bytes unusable. The connection ends with it: after a wrong byte no frame boundary can be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ZmtpError {
    /// The first bytes are no ZMTP greeting: some other protocol listens there.
    #[error("expected a ZMTP greeting (ff .. 7f), got first byte {first:#04x} and tenth byte {tenth:#04x}")]
    Greeting {
        /// The first byte.
        first: u8,
        /// The tenth byte.
        tenth: u8,
    },
    /// A peer older than ZeroMQ 4.0.
    #[error("expected ZMTP version 3 or later, got {major}")]
    Version {
        /// The peer's major version.
        major: u8,
    },
    /// The peer wants authentication or encryption.
    #[error("expected security mechanism NULL, got {got:?}")]
    Mechanism {
        /// The peer's mechanism.
        got: String,
    },
    /// The socket at the other end is of a kind that does not fit.
    #[error("expected a peer of type {expected:?}, got {got:?}; is this the other of the engine's two endpoints?")]
    SocketType {
        /// The types that would fit.
        expected: &'static [&'static str],
        /// The peer's type.
        got: String,
    },
    /// The peer refused the handshake.
    #[error("the peer refused the connection: {reason:?}")]
    Refused {
        /// The peer's words.
        reason: String,
    },
    /// A frame header with bits that have no meaning.
    #[error("expected frame flags 0 to 4 or 6, got {got:#04x}")]
    Flags {
        /// The flag byte.
        got: u8,
    },
    /// A command that is not laid out as the specification says, or not the one that is due.
    #[error("expected {expected}, got a command of {len} bytes that is not")]
    Command {
        /// What was due.
        expected: &'static str,
        /// Length of the command's body in bytes.
        len: usize,
    },
    /// A message in the place of a handshake command.
    #[error("expected the READY command first, got a message")]
    Early,
    /// A message, or a command, of too many bytes.
    #[error("expected at most {limit} bytes in one message, got a frame that makes it {got}")]
    TooLong {
        /// The bound.
        limit: usize,
        /// What the message would have come to.
        got: u64,
    },
    /// A message of too many frames.
    #[error("expected at most {limit} frames in one message, got more")]
    TooManyFrames {
        /// The bound.
        limit: usize,
    },
}

/// Our greeting: version 3.1, mechanism NULL.
pub(super) fn greeting() -> [u8; GREETING_LEN] {
    let mut bytes = [0; GREETING_LEN];
    bytes[0] = 0xff;
    bytes[9] = 0x7f;
    bytes[10..12].copy_from_slice(&[3, 1]);
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

/// Checks the peer's greeting.
///
/// Returns whether both sides speak 3.1, with commands for PING and SUBSCRIBE; in 3.0 a subscription is a message, PING unknown.
pub(super) fn read_greeting(bytes: &[u8; GREETING_LEN]) -> Result<bool, ZmtpError> {
    if bytes[0] != 0xff || bytes[9] & 1 == 0 {
        return Err(ZmtpError::Greeting { first: bytes[0], tenth: bytes[9] });
    }
    if bytes[10] < 3 {
        return Err(ZmtpError::Version { major: bytes[10] });
    }
    let mechanism = bytes[12..32].split(|byte| *byte == 0).next().unwrap_or_default();
    if mechanism != b"NULL" {
        return Err(ZmtpError::Mechanism { got: String::from_utf8_lossy(mechanism).into_owned() });
    }
    Ok(bytes[10] > 3 || bytes[11] >= 1)
}

/// The READY command that names what we are.
pub(super) fn put_ready(role: Role, out: &mut BytesMut) {
    let mut metadata = BytesMut::new();
    put_property("Socket-Type", role.name(), &mut metadata);
    if role == Role::Dealer {
        put_property("Identity", "", &mut metadata);
    }
    put_command("READY", &metadata, out);
}

/// Asks for every message whose first frame starts with `prefix`.
pub(super) fn put_subscription(prefix: &[u8], by_command: bool, out: &mut BytesMut) {
    if by_command {
        return put_command("SUBSCRIBE", prefix, out);
    }
    let mut body = BytesMut::with_capacity(1 + prefix.len());
    body.put_u8(1);
    body.put_slice(prefix);
    put_frame(0, &body, out);
}

/// A command frame.
pub(super) fn put_command(name: &'static str, body: &[u8], out: &mut BytesMut) {
    let mut bytes = BytesMut::with_capacity(1 + name.len() + body.len());
    bytes.put_u8(u8::try_from(name.len()).expect("the names of commands are short"));
    bytes.put_slice(name.as_bytes());
    bytes.put_slice(body);
    put_frame(COMMAND, &bytes, out);
}

/// One message of `frames`.
pub(super) fn put_message<F: AsRef<[u8]>>(frames: &[F], out: &mut BytesMut) {
    for (i, frame) in frames.iter().enumerate() {
        put_frame(if i + 1 < frames.len() { MORE } else { 0 }, frame.as_ref(), out);
    }
}

/// A command's name and body.
pub(super) fn split_command(bytes: &[u8]) -> Result<(&[u8], &[u8]), ZmtpError> {
    let malformed = || ZmtpError::Command { expected: "a command with its name", len: bytes.len() };
    let (&len, rest) = bytes.split_first().ok_or_else(malformed)?;
    rest.split_at_checked(len.into()).ok_or_else(malformed)
}

/// Checks the peer's answer to our READY.
pub(super) fn read_ready(command: &[u8], role: Role) -> Result<(), ZmtpError> {
    match split_command(command)? {
        (b"READY", metadata) => check_type(socket_type(metadata)?, role),
        (b"ERROR", reason) => Err(ZmtpError::Refused { reason: text(reason.get(1..).unwrap_or_default()) }),
        _ => Err(ZmtpError::Command { expected: "READY", len: command.len() }),
    }
}

/// What a peer sent after the greeting.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A message's frames, in order: never none.
    Message(Vec<Bytes>),
    /// A command's name and body, still in one.
    Command(Bytes),
}

/// Cuts a stream of bytes into messages and commands.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    frames: Vec<Bytes>,
    /// Bytes of `frames`.
    bytes: usize,
}

impl Decoder {
    /// Takes the next item from the front of `buffer`; `None` when more bytes are needed.
    pub(super) fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Item>, ZmtpError> {
        while let Some((header, frame)) = self.frame(buffer)? {
            if header & COMMAND != 0 {
                return Ok(Some(Item::Command(frame)));
            }
            self.bytes += frame.len();
            self.frames.push(frame);
            if header & MORE == 0 {
                self.bytes = 0;
                return Ok(Some(Item::Message(std::mem::take(&mut self.frames))));
            }
        }
        Ok(None)
    }

    /// Takes one frame, checked against the limits as soon as its header is there.
    fn frame(&self, buffer: &mut BytesMut) -> Result<Option<(u8, Bytes)>, ZmtpError> {
        let Some((flags, header_len, len)) = read_header(buffer)? else { return Ok(None) };
        let len = self.admit(flags, len)?;
        if buffer.len() < header_len + len {
            return Ok(None);
        }
        buffer.advance(header_len);
        Ok(Some((flags, buffer.split_to(len).freeze())))
    }

    fn admit(&self, flags: u8, len: u64) -> Result<usize, ZmtpError> {
        let (kept, limit) = if flags & COMMAND == 0 { (self.bytes, MESSAGE_BYTES_MAX) } else { (0, COMMAND_BYTES_MAX) };
        if flags & COMMAND == 0 && self.frames.len() == FRAMES_MAX {
            return Err(ZmtpError::TooManyFrames { limit: FRAMES_MAX });
        }
        let got = len.saturating_add(kept as u64);
        usize::try_from(len).ok().filter(|_| got <= limit as u64).ok_or(ZmtpError::TooLong { limit, got })
    }
}

/// Flags, length of the header, and length of the frame behind it; `None` when the header is not all there.
fn read_header(buffer: &[u8]) -> Result<Option<(u8, usize, u64)>, ZmtpError> {
    let Some(&flags) = buffer.first() else { return Ok(None) };
    if flags & !(MORE | LONG | COMMAND) != 0 || flags & (MORE | COMMAND) == MORE | COMMAND {
        return Err(ZmtpError::Flags { got: flags });
    }
    if flags & LONG == 0 {
        return Ok(buffer.get(1).map(|len| (flags, 2, u64::from(*len))));
    }
    let len = buffer.get(1..9).map(|bytes| bytes.iter().fold(0, |len, byte| len << 8 | u64::from(*byte)));
    Ok(len.map(|len| (flags, 9, len)))
}

fn put_frame(flags: u8, body: &[u8], out: &mut BytesMut) {
    if let Ok(len) = u8::try_from(body.len()) {
        out.put_slice(&[flags, len]);
    } else {
        out.put_u8(flags | LONG);
        out.put_u64(body.len() as u64);
    }
    out.put_slice(body);
}

fn put_property(name: &'static str, value: &'static str, out: &mut BytesMut) {
    out.put_u8(u8::try_from(name.len()).expect("the names of properties are short"));
    out.put_slice(name.as_bytes());
    out.put_u32(u32::try_from(value.len()).expect("the values of properties are short"));
    out.put_slice(value.as_bytes());
}

/// The value of the property `Socket-Type`, which every peer must send.
fn socket_type(mut metadata: &[u8]) -> Result<&[u8], ZmtpError> {
    let malformed = ZmtpError::Command { expected: "READY with its Socket-Type", len: metadata.len() };
    while let Some((name, value, rest)) = split_property(metadata) {
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return Ok(value);
        }
        metadata = rest;
    }
    Err(malformed)
}

fn split_property(metadata: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (&name_len, rest) = metadata.split_first()?;
    let (name, rest) = rest.split_at_checked(name_len.into())?;
    let (value_len, rest) = rest.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*value_len).try_into().ok()?)?;
    Some((name, value, rest))
}

fn check_type(got: &[u8], role: Role) -> Result<(), ZmtpError> {
    let fits = role.peers().iter().any(|peer| peer.as_bytes() == got);
    if fits { Ok(()) } else { Err(ZmtpError::SocketType { expected: role.peers(), got: text(got) }) }
}

/// At most 64 characters of a peer's text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(64).collect()
}

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

#[cfg(test)]
mod tests;
