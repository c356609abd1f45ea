//! `hash()` of CPython 3.12 and later, on 64-bit machines, of a [`Value`].
//!
//! Integers and tuples of integers hash alike in every process and every release since 3.8. `None` has a constant hash
//! since 3.12; before, it is an address. Texts and bytes are hashed under a secret that PYTHONHASHSEED fixes.

use super::value::Value;

/// The hash functions of one process.
pub(super) struct Hasher {
    keys: [u64; 2],
}

impl Hasher {
    /// A process that was started with PYTHONHASHSEED=`seed`.
    pub(super) fn new(seed: u32) -> Self {
        if seed == 0 {
            // Zero turns randomization off: the secret stays all zeros.
            return Self { keys: [0; 2] };
        }
        let mut state = seed;
        let mut next = || u64::from(lcg(&mut state));
        let mut key = || (0..8).fold(0, |key, byte| key | next() << (8 * byte));
        Self { keys: [key(), key()] }
    }

    pub(super) fn hash(&self, value: &Value<'_>) -> i64 {
        match value {
            Value::None => NONE,
            Value::Int(int) => hash_int(int.unsigned_abs(), *int < 0),
            Value::Word(word) => hash_int(*word, false),
            Value::Big(magnitude) => hash_big(magnitude),
            Value::Bytes(bytes) => self.hash_run(bytes),
            Value::Text(text) | Value::Literal(text) => self.hash_text(text),
            Value::Tokens(tokens) => token_tuple(tokens),
            Value::Tuple(items) => hash_tuple(items.iter().map(|item| self.hash(item))),
        }
    }

    /// A text is hashed as it lies in memory: one, two or four bytes for each character, by its widest one.
    fn hash_text(&self, text: &str) -> i64 {
        let chars = || text.chars().map(u32::from);
        let run: Vec<u8> = match chars().max().unwrap_or(0) {
            0..=0xff => chars().map(|c| c.to_le_bytes()[0]).collect(),
            0x100..=0xffff => chars().flat_map(|c| [c.to_le_bytes()[0], c.to_le_bytes()[1]]).collect(),
            _ => chars().flat_map(u32::to_le_bytes).collect(),
        };
        self.hash_run(&run)
    }

    fn hash_run(&self, run: &[u8]) -> i64 {
        if run.is_empty() {
            return 0;
        }
        not_minus_one(siphash13(self.keys, run).cast_signed())
    }
}

/// `hash()` of a tuple of tokens, which needs no secret.
pub(super) fn token_tuple(tokens: &[u32]) -> i64 {
    // A token is below the modulus of integer hashes, so it hashes to itself.
    hash_tuple(tokens.iter().map(|&token| token.into()))
}

/// The tuple hash of CPython 3.8 and later, after one round of xxHash for each item.
fn hash_tuple(items: impl ExactSizeIterator<Item = i64>) -> i64 {
    let len = items.len() as u64;
    let sum = items.fold(PRIME_5, |sum, item| {
        let lane = item.cast_unsigned().wrapping_mul(PRIME_2);
        sum.wrapping_add(lane).rotate_left(31).wrapping_mul(PRIME_1)
    });
    let hash = sum.wrapping_add(len ^ PRIME_5 ^ LENGTH_MIX);
    if hash == u64::MAX { MINUS_ONE_TUPLE } else { hash.cast_signed() }
}

fn hash_int(magnitude: u64, negative: bool) -> i64 {
    let residue = (magnitude % MODULUS).cast_signed();
    not_minus_one(if negative { -residue } else { residue })
}

fn hash_big(big_endian: &[u8]) -> i64 {
    let residue = big_endian.iter().fold(0, |residue: u64, &byte| {
        let next = u128::from(residue) << 8 | u128::from(byte);
        u64::try_from(next % u128::from(MODULUS)).unwrap_or(0)
    });
    residue.cast_signed()
}

/// Minus one is CPython's mark of an error, so no hash is minus one.
fn not_minus_one(hash: i64) -> i64 {
    if hash == -1 { -2 } else { hash }
}

/// One byte of the generator that stretches PYTHONHASHSEED (`lcg_urandom` of `Python/bootstrap_hash.c`).
fn lcg(state: &mut u32) -> u8 {
    *state = state.wrapping_mul(214_013).wrapping_add(2_531_011);
    state.to_le_bytes()[2]
}

