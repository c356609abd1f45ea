//! How far two runs of words are the same: what a lookup does most.

use crate::ContentHash;
use crate::sync::atomic::{AtomicU64, Ordering};

/// How many of the first `contents` are what `wanted` says.
#[inline]
pub(crate) fn common_prefix(contents: &[AtomicU64], wanted: &[ContentHash]) -> usize {
    let len = contents.len().min(wanted.len());
    let (contents, wanted) = (&contents[..len], &wanted[..len]);
    let same = wide::common_start(contents, wanted);
    let rest = contents[same..].iter().zip(&wanted[same..]);
    same + rest.take_while(|(content, wanted)| content.load(Ordering::Relaxed) == wanted.0).count()
}

/// Of up to 64 cutoffs, one to a byte in the lower seven bits and eight to a word, those that are at least `least` (1 to 64),
/// as bits.
#[inline]
pub(crate) fn at_least(cutoffs: &[AtomicU64], least: usize) -> u64 {
    wide::at_least(cutoffs, least)
}

/// A bit for each of eight hashes that is `hash`.
#[inline]
pub(crate) fn alike_of_eight(hashes: &[u16; 8], hash: u16) -> u32 {
    wide::alike_of_eight(hashes, hash)
}

/// The portable form.
#[cfg(any(test, not(all(target_arch = "x86_64", not(any(miri, kv_loom, kv_portable, kv_shuttle))))))]
fn alike_one_by_one(hashes: &[u16; 8], hash: u16) -> u32 {
    hashes.iter().zip(0u32..).fold(0, |alike, (&other, at)| alike | u32::from(other == hash) << at)
}

/// Words that the narrower forms compare without a branch among them.
const STEP: usize = 8;

/// The lowest and the highest bit of each byte.
const LOWEST: u64 = 0x0101_0101_0101_0101;
const HIGHEST: u64 = 0x8080_8080_8080_8080;

/// The portable form.
#[inline]
fn at_least_by_words(cutoffs: &[AtomicU64], least: usize) -> u64 {
    let subtract = least as u64 * LOWEST;
    let bits = cutoffs.iter().take(8).map(|word| {
        // Cutoffs fit in seven bits: the highest bit of each byte is left only if nothing was borrowed.
        let high = ((word.load(Ordering::Relaxed) | HIGHEST) - subtract) & HIGHEST;
        // Moves the eight highest bits together (one multiplication: bit 8i + 7 goes to 56 + i).
        high.wrapping_mul(0x0002_0408_1020_4081) >> 56
    });
    (0..).zip(bits).fold(0, |all, (nth, bits)| all | bits << (nth * 8))
}

#[cfg(all(target_arch = "x86_64", not(any(miri, kv_loom, kv_portable, kv_shuttle))))]
mod wide {
    use std::arch::asm;
    use std::arch::x86_64::{
        _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16, _mm_setzero_si128,
    };

    use super::{AtomicU64, ContentHash, STEP};

    /// Some of the words that are the same: few are left, or the next one differs. Both are equally long.
    #[inline]
    pub(super) fn common_start(contents: &[AtomicU64], wanted: &[ContentHash]) -> usize {
        debug_assert_eq!(contents.len(), wanted.len());
        // SAFETY: both have as many words (a `ContentHash` is one, transparently), and the processor knows AVX2 where it
        // is asked for; SSE2 is part of x86-64.
        unsafe {
            if is_x86_feature_detected!("avx2") {
                common_start_avx2(contents, wanted)
            } else {
                common_start_sse2(contents, wanted)
            }
        }
    }

    /// Eight words at a time, or as many as there are.
    #[inline]
    pub(super) fn at_least(cutoffs: &[AtomicU64], least: usize) -> u64 {
        if cutoffs.len() < 8 {
            return super::at_least_by_words(cutoffs, least);
        }
        // SAFETY: reads eight words, as relaxed loads (see below), and writes nothing; the processor knows AVX2 where it is asked for.
        unsafe { if is_x86_feature_detected!("avx2") { at_least_avx2(cutoffs, least) } else { at_least_sse2(cutoffs, least) } }
    }

