//! A bounded msgpack reader over a payload that is not trusted.
//!
//! Self-written over `rmp`'s markers instead of deserialised with `rmp-serde`, because a field that cannot be read must be
//! skippable: a serde error leaves the position of the next value unknown.
//!
//! * Only this file and `ids` look at bytes, and no read can leave the payload: every one splits what it takes off [`Reader::rest`].
//! * A reader is a small `Copy` value. Whoever may have to skip a value keeps a copy from in front of it.
//! * A declared length is a claim. [`Reader::list`] reserves memory only for elements that the rest of the payload can hold,
//!   not counting bytes that enclosing lists have claimed; so all reservations alive at one time are for different bytes.
//! * [`Reader::skip`] counts the values that are still open instead of recursing: nesting costs neither stack nor memory.

use rmp::Marker;

use super::ids;
use crate::loss::Loss;

/// Where in a payload the next value starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    /// What is not read yet.
    rest: &'a [u8],
    /// How many bytes of `rest`, at least, belong to elements that enclosing lists have still to read.
    claimed: usize,
}

/// The next value is cut off, is none of msgpack's, or is not what was asked for. The reader stands somewhere inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// The family of a value, whatever its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Nil,
    Bool,
    Int,
    Float,
    Text,
    Bytes,
    Array,
    Map,
    Extension,
}

pub(super) type Result<T, E = Unreadable> = std::result::Result<T, E>;

