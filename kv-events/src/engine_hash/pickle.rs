//! Pickle protocol 5 of a [`Value`], byte for byte as CPython's C pickler writes it.
//!
//! The pickler numbers every text, byte string and non-empty tuple as it goes (`MEMOIZE`) and writes an object that it
//! meets again as a reference to its number (`BINGET`). Constants of the engine's code are one object each, so
//! repeated tags are references. Two equal texts of a request may be one object or two: that is refused.

use super::Unverifiable;
use super::value::{Value, small};

/// The bytes that `pickle.dumps(value, protocol=5)` returns.
pub(super) fn encode(value: &Value<'_>) -> Result<Vec<u8>, Unverifiable> {
    let mut pickler = Pickler { body: Vec::new(), memo: Vec::new() };
    pickler.save(value)?;
    pickler.body.push(STOP);
    frame(&pickler.body)
}

struct Pickler<'a> {
    body: Vec<u8>,
    memo: Vec<Memo<'a>>,
}

/// What stands under a memo number, as far as it can occur again.
enum Memo<'a> {
    Literal(&'static str),
    Text(&'a str),
    /// A tuple or a digest, each of which occurs once in a block's key.
    Single,
}

impl<'a> Pickler<'a> {
    fn save(&mut self, value: &Value<'a>) -> Result<(), Unverifiable> {
        match value {
            Value::None => self.body.push(NONE),
            Value::Int(int) => self.save_int((*int).into()),
            Value::Word(word) => self.save_int((*word).into()),
            Value::Big(magnitude) => self.save_big(magnitude),
            Value::Bytes(bytes) => {
                self.save_run(SHORT_BINBYTES, BINBYTES, bytes);
                self.memoize(Memo::Single);
            }
            Value::Text(text) => self.save_text(text)?,
            Value::Literal(text) => self.save_literal(text)?,
            Value::Tokens(tokens) => self.save_tuple(tokens, |pickler, &token| {
                pickler.save_int(token.into());
                Ok(())
            })?,
            Value::Tuple(items) => self.save_tuple(items, Self::save)?,
        }
        Ok(())
    }

    fn save_tuple<T>(
        &mut self,
        items: &[T],
        mut save: impl FnMut(&mut Self, &T) -> Result<(), Unverifiable>,
    ) -> Result<(), Unverifiable> {
        if items.is_empty() {
            // A singleton with an opcode of its own, and no number.
            self.body.push(EMPTY_TUPLE);
            return Ok(());
        }
        if items.len() > TUPLES.len() {
            self.body.push(MARK);
        }
        for item in items {
            save(self, item)?;
        }
        self.body.push(TUPLES.get(items.len() - 1).copied().unwrap_or(TUPLE));
        self.memoize(Memo::Single);
        Ok(())
    }

    fn save_text(&mut self, text: &'a str) -> Result<(), Unverifiable> {
        if self.memo.iter().any(|memo| memo.text() == Some(text)) {
            return Err(Unverifiable::RepeatedText { text: text.to_owned() });
        }
        self.save_run(SHORT_BINUNICODE, BINUNICODE, text.as_bytes());
        self.memoize(Memo::Text(text));
        Ok(())
    }

    fn save_literal(&mut self, text: &'static str) -> Result<(), Unverifiable> {
        let number = self.memo.iter().position(|memo| memo.text() == Some(text));
        let Some(number) = number else {
            self.save_run(SHORT_BINUNICODE, BINUNICODE, text.as_bytes());
            self.memoize(Memo::Literal(text));
            return Ok(());
        };
        if let Memo::Text(text) = self.memo[number] {
            return Err(Unverifiable::RepeatedText { text: text.to_owned() });
        }
        self.save_reference(number);
        Ok(())
    }

    fn save_reference(&mut self, number: usize) {
        if let Ok(short) = u8::try_from(number) {
            self.body.extend([BINGET, short]);
        } else {
            self.body.push(LONG_BINGET);
            self.push_length(number);
        }
    }

    fn save_int(&mut self, int: i128) {
        if let Ok(byte) = u8::try_from(int) {
            self.body.extend([BININT1, byte]);
        } else if let Ok(short) = u16::try_from(int) {
            self.body.push(BININT2);
            self.body.extend(short.to_le_bytes());
        } else if let Ok(word) = i32::try_from(int) {
            self.body.push(BININT);
            self.body.extend(word.to_le_bytes());
        } else {
            self.save_long(&int.to_le_bytes());
        }
    }

    /// Small magnitudes take the short forms, whatever type they came in.
    fn save_big(&mut self, magnitude: &[u8]) {
        match small(magnitude) {
            Ok(word) => self.save_int(word.into()),
            Err(digits) => {
                let little: Vec<u8> = digits.iter().rev().copied().chain([0]).collect();
                self.save_long(&little);
            }
        }
    }

    /// Two's complement, little-endian, in the fewest bytes that keep the sign.
    fn save_long(&mut self, little: &[u8]) {
        let negative = little.last().is_some_and(|&byte| byte >= 0x80);
        let filler = if negative { 0xff } else { 0 };
        let redundant = |pair: &[u8]| pair[1] == filler && (pair[0] >= 0x80) == negative;
        let mut len = little.len();
        while len > 1 && redundant(&little[len - 2..len]) {
            len -= 1;
        }
        debug_assert!(len <= 33, "the longest integer here is a SHA-256 digest with its sign");
        self.body.extend([LONG1, len.to_le_bytes()[0]]);
        self.body.extend_from_slice(&little[..len]);
    }

    fn save_run(&mut self, short: u8, long: u8, run: &[u8]) {
        if let Ok(len) = u8::try_from(run.len()) {
            self.body.extend([short, len]);
        } else {
            self.body.push(long);
            self.push_length(run.len());
        }
        self.body.extend_from_slice(run);
    }

    /// Four bytes always suffice: `frame` refuses bodies far smaller than that.
    fn push_length(&mut self, length: usize) {
        let word = u32::try_from(length).unwrap_or(u32::MAX);
        self.body.extend(word.to_le_bytes());
    }

    fn memoize(&mut self, memo: Memo<'a>) {
        self.body.push(MEMOIZE);
        self.memo.push(memo);
    }
}

impl<'a> Memo<'a> {
    fn text(&self) -> Option<&'a str> {
        match self {
            Memo::Literal(text) | Memo::Text(text) => Some(text),
            Memo::Single => None,
        }
    }
}

