//! A Python value, as vLLM hands it to its hash functions: `(parent, (token, ...), extra)`.

/// The shapes that occur in a block's key. Three encoders read it: `cbor`, `pickle` and `cpython`.
pub(super) enum Value<'a> {
    None,
    Int(i64),
    Word(u64),
    /// A big-endian unsigned integer beyond 64 bits: vLLM 0.9 keeps its SHA-256 digests as integers.
    Big(&'a [u8]),
    Bytes(&'a [u8]),
    /// A text of the request. Equal texts may be different objects.
    Text(&'a str),
    /// A constant of the engine's code: equal ones are one object.
    Literal(&'static str),
    /// A tuple of tokens.
    Tokens(&'a [u32]),
    Tuple(Vec<Value<'a>>),
}

/// A big-endian magnitude as a word where it fits one, else its digits without leading zeros.
pub(super) fn small(big_endian: &[u8]) -> Result<u64, &[u8]> {
    let zeros = big_endian.iter().take_while(|&&byte| byte == 0).count();
    let digits = &big_endian[zeros..];
    if digits.len() > size_of::<u64>() {
        return Err(digits);
    }
    Ok(digits.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)))
}