impl<'a> Reader<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload, claimed: 0 }
    }

    /// How many bytes are left.
    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The bytes between this place and `end`, a later state of the same reader.
    pub(super) fn until(&self, end: &Self) -> &'a [u8] {
        self.rest.get(..self.rest.len() - end.rest.len()).unwrap_or_default()
    }

    /// The family of the next value, which stays unread.
    #[inline]
    pub(super) fn shape(&self) -> Result<Shape> {
        let first = self.rest.first().ok_or(Unreadable)?;
        Ok(match Marker::from_u8(*first) {
            Marker::Null => Shape::Nil,
            Marker::True | Marker::False => Shape::Bool,
            Marker::FixPos(_)
            | Marker::U8
            | Marker::U16
            | Marker::U32
            | Marker::U64
            | Marker::FixNeg(_)
            | Marker::I8
            | Marker::I16
            | Marker::I32
            | Marker::I64 => Shape::Int,
            Marker::F32 | Marker::F64 => Shape::Float,
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => Shape::Text,
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => Shape::Bytes,
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => Shape::Array,
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => Shape::Map,
            Marker::Reserved => return Err(Unreadable),
            _ => Shape::Extension,
        })
    }

    /// Reads a null if one is next.
    #[inline]
    pub(super) fn nil(&mut self) -> Result<bool> {
        let is_nil = self.shape()? == Shape::Nil;
        if is_nil {
            self.marker()?;
        }
        Ok(is_nil)
    }

    /// Reads a null as nothing and anything else with `read`.
    pub(super) fn nullable<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.nil()? { Ok(None) } else { read(self).map(Some) }
    }

    /// An integer of either sign as its 64-bit pattern.
    #[inline]
    pub(super) fn word(&mut self) -> Result<u64> {
        Ok(match self.marker()? {
            Marker::FixPos(value) => value.into(),
            Marker::U8 => u8::from_be_bytes(self.bytes()?).into(),
            Marker::U16 => u16::from_be_bytes(self.bytes()?).into(),
            Marker::U32 => u32::from_be_bytes(self.bytes()?).into(),
            Marker::U64 => u64::from_be_bytes(self.bytes()?),
            Marker::FixNeg(value) => i64::from(value).cast_unsigned(),
            Marker::I8 => i64::from(i8::from_be_bytes(self.bytes()?)).cast_unsigned(),
            Marker::I16 => i64::from(i16::from_be_bytes(self.bytes()?)).cast_unsigned(),
            Marker::I32 => i64::from(i32::from_be_bytes(self.bytes()?)).cast_unsigned(),
            Marker::I64 => i64::from_be_bytes(self.bytes()?).cast_unsigned(),
            _ => return Err(Unreadable),
        })
    }

    /// As [`Reader::word`], if one is next that is written in full, as nearly all hashes are.
    #[inline]
    pub(super) fn full_word(&mut self) -> Option<u64> {
        let ([marker, word @ ..], rest) = self.rest.split_first_chunk::<9>()?;
        if *marker != Marker::U64.to_u8() && *marker != Marker::I64.to_u8() {
            return None;
        }
        self.rest = rest;
        Some(u64::from_be_bytes(*word))
    }

    /// An integer that fits 64 bits with a sign.
    pub(super) fn i64(&mut self) -> Result<i64> {
        let unsigned = self.rest.first() == Some(&Marker::U64.to_u8());
        let value = self.word()?.cast_signed();
        if unsigned && value < 0 { Err(Unreadable) } else { Ok(value) }
    }

    /// An integer from 0 to `u32::MAX`, in whatever width it was written.
    #[inline]
    pub(super) fn u32(&mut self) -> Result<u32> {
        let start = *self;
        match self.marker()? {
            Marker::FixPos(value) => Ok(value.into()),
            Marker::U8 => Ok(u8::from_be_bytes(self.bytes()?).into()),
            Marker::U16 => Ok(u16::from_be_bytes(self.bytes()?).into()),
            Marker::U32 => Ok(u32::from_be_bytes(self.bytes()?)),
            _ => {
                *self = start;
                self.i64()?.try_into().map_err(|_| Unreadable)
            }
        }
    }

    /// A number of any kind. Integers beyond 2^53 are rounded.
    #[expect(clippy::cast_precision_loss, reason = "the caller wants seconds, and says that they are rounded")]
    pub(super) fn f64(&mut self) -> Result<f64> {
        if self.shape()? != Shape::Float {
            return self.i64().map(|value| value as f64);
        }
        match self.marker()? {
            Marker::F32 => Ok(f32::from_be_bytes(self.bytes()?).into()),
            _ => Ok(f64::from_be_bytes(self.bytes()?)),
        }
    }

    /// The body of a text or a byte string.
    pub(super) fn body(&mut self) -> Result<&'a [u8]> {
        let len = match self.marker()? {
            Marker::FixStr(len) => len.into(),
            Marker::Str8 | Marker::Bin8 => u8::from_be_bytes(self.bytes()?).into(),
            Marker::Str16 | Marker::Bin16 => u16::from_be_bytes(self.bytes()?).into(),
            Marker::Str32 | Marker::Bin32 => u32::from_be_bytes(self.bytes()?),
            _ => return Err(Unreadable),
        };
        self.take(len as usize)
    }

    /// How many elements the array that starts here declares. Nobody has seen them yet.
    pub(super) fn array_len(&mut self) -> Result<usize> {
        match self.marker()? {
            Marker::FixArray(len) => Ok(len.into()),
            Marker::Array16 => Ok(u16::from_be_bytes(self.bytes()?).into()),
            Marker::Array32 => Ok(u32::from_be_bytes(self.bytes()?) as usize),
            _ => Err(Unreadable),
        }
    }

    /// How many pairs the map that starts here declares. Nobody has seen them yet.
    pub(super) fn map_len(&mut self) -> Result<usize> {
        match self.marker()? {
            Marker::FixMap(len) => Ok(len.into()),
            Marker::Map16 => Ok(u16::from_be_bytes(self.bytes()?).into()),
            Marker::Map32 => Ok(u32::from_be_bytes(self.bytes()?) as usize),
            _ => Err(Unreadable),
        }
    }

    /// Reads an array whose elements `read` reads, each of which takes at least a byte.
    #[inline]
    pub(super) fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let len = self.list_len()?;
        let claimed_outside = self.claimed;
        let mut items = Vec::with_capacity(len);
        for following in (0..len).rev() {
            self.claimed = claimed_outside + following;
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// Reads an array of numbers from 0 to `u32::MAX`: what most of a payload consists of.
    pub(super) fn u32_list(&mut self) -> Result<Vec<u32>> {
        let list = self.rest;
        let len = self.list_len()?;
        let mut numbers = vec![0; len];
        let mut read = 0;
        // One by one what stopped the quick way: the first, in front of which it wants some bytes, and at the end of a payload the rest.
        let mut singly = 1;
        while read < len {
            for number in numbers[read..].iter_mut().take(singly) {
                *number = self.u32_unbranched()?;
                read += 1;
            }
            let (ids, bytes) = ids::read(list, list.len() - self.rest.len(), &mut numbers[read..]);
            self.rest = self.rest.get(bytes..).unwrap_or_default();
            (read, singly) = (read + ids, ONE_BY_ONE);
        }
        Ok(numbers)
    }

    /// Passes over the next value, whatever it is.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.skip_many(1)
    }

    /// Passes over the next `count` values.
    pub(super) fn skip_many(&mut self, count: usize) -> Result<()> {
        let mut open = count;
        while open > 0 {
            if open > self.rest.len() {
                return Err(Unreadable);
            }
            open = open - 1 + self.skip_one()?;
        }
        Ok(())
    }

    /// The length of an array whose elements the rest of the payload can hold.
    fn list_len(&mut self) -> Result<usize> {
        let len = self.array_len()?;
        if len > self.rest.len().saturating_sub(self.claimed) { Err(Unreadable) } else { Ok(len) }
    }

    /// As [`Reader::u32`]. Token ids mix widths at random, so a branch for each would be mispredicted for every second id:
    /// the three widths are one shift instead.
    #[inline]
    fn u32_unbranched(&mut self) -> Result<u32> {
        let Some([marker, word @ ..]) = self.rest.first_chunk::<5>() else { return self.u32() };
        // 0, 1 and 2 for the markers of 1, 2 and 4 bytes.
        let width = marker.wrapping_sub(Marker::U8.to_u8());
        let (value, bytes) = match (marker, width) {
            (0..=0x7f, _) => (u32::from(*marker), 0),
            (_, 0..=2) => (u32::from_be_bytes(*word) >> (32 - (8 << width)), 1 << width),
            _ => return self.u32(),
        };
        self.rest = self.rest.get(1 + bytes..).unwrap_or_default();
        Ok(value)
    }

    /// Passes over the next value but not what it contains; returns how many values that is.
    fn skip_one(&mut self) -> Result<usize> {
        match self.shape()? {
            Shape::Nil | Shape::Bool => self.marker().map(|_| 0),
            Shape::Int => self.word().map(|_| 0),
            Shape::Float => self.f64().map(|_| 0),
            Shape::Text | Shape::Bytes => self.body().map(|_| 0),
            Shape::Array => self.array_len(),
            Shape::Map => self.map_len().map(|pairs| pairs.saturating_mul(2)),
            Shape::Extension => self.extension().map(|()| 0),
        }
    }

    /// Passes over an extension value: its type byte and its body.
    fn extension(&mut self) -> Result<()> {
        let len = match self.marker()? {
            Marker::FixExt1 => 1,
            Marker::FixExt2 => 2,
            Marker::FixExt4 => 4,
            Marker::FixExt8 => 8,
            Marker::FixExt16 => 16,
            Marker::Ext8 => u8::from_be_bytes(self.bytes()?).into(),
            Marker::Ext16 => u16::from_be_bytes(self.bytes()?).into(),
            _ => u32::from_be_bytes(self.bytes()?) as usize,
        };
        self.bytes::<1>()?;
        self.take(len).map(|_| ())
    }

    #[inline]
    fn marker(&mut self) -> Result<Marker> {
        let (first, rest) = self.rest.split_first().ok_or(Unreadable)?;
        self.rest = rest;
        Ok(Marker::from_u8(*first))
    }

    #[inline]
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Unreadable)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Unreadable)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// Numbers that are read one by one before the quick way is tried again: a list of forms that it does not read costs little more
/// than without it.
const ONE_BY_ONE: usize = 64;