    /// # Safety
    /// There are eight words, and the processor knows AVX2.
    #[inline]
    unsafe fn at_least_avx2(cutoffs: &[AtomicU64], least: usize) -> u64 {
        let (low, high): (u64, u64);
        // SAFETY: the caller's promises; see below.
        unsafe {
            asm!(
                "vmovd xmm2, {mask:e}",
                "vpbroadcastb ymm2, xmm2",
                "vmovd xmm3, {less:e}",
                "vpbroadcastb ymm3, xmm3",
                "vpand ymm0, ymm2, [{cutoffs}]",
                "vpand ymm1, ymm2, [{cutoffs} + 32]",
                "vpcmpgtb ymm0, ymm0, ymm3",
                "vpcmpgtb ymm1, ymm1, ymm3",
                "vpmovmskb {low:e}, ymm0",
                "vpmovmskb {high:e}, ymm1",
                "vzeroupper",
                cutoffs = in(reg) cutoffs.as_ptr(),
                mask = in(reg) 0x7f,
                less = in(reg) least as u64 - 1,
                low = out(reg) low,
                high = out(reg) high,
                out("xmm0") _,
                out("xmm1") _,
                out("xmm2") _,
                out("xmm3") _,
                options(nostack, readonly),
            );
        }
        low | high << 32
    }

    /// # Safety
    /// There are eight words.
    #[inline]
    unsafe fn at_least_sse2(cutoffs: &[AtomicU64], least: usize) -> u64 {
        let (low, high): (u64, u64);
        // SAFETY: the caller's promise; see below.
        unsafe {
            asm!(
                "movq xmm5, {mask}",
                "punpcklqdq xmm5, xmm5",
                "movq xmm4, {less}",
                "punpcklqdq xmm4, xmm4",
                "movdqu xmm0, [{cutoffs}]",
                "movdqu xmm1, [{cutoffs} + 16]",
                "movdqu xmm2, [{cutoffs} + 32]",
                "movdqu xmm3, [{cutoffs} + 48]",
                "pand xmm0, xmm5",
                "pand xmm1, xmm5",
                "pand xmm2, xmm5",
                "pand xmm3, xmm5",
                "pcmpgtb xmm0, xmm4",
                "pcmpgtb xmm1, xmm4",
                "pcmpgtb xmm2, xmm4",
                "pcmpgtb xmm3, xmm4",
                "pmovmskb {low:e}, xmm0",
                "pmovmskb {b:e}, xmm1",
                "pmovmskb {high:e}, xmm2",
                "pmovmskb {d:e}, xmm3",
                "shl {b:e}, 16",
                "or {low:e}, {b:e}",
                "shl {d:e}, 16",
                "or {high:e}, {d:e}",
                cutoffs = in(reg) cutoffs.as_ptr(),
                mask = in(reg) !super::HIGHEST,
                less = in(reg) (least as u64 - 1) * super::LOWEST,
                low = out(reg) low,
                high = out(reg) high,
                b = out(reg) _,
                d = out(reg) _,
                out("xmm0") _,
                out("xmm1") _,
                out("xmm2") _,
                out("xmm3") _,
                out("xmm4") _,
                out("xmm5") _,
                options(nostack, readonly),
            );
        }
        low | high << 32
    }

    /// A bit for each of eight hashes that is `hash`.
    #[inline]
    pub(super) fn alike_of_eight(hashes: &[u16; 8], hash: u16) -> u32 {
        // SAFETY: reads the sixteen bytes of the array; SSE2 is part of x86-64.
        unsafe {
            let alike = _mm_cmpeq_epi16(_mm_loadu_si128(hashes.as_ptr().cast()), _mm_set1_epi16(hash.cast_signed()));
            _mm_movemask_epi8(_mm_packs_epi16(alike, _mm_setzero_si128())).cast_unsigned()
        }
    }

    // Both read as many words of `contents` as `wanted` has, and write nothing. Others may store to `contents` meanwhile, which
    // is why this is assembly and not a vector load: in Rust's terms these are relaxed loads of the atomics, and the
    // processor does not tear the aligned words of a wider load.