/// Head and body. The pickler frames any body of four bytes and more.
fn frame(body: &[u8]) -> Result<Vec<u8>, Unverifiable> {
    let len = body.len();
    if len > FRAME_MAX {
        return Err(Unverifiable::PickleTooLong { len, max: FRAME_MAX });
    }
    let mut out = vec![PROTO, 5];
    if len >= FRAME_MIN {
        out.push(FRAME);
        out.extend((len as u64).to_le_bytes());
    }
    out.extend_from_slice(body);
    Ok(out)
}

// `FRAME_SIZE_MIN` and `FRAME_SIZE_TARGET` of CPython's Modules/_pickle.c.
const FRAME_MIN: usize = 4;
const FRAME_MAX: usize = 64 * 1024;

// Opcodes of CPython's Lib/pickle.py.
const PROTO: u8 = 0x80;
const FRAME: u8 = 0x95;
const STOP: u8 = b'.';
const MARK: u8 = b'(';
const NONE: u8 = b'N';
const BININT1: u8 = b'K';
const BININT2: u8 = b'M';
const BININT: u8 = b'J';
const LONG1: u8 = 0x8a;
const SHORT_BINBYTES: u8 = b'C';
const BINBYTES: u8 = b'B';
const SHORT_BINUNICODE: u8 = 0x8c;
const BINUNICODE: u8 = b'X';
const EMPTY_TUPLE: u8 = b')';
/// Of one, two and three items; longer ones stand between `MARK` and `TUPLE`.
const TUPLES: [u8; 3] = [0x85, 0x86, 0x87];
const TUPLE: u8 = b't';
const MEMOIZE: u8 = 0x94;
const BINGET: u8 = b'h';
const LONG_BINGET: u8 = b'j';

#[cfg(test)]
mod tests {
    use super::super::to_hex;
    use super::*;

