//! Canonical CBOR (RFC 8949, 4.2.1) of a [`Value`]: shortest heads, definite lengths.

use super::value::{Value, small};

/// The bytes that `cbor2.dumps(value, canonical=True)` writes.
pub(super) fn encode(value: &Value<'_>) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.value(value);
    encoder.0
}

/// Writes items one after the other; whoever opens an array writes its items.
#[derive(Default)]
pub(super) struct Encoder(pub(super) Vec<u8>);

impl Encoder {
    pub(super) fn value(&mut self, value: &Value<'_>) {
        match value {
            Value::None => self.0.push(NULL),
            Value::Int(int) => self.int(*int),
            Value::Word(word) => self.word(*word),
            Value::Big(magnitude) => self.big(magnitude),
            Value::Bytes(bytes) => self.run(BYTES, bytes),
            Value::Text(text) | Value::Literal(text) => self.text(text),
            Value::Tokens(tokens) => {
                self.array(tokens.len());
                tokens.iter().for_each(|&token| self.word(token.into()));
            }
            Value::Tuple(items) => {
                self.array(items.len());
                items.iter().for_each(|item| self.value(item));
            }
        }
    }

    pub(super) fn array(&mut self, len: usize) {
        self.head(ARRAY, len as u64);
    }

    pub(super) fn word(&mut self, word: u64) {
        self.head(UNSIGNED, word);
    }

    /// A map of one entry.
    pub(super) fn entry(&mut self, key: &str, text: &str) {
        self.head(MAP, 1);
        self.text(key);
        self.text(text);
    }

    fn text(&mut self, text: &str) {
        self.run(TEXT, text.as_bytes());
    }

    fn int(&mut self, int: i64) {
        if int >= 0 {
            self.word(int.unsigned_abs());
        } else {
            // -1 - n without overflow: the complement.
            self.head(NEGATIVE, (!int).unsigned_abs());
        }
    }

    /// Bignums that fit 64 bits are plain integers (RFC 8949, 3.4.3).
    fn big(&mut self, magnitude: &[u8]) {
        match small(magnitude) {
            Ok(word) => self.word(word),
            Err(digits) => {
                self.0.push(TAG + BIGNUM);
                self.run(BYTES, digits);
            }
        }
    }

    fn run(&mut self, major: u8, run: &[u8]) {
        self.head(major, run.len() as u64);
        self.0.extend_from_slice(run);
    }

    /// Major type and argument, in the fewest bytes.
    #[expect(clippy::cast_possible_truncation, reason = "each arm's range fits its width")]
    fn head(&mut self, major: u8, argument: u64) {
        match argument {
            0..=23 => self.0.push(major + argument as u8),
            24..=0xff => self.0.extend([major + 24, argument as u8]),
            0x100..=0xffff => {
                self.0.push(major + 25);
                self.0.extend((argument as u16).to_be_bytes());
            }
            0x1_0000..=0xffff_ffff => {
                self.0.push(major + 26);
                self.0.extend((argument as u32).to_be_bytes());
            }
            _ => {
                self.0.push(major + 27);
                self.0.extend(argument.to_be_bytes());
            }
        }
    }
}

// Major types (RFC 8949, 3.1), in the head's upper three bits.
const UNSIGNED: u8 = 0 << 5;
const NEGATIVE: u8 = 1 << 5;
const BYTES: u8 = 2 << 5;
const TEXT: u8 = 3 << 5;
const ARRAY: u8 = 4 << 5;
const MAP: u8 = 5 << 5;
const TAG: u8 = 6 << 5;
/// Tag of an unsigned bignum (RFC 8949, 3.4.3).
const BIGNUM: u8 = 2;
const NULL: u8 = 0xf6;

#[cfg(test)]
mod tests {
    use super::super::to_hex;
    use super::*;

    #[track_caller]
    fn check(value: &Value<'_>, hex: &str) {
        assert_eq!(to_hex(&encode(value)), hex);
    }

    #[test]
    fn integers_of_rfc_8949_appendix_a() {
        check(&Value::Int(0), "00");
        check(&Value::Int(23), "17");
        check(&Value::Int(24), "1818");
        check(&Value::Int(100), "1864");
        check(&Value::Int(1000), "1903e8");
        check(&Value::Int(1_000_000), "1a000f4240");
        check(&Value::Int(1_000_000_000_000), "1b000000e8d4a51000");
        check(&Value::Word(u64::MAX), "1bffffffffffffffff");
        check(&Value::Int(-1), "20");
        check(&Value::Int(-100), "3863");
        check(&Value::Int(-1000), "3903e7");
        check(&Value::Int(i64::MIN), "3b7fffffffffffffff");
    }

    #[test]
    fn bignums_only_past_64_bits() {
        check(&Value::Big(&[1, 0, 0, 0, 0, 0, 0, 0, 0]), "c249010000000000000000");
        check(&Value::Big(&[0, 0, 0, 1, 0]), "190100");
        check(&Value::Big(&[]), "00");
    }

    #[test]
    fn runs_and_arrays_of_rfc_8949_appendix_a() {
        check(&Value::Bytes(&[1, 2, 3, 4]), "4401020304");
        check(&Value::Text("\u{6c34}"), "63e6b0b4");
        check(&Value::Literal("IETF"), "6449455446");
        check(&Value::Tokens(&[1, 2, 3]), "83010203");
        let nested = Value::Tuple(vec![Value::Int(1), Value::Tokens(&[2, 3]), Value::None]);
        check(&nested, "8301820203f6");
    }

    #[test]
    fn widths_change_at_their_limits() {
        let tokens = [255, 256, 65_535, 65_536, u32::MAX];
        check(&Value::Tokens(&tokens), "8518ff19010019ffff1a000100001affffffff");
        assert_eq!(encode(&Value::Bytes(&[0; 24]))[..2], [0x58, 24]);
    }

    #[test]
    fn one_entry_map() {
        let mut encoder = Encoder::default();
        encoder.entry("a", "A");
        assert_eq!(encoder.0, [0xa1, 0x61, 0x61, 0x61, 0x41]);
    }
}