impl From<Unreadable> for Loss {
    fn from(_: Unreadable) -> Self {
        Self::Malformed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_width_are_one_pattern() {
        for (bytes, word) in [
            (&b"\x07"[..], 7),
            (b"\xcc\x07", 7),
            (b"\xcd\x00\x07", 7),
            (b"\xd3\x00\x00\x00\x00\x00\x00\x00\x07", 7),
            (b"\xff", u64::MAX),
            (b"\xd0\xff", u64::MAX),
            (b"\xd1\xff\xff", u64::MAX),
            (b"\xd2\xff\xff\xff\xff", u64::MAX),
            (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", u64::MAX),
        ] {
            assert_eq!(Reader::new(bytes).word(), Ok(word), "{bytes:x?}");
        }
    }

    #[test]
    fn u32_takes_any_width_but_no_other_range() {
        assert_eq!(Reader::new(b"\xcf\x00\x00\x00\x00\xff\xff\xff\xff").u32(), Ok(u32::MAX));
        assert_eq!(Reader::new(b"\xcf\x00\x00\x00\x01\x00\x00\x00\x00").u32(), Err(Unreadable));
        assert_eq!(Reader::new(b"\xff").u32(), Err(Unreadable));
        assert_eq!(Reader::new(b"\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00").u32(), Err(Unreadable));
    }

    #[test]
    fn skip_passes_over_every_family_and_stops_at_what_is_none() {
        let values: [&[u8]; 14] = [
            b"\xc0",
            b"\xc3",
            b"\x01",
            b"\xcf\x00\x00\x00\x00\x00\x00\x00\x01",
            b"\xca\x00\x00\x00\x00",
            b"\xcb\x00\x00\x00\x00\x00\x00\x00\x00",
            b"\xa2ab",
            b"\xd9\x02ab",
            b"\xc4\x02ab",
            b"\x92\x91\x01\x80",
            b"\x82\x01\x91\xa1x\xc4\x01y\xc0",
            b"\xd4\x05a",
            b"\xd8\x050123456789abcdef",
            b"\xc7\x03\x05abc",
        ];
        for value in values {
            let mut reader = Reader::new(value);
            assert_eq!((reader.skip(), reader.remaining()), (Ok(()), 0), "{value:x?}");
            assert_eq!(Reader::new(&value[..value.len() - 1]).skip(), Err(Unreadable), "cut {value:x?}");
        }
        assert_eq!(Reader::new(b"\xc1").skip(), Err(Unreadable));
    }

    #[test]
    fn nested_lists_claim_different_bytes() {
        // Two elements of three bytes each cannot both be four long: the first may not claim the second's byte.
        let mut reader = Reader::new(b"\x92\x94\x01\x01\x01\x93\x01\x01\x01");
        assert_eq!(reader.list(|inner| inner.list(Reader::u32)), Err(Unreadable));
        let mut reader = Reader::new(b"\x92\x93\x01\x01\x01\x93\x01\x01\x01");
        assert_eq!(reader.list(|inner| inner.list(Reader::u32)), Ok(vec![vec![1; 3]; 2]));
    }
}