    /// Expected bytes are `pickle.dumps(value, protocol=5).hex()` of CPython 3.11, after the frame head.
    #[track_caller]
    fn check(value: &Value<'_>, body: &str) {
        let len = (body.len() as u64 / 2).swap_bytes();
        let head = format!("800595{len:016x}");
        assert_eq!(to_hex(&encode(value).unwrap()), head + body);
    }

    #[test]
    fn integers_take_the_shortest_opcode() {
        let tokens = [1, 255, 256, 65_535, 65_536, 0x7fff_ffff, 0x8000_0000, u32::MAX];
        let body = "284b014bff4d00014dffff4a000001004affffff7f8a0500000080008a05ffffffff0074942e";
        check(&Value::Tokens(&tokens), body);
        for (int, hex) in [
            (-1, "4affffffff"),
            (-129, "4a7fffffff"),
            (i64::from(i32::MIN), "4a00000080"),
            (i64::from(i32::MIN) - 1, "8a05ffffff7fff"),
            (i64::MIN, "8a080000000000000080"),
        ] {
            check(&Value::Tuple(vec![Value::Int(int)]), &format!("{hex}85942e"));
        }
        let word = Value::Tuple(vec![Value::Word(u64::MAX)]);
        check(&word, "8a09ffffffffffffffff0085942e");
    }

    #[test]
    fn big_integers_keep_their_sign_byte() {
        let mut high = [0; 32];
        high[0] = 0x80;
        let zeros = "00".repeat(31);
        check(&Value::Tuple(vec![Value::Big(&high)]), &format!("8a21{zeros}800085942e"));
        let carry = [1, 0, 0, 0, 0, 0, 0, 0, 0];
        check(&Value::Tuple(vec![Value::Big(&carry)]), "8a0900000000000000000185942e");
        check(&Value::Tuple(vec![Value::Big(&[0, 1, 0])]), "4d000185942e");
    }

    #[test]
    fn tuples_by_length() {
        check(&Value::Tokens(&[7]), "4b0785942e");
        check(&Value::Tokens(&[7, 8]), "4b074b0886942e");
        check(&Value::Tokens(&[7, 8, 9]), "4b074b084b0987942e");
        check(&Value::Tuple(vec![Value::Tokens(&[]), Value::None]), "294e86942e");
    }

    #[test]
    fn texts_by_length_of_their_utf8() {
        let long = "\u{e9}".repeat(130);
        let body = format!("5804010000{}85942e", "c3a9".repeat(130) + "94");
        check(&Value::Tuple(vec![Value::Text(&long)]), &body);
        check(&Value::Tuple(vec![Value::Text("\u{6c34}")]), "8c03e6b0b49485942e");
    }

    #[test]
    fn tiny_bodies_are_not_framed() {
        assert_eq!(encode(&Value::None).unwrap(), *b"\x80\x05N.");
        assert_eq!(encode(&Value::Text("")).unwrap()[..3], [0x80, 5, 0x95]);
    }

    #[test]
    fn a_repeated_tag_is_a_reference() {
        let item = |id, offset| Value::Tuple(vec![Value::Literal("mm"), Value::Text(id), Value::Int(offset)]);
        let body = "8c026d6d948c04696d6730944af5ffffff879468008c04696d6731944b09879486942e";
        check(&Value::Tuple(vec![item("img0", -11), item("img1", 9)]), body);
    }

    #[test]
    fn an_equal_text_is_refused() {
        let twice = Value::Tuple(vec![Value::Text("img"), Value::Text("img")]);
        let refused = Unverifiable::RepeatedText { text: "img".to_owned() };
        assert_eq!(encode(&twice), Err(refused));
        let like_a_tag = Value::Tuple(vec![Value::Text("mm"), Value::Literal("mm")]);
        assert!(matches!(encode(&like_a_tag), Err(Unverifiable::RepeatedText { .. })));
    }

    #[test]
    fn bodies_past_one_frame_are_refused() {
        let long = vec![0; FRAME_MAX];
        let refused = encode(&Value::Bytes(&long)).unwrap_err();
        assert_eq!(refused, Unverifiable::PickleTooLong { len: FRAME_MAX + 7, max: FRAME_MAX });
    }
}
