//! The fields of events, in whatever form an engine writes them. Each either reads its value wholly or fails.

use super::reader::{Reader, Result, Shape, Unreadable};
use crate::event::{EngineHash, ExtraKey, Tokens};
use crate::limits::{DIGEST_BYTES_MAX, TEXT_BYTES_MAX};

/// A map's key. One that is neither a text nor bytes is read as the empty name, which no field has.
pub(super) fn key<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    match reader.shape()? {
        Shape::Text | Shape::Bytes => reader.body(),
        _ => reader.skip().map(|()| &[][..]),
    }
}

/// A text of at most [`TEXT_BYTES_MAX`] bytes.
pub(super) fn text(reader: &mut Reader) -> Result<String> {
    let body = reader.body()?;
    if body.len() > TEXT_BYTES_MAX {
        return Err(Unreadable);
    }
    std::str::from_utf8(body).map(str::to_owned).map_err(|_| Unreadable)
}

/// A list of texts.
pub(super) fn texts(reader: &mut Reader) -> Result<Vec<String>> {
    reader.list(text)
}

/// A list of hashes; their forms may differ.
pub(super) fn hashes(reader: &mut Reader) -> Result<Vec<EngineHash>> {
    reader.list(hash)
}

/// A hash: an integer of either sign, bytes, or a text of hexadecimal digits.
#[inline]
pub(super) fn hash(reader: &mut Reader) -> Result<EngineHash> {
    if let Some(word) = reader.full_word() {
        return Ok(EngineHash::Word(word));
    }
    match reader.shape()? {
        Shape::Int => reader.word().map(EngineHash::Word),
        Shape::Bytes => digest(reader.body()?).ok_or(Unreadable),
        Shape::Text => hex_digest(reader.body()?).ok_or(Unreadable),
        _ => Err(Unreadable),
    }
}

/// Plain ids, or pairs in which each starts with the token that the one before ends with. Not a mix.
pub(super) fn tokens(reader: &mut Reader) -> Result<Tokens> {
    let mut first = *reader;
    if first.array_len()? > 0 && first.shape()? == Shape::Array { bigrams(reader) } else { reader.u32_list().map(Tokens::Ids) }
}

fn bigrams(reader: &mut Reader) -> Result<Tokens> {
    let pairs = reader.list(|reader| match reader.array_len()? {
        2 => Ok([reader.u32()?, reader.u32()?]),
        _ => Err(Unreadable),
    })?;
    let overlap = pairs.windows(2).all(|neighbours| neighbours[0][1] == neighbours[1][0]);
    if overlap { Ok(Tokens::Bigrams(pairs)) } else { Err(Unreadable) }
}

/// For each listed hash the keys that make its block different; a null is none.
pub(super) fn extra_keys(reader: &mut Reader) -> Result<Vec<Vec<ExtraKey>>> {
    reader.list(|reader| Ok(reader.nullable(|reader| reader.list(extra_key))?.unwrap_or_default()))
}

fn extra_key(reader: &mut Reader) -> Result<ExtraKey> {
    let start = *reader;
    match reader.shape()? {
        Shape::Text => text(reader).map(ExtraKey::Text),
        Shape::Bytes => short(reader.body()?).map(ExtraKey::Bytes),
        _ => item(reader).or_else(|Unreadable| {
            *reader = start;
            reader.skip()?;
            short(start.until(reader)).map(ExtraKey::Unknown)
        }),
    }
}

/// vLLM's multimodal item, `[id, offset]`.
fn item(reader: &mut Reader) -> Result<ExtraKey> {
    match reader.array_len()? {
        2 => Ok(ExtraKey::Item { id: text(reader)?, offset: reader.i64()? }),
        _ => Err(Unreadable),
    }
}

/// For each listed hash the tokens after its block that it covers too; a null is none.
pub(super) fn lookahead(reader: &mut Reader) -> Result<Vec<Vec<u32>>> {
    reader.list(|reader| Ok(reader.nullable(Reader::u32_list)?.unwrap_or_default()))
}

/// Dynamo's multimodal field: for each listed hash a null, or `{"mm_objects": [{"mm_hash": u64, "offsets": [..]}]}`.
///
/// An object becomes an item whose id is its hash in 16 hexadecimal digits, the digits that TensorRT-LLM's own key starts with.
pub(super) fn multimodal_keys(reader: &mut Reader) -> Result<Vec<Vec<ExtraKey>>> {
    reader.list(|reader| Ok(reader.nullable(multimodal_objects)?.unwrap_or_default()))
}