    /// Sixteen words at a time, then four: to the first that differs, or to the last four.
    ///
    /// # Safety
    /// Both have as many words, and the processor knows AVX2.
    #[inline]
    unsafe fn common_start_avx2(contents: &[AtomicU64], wanted: &[ContentHash]) -> usize {
        let mut same = 0_usize;
        // SAFETY: the caller's promises; see above. No slice has so many words that a count of them would be negative.
        unsafe {
            asm!(
                "sub {last}, 16",
                "jl 3f",
                "2:",
                "vmovdqu ymm0, [{wanted} + 8 * {same}]",
                "vmovdqu ymm1, [{wanted} + 8 * {same} + 32]",
                "vmovdqu ymm2, [{wanted} + 8 * {same} + 64]",
                "vmovdqu ymm3, [{wanted} + 8 * {same} + 96]",
                "vpcmpeqd ymm0, ymm0, [{contents} + 8 * {same}]",
                "vpcmpeqd ymm1, ymm1, [{contents} + 8 * {same} + 32]",
                "vpcmpeqd ymm2, ymm2, [{contents} + 8 * {same} + 64]",
                "vpcmpeqd ymm3, ymm3, [{contents} + 8 * {same} + 96]",
                "vpand ymm0, ymm0, ymm1",
                "vpand ymm2, ymm2, ymm3",
                "vpand ymm0, ymm0, ymm2",
                "vpmovmskb {unequal:e}, ymm0",
                "cmp {unequal:e}, -1",
                "jne 3f",
                "add {same}, 16",
                "cmp {same}, {last}",
                "jle 2b",
                "3:",
                "add {last}, 12",
                "4:",
                "cmp {same}, {last}",
                "jg 6f",
                "vmovdqu ymm0, [{wanted} + 8 * {same}]",
                "vpcmpeqq ymm0, ymm0, [{contents} + 8 * {same}]",
                "vmovmskpd {unequal:e}, ymm0",
                "xor {unequal:e}, 15",
                "jnz 5f",
                "add {same}, 4",
                "jmp 4b",
                "5:",
                "bsf {unequal:e}, {unequal:e}",
                "add {same}, {unequal:r}",
                "6:",
                "vzeroupper",
                last = inout(reg) wanted.len() => _,
                same = inout(reg) same,
                contents = in(reg) contents.as_ptr(),
                wanted = in(reg) wanted.as_ptr(),
                unequal = out(reg) _,
                out("xmm0") _,
                out("xmm1") _,
                out("xmm2") _,
                out("xmm3") _,
                options(nostack, readonly),
            );
        }
        same
    }

    /// [`STEP`] words at a time.
    ///
    /// # Safety
    /// Both have as many words.
    #[inline]
    unsafe fn common_start_sse2(contents: &[AtomicU64], wanted: &[ContentHash]) -> usize {
        let steps = wanted.len() / STEP;
        if steps == 0 {
            return 0;
        }
        let mut left = steps;
        // SAFETY: the caller's promises; see above.
        unsafe {
            asm!(
                "2:",
                "movdqu {a}, [{wanted}]",
                "movdqu {b}, [{wanted} + 16]",
                "movdqu {c}, [{wanted} + 32]",
                "movdqu {d}, [{wanted} + 48]",
                "movdqu {e}, [{contents}]",
                "pcmpeqd {a}, {e}",
                "movdqu {e}, [{contents} + 16]",
                "pcmpeqd {b}, {e}",
                "movdqu {e}, [{contents} + 32]",
                "pcmpeqd {c}, {e}",
                "movdqu {e}, [{contents} + 48]",
                "pcmpeqd {d}, {e}",
                "pand {a}, {b}",
                "pand {c}, {d}",
                "pand {a}, {c}",
                "pmovmskb {equal:e}, {a}",
                "cmp {equal:e}, 0xffff",
                "jne 3f",
                "add {wanted}, 64",
                "add {contents}, 64",
                "dec {left}",
                "jnz 2b",
                "3:",
                left = inout(reg) left,
                contents = inout(reg) contents.as_ptr() => _,
                wanted = inout(reg) wanted.as_ptr() => _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                e = out(xmm_reg) _,
                equal = out(reg) _,
                options(nostack, readonly),
            );
        }
        (steps - left) * STEP
    }