/// `SipHash` with one round for each word and three at the end, CPython's choice since 3.11.
fn siphash13(keys: [u64; 2], run: &[u8]) -> u64 {
    let mut state = SipState::new(keys);
    let (words, rest) = run.as_chunks::<8>();
    words.iter().for_each(|word| state.absorb(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = run.len().to_le_bytes()[0];
    state.absorb(u64::from_le_bytes(last));
    state.finish()
}

struct SipState([u64; 4]);

impl SipState {
    fn new([k0, k1]: [u64; 2]) -> Self {
        let [a, b, c, d] = SIP_INIT;
        Self([a ^ k0, b ^ k1, c ^ k0, d ^ k1])
    }

    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        (0..3).for_each(|_| self.round());
        self.0.iter().fold(0, |hash, word| hash ^ word)
    }

    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32).wrapping_add(d);
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        d = d.rotate_left(21) ^ a;
        self.0 = [a, b, c.rotate_left(32), d];
    }
}

/// `hash(None)`, from `none_hash` of `Objects/object.c`.
const NONE: i64 = 0xfca8_6420;
/// The Mersenne prime 2^61 - 1 (`_PyHASH_MODULUS`).
const MODULUS: u64 = (1 << 61) - 1;

// Objects/tupleobject.c: primes of xxHash, and what keeps hash(()) apart from the bare prime.
const PRIME_1: u64 = 11_400_714_785_074_694_791;
const PRIME_2: u64 = 14_029_467_366_897_019_727;
const PRIME_5: u64 = 2_870_177_450_012_600_261;
const LENGTH_MIX: u64 = 3_527_539;
/// What a tuple hashes to whose sum is minus one.
const MINUS_ONE_TUPLE: i64 = 1_546_275_796;

/// "somepseudorandomlygeneratedbytes", the initial state that `SipHash`'s paper fixes.
const SIP_INIT: [u64; 4] = [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected hashes are CPython 3.11's on x86-64, where only `hash(None)` differs from later releases.
    #[test]
    fn texts_under_python_hash_seed() {
        let texts = ["0", "tenant-A", "\u{e9}", "\u{6c34}", "\u{1f980}ab", "abcdefgh", ""];
        let zero = [
            5_313_149_338_359_954_478,
            -5_729_137_973_622_320_762,
            6_047_309_291_227_476_195,
            -5_740_617_983_336_152_549,
            -3_652_183_129_825_881_893,
            4_574_395_652_268_504_554,
            0,
        ];
        let forty_two = [
            3_228_045_297_407_115_758,
            -3_746_120_738_111_171_347,
            5_653_850_369_683_463_245,
            7_115_249_177_006_905_911,
            7_910_466_440_586_935_460,
            -5_457_871_895_989_710_762,
            0,
        ];
        assert_eq!(texts.map(|text| Hasher::new(0).hash(&Value::Text(text))), zero);
        assert_eq!(texts.map(|text| Hasher::new(42).hash(&Value::Literal(text))), forty_two);
        let greatest = Hasher::new(u32::MAX).hash(&Value::Text("0"));
        assert_eq!(greatest, -7_823_853_590_095_853_671);
    }

    #[test]
    fn bytes_share_the_text_hash() {
        let hasher = Hasher::new(0);
        assert_eq!(hasher.hash(&Value::Bytes(b"abc")), -4_594_863_902_769_663_758);
        let long = hasher.hash(&Value::Bytes(b"0123456789abcdef0"));
        assert_eq!(long, -632_549_798_855_044_568);
    }

    #[test]
    fn integers_are_residues() {
        let hasher = Hasher::new(0);
        assert_eq!(hasher.hash(&Value::Int(-1)), -2);
        assert_eq!(hasher.hash(&Value::Int(i64::MIN)), -4);
        assert_eq!(hasher.hash(&Value::Word(u64::MAX)), 7);
        let mut high = [0; 32];
        high[0] = 0x80;
        assert_eq!(hasher.hash(&Value::Big(&high)), 2_048);
    }

    #[test]
    fn tuples_nest() {
        let hasher = Hasher::new(0);
        let nested = Value::Tuple(vec![Value::Int(1), Value::Tokens(&[2, 3]), Value::Int(-5)]);
        assert_eq!(hasher.hash(&nested), -8_415_318_812_953_720_469);
        let one = Value::Tuple(vec![Value::Int(-1)]);
        assert_eq!(hasher.hash(&one), 8_078_679_518_589_016_365);
        assert_eq!(token_tuple(&[]), 5_740_354_900_026_072_187);
    }
}