fn multimodal_objects(reader: &mut Reader) -> Result<Vec<ExtraKey>> {
    let mut objects = Vec::new();
    for _ in 0..reader.map_len()? {
        match key(reader)? {
            b"mm_objects" => objects = reader.list(multimodal_object)?,
            _ => reader.skip()?,
        }
    }
    Ok(objects)
}

fn multimodal_object(reader: &mut Reader) -> Result<ExtraKey> {
    let (mut id, mut offset) = (None, 0);
    for _ in 0..reader.map_len()? {
        match key(reader)? {
            b"mm_hash" => id = Some(format!("{:016x}", reader.word()?)),
            b"offsets" => offset = first_offset(reader)?,
            _ => reader.skip()?,
        }
    }
    Ok(ExtraKey::Item { id: id.ok_or(Unreadable)?, offset })
}

/// Where the first of an object's ranges `[start, end]` starts; 0 when none is listed.
fn first_offset(reader: &mut Reader) -> Result<i64> {
    let starts = reader.list(|reader| {
        let mut range = *reader;
        reader.skip()?;
        if range.shape()? == Shape::Array && range.array_len()? == 0 {
            return Err(Unreadable);
        }
        range.i64()
    })?;
    Ok(starts.first().copied().unwrap_or_default())
}

fn short(bytes: &[u8]) -> Result<Vec<u8>> {
    if bytes.len() > TEXT_BYTES_MAX { Err(Unreadable) } else { Ok(bytes.to_vec()) }
}

fn digest(bytes: &[u8]) -> Option<EngineHash> {
    (1..=DIGEST_BYTES_MAX).contains(&bytes.len()).then(|| EngineHash::Digest(bytes.into()))
}

/// The hash that hexadecimal digits of either case write; an odd number of them has a 0 in front.
pub(super) fn hex_digest(digits: &[u8]) -> Option<EngineHash> {
    if digits.len() > 2 * DIGEST_BYTES_MAX {
        return None;
    }
    let nibble = |digit: &u8| char::from(*digit).to_digit(16);
    let byte = |pair: &[u8]| {
        pair.iter().try_fold(0, |byte, digit| Some(byte << 4 | nibble(digit)?)).and_then(|byte| u8::try_from(byte).ok())
    };
    let bytes = digits.rchunks(2).rev().map(byte).collect::<Option<Vec<u8>>>()?;
    digest(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_hashes_are_their_bytes() {
        assert_eq!(hex_digest(b"00aB"), Some(EngineHash::Digest(vec![0, 0xab].into())));
        assert_eq!(hex_digest(b"f00"), Some(EngineHash::Digest(vec![0x0f, 0].into())));
        for none in [&b""[..], b"0x", b"g0", &[b'0'; 2 * DIGEST_BYTES_MAX + 1]] {
            assert_eq!(hex_digest(none), None);
        }
    }

    #[test]
    fn unknown_extra_keys_keep_their_bytes() {
        let payload = b"\x93\xc0\x91\xa4salt\x94\x92\xa1i\xff\xc4\x01\x07\x92\x01\x02\x05";
        let item = ExtraKey::Item { id: "i".into(), offset: -1 };
        let (pair, number) = (ExtraKey::Unknown(vec![0x92, 1, 2]), ExtraKey::Unknown(vec![5]));
        assert_eq!(
            extra_keys(&mut Reader::new(payload)),
            Ok(vec![vec![], vec![ExtraKey::Text("salt".into())], vec![item, ExtraKey::Bytes(vec![7]), pair, number]])
        );
    }

    #[test]
    fn tokens_are_ids_or_overlapping_pairs() {
        let read = |payload: &[u8]| tokens(&mut Reader::new(payload));
        assert_eq!(read(b"\x90"), Ok(Tokens::Ids(vec![])));
        assert_eq!(read(b"\x92\x01\xce\xff\xff\xff\xff"), Ok(Tokens::Ids(vec![1, u32::MAX])));
        assert_eq!(read(b"\x92\x92\x01\x02\x92\x02\x03"), Ok(Tokens::Bigrams(vec![[1, 2], [2, 3]])));
    }

    #[test]
    fn a_negative_id_a_mix_a_gap_or_a_triple_is_unreadable() {
        for payload in [
            &b"\x92\x01\xff"[..],
            b"\x92\x01\x92\x01\x02",
            b"\x92\x92\x01\x02\x01",
            b"\x92\x92\x01\x02\x92\x03\x04",
            b"\x91\x93\x01\x02\x03",
            b"\xc0",
        ] {
            assert_eq!(tokens(&mut Reader::new(payload)), Err(Unreadable), "{payload:x?}");
        }
    }
}