    #[cfg(test)]
    #[test]
    fn both_widths_agree() {
        let contents: Vec<AtomicU64> = (0..64).map(AtomicU64::new).collect();
        for at in 0..64 {
            let wanted: Vec<ContentHash> = (0..64).map(|nth| ContentHash(if nth == at { 99 } else { nth })).collect();
            // SAFETY: both have 64 words.
            let narrow = unsafe { common_start_sse2(&contents, &wanted) };
            assert_eq!(narrow as u64, at / 8 * 8);
            if is_x86_feature_detected!("avx2") {
                // SAFETY: as above.
                assert_eq!(unsafe { common_start_avx2(&contents, &wanted) } as u64, at);
            }
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, kv_loom, kv_portable, kv_shuttle)))))]
mod wide {
    use super::{AtomicU64, ContentHash, Ordering, STEP};

    pub(super) use super::{alike_one_by_one as alike_of_eight, at_least_by_words as at_least};

    /// Some of the words that are the same, in whole steps.
    #[inline]
    pub(super) fn common_start(contents: &[AtomicU64], wanted: &[ContentHash]) -> usize {
        let steps = contents.chunks_exact(STEP).zip(wanted.chunks_exact(STEP));
        let differ = |(content, wanted): (&AtomicU64, &ContentHash)| content.load(Ordering::Relaxed) ^ wanted.0;
        let equal = |(contents, wanted): &(&[AtomicU64], &[ContentHash])| {
            contents.iter().zip(*wanted).map(differ).fold(0, |all, bits| all | bits) == 0
        };
        steps.take_while(equal).count() * STEP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutoffs_that_reach_are_found_with_and_without_masks() {
        for words in [1, 2, 7, 8] {
            let bytes: Vec<u8> = (0..words * 8u8).map(|nth| (nth.wrapping_mul(37) % 65) | (nth % 2) << 7).collect();
            let cutoffs: Vec<AtomicU64> =
                bytes.chunks(8).map(|chunk| AtomicU64::new(u64::from_le_bytes(chunk.try_into().unwrap()))).collect();
            for least in 1..=64 {
                let expected =
                    (0..).zip(&bytes).fold(0u64, |all, (nth, byte)| all | u64::from(usize::from(byte & 0x7f) >= least) << nth);
                assert_eq!(at_least(&cutoffs, least), expected, "{words} words, at least {least}");
                assert_eq!(at_least_by_words(&cutoffs, least), expected);
            }
        }
    }

    #[test]
    fn hashes_that_are_alike_are_found_wherever_they_stand() {
        for bits in 0..=255u32 {
            let hashes: [u16; 8] = std::array::from_fn(|at| if bits >> at & 1 == 1 { 0xfffe } else { 0x7ffe + at as u16 });
            assert_eq!(alike_of_eight(&hashes, 0xfffe), bits);
            assert_eq!(alike_one_by_one(&hashes, 0xfffe), bits);
        }
    }

    #[test]
    fn the_first_difference_ends_it_wherever_it_is() {
        for len in 0..70 {
            let contents: Vec<AtomicU64> = (0..len).map(AtomicU64::new).collect();
            let mut wanted: Vec<ContentHash> = (0..len).map(ContentHash).collect();
            assert_eq!(common_prefix(&contents, &wanted), len as usize);
            for at in 0..len as usize {
                for bit in [0, 31, 32, 63] {
                    wanted[at].0 ^= 1 << bit;
                    assert_eq!(common_prefix(&contents, &wanted), at);
                    wanted[at].0 ^= 1 << bit;
                }
            }
            wanted.push(ContentHash(9));
            assert_eq!(common_prefix(&contents, &wanted), len as usize);
        }
    }
}
