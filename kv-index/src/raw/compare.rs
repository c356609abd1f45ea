//! How far two runs of words are the same: what a lookup does most.

#![expect(clippy::inline_always, reason = "work is compiled for a width only where it is inlined: see `Work`")]

use crate::ContentHash;
use crate::sync::atomic::{AtomicU64, Ordering};

/// What a processor compares at once. A value is the proof that this processor can.
pub(crate) trait Width: Copy {
    /// How many of the first `contents` are what `wanted` says.
    fn common_prefix(self, contents: &[AtomicU64], wanted: &[ContentHash]) -> usize;

    /// Of 64 cutoffs, one to a byte in the lower seven bits, those that are at least `least` (0 to 64), and those that are not 0.
    /// Every word is loaded once.
    fn reach(self, cutoffs: &[AtomicU64; 8], least: usize) -> Reach;

    /// Of 64 cutoffs, those that are `cutoff` (0 to 64). Every word is loaded once.
    fn exactly(self, cutoffs: &[AtomicU64; 8], cutoff: usize) -> u64;
}

/// A bit for each of 64 workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Whose cutoff is at least what was asked for.
    pub(crate) enough: u64,
    /// Whose cutoff is not 0.
    pub(crate) some: u64,
}

/// Work that is compiled for each width.
pub(crate) trait Work {
    type Output;

    /// Does it. To be inlined always, with all that is worth the width: only then is it compiled for that width.
    fn with(self, width: impl Width) -> Self::Output;
}

/// Does the work with the widest comparisons of this processor.
#[inline]
pub(crate) fn widest<W: Work>(work: W) -> W::Output {
    #[cfg(all(target_arch = "x86_64", not(any(miri, kv_loom, kv_portable, kv_shuttle))))]
    if let Some(avx2) = avx2::Avx2::of_this_processor() {
        return avx2.with(work);
    }
    work.with(Narrow)
}

/// What every processor can.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Narrow;

impl Width for Narrow {
    #[inline]
    fn common_prefix(self, contents: &[AtomicU64], wanted: &[ContentHash]) -> usize {
        let len = contents.len().min(wanted.len());
        let (contents, wanted) = (&contents[..len], &wanted[..len]);
        let same = narrow::common_start(contents, wanted);
        let rest = contents[same..].iter().zip(&wanted[same..]);
        same + rest.take_while(|(content, wanted)| content.load(Ordering::Relaxed) == wanted.0).count()
    }

    #[inline]
    fn reach(self, cutoffs: &[AtomicU64; 8], least: usize) -> Reach {
        let subtract = least as u64 * LOWEST;
        let mut reach = Reach::default();
        for (nth, word) in (0..).zip(cutoffs) {
            // Cutoffs fit in seven bits: the highest bit of each byte is left only if nothing was borrowed.
            let cutoffs = word.load(Ordering::Relaxed) | HIGHEST;
            reach.enough |= highest_bits(cutoffs - subtract) << (nth * 8);
            reach.some |= highest_bits(cutoffs - LOWEST) << (nth * 8);
        }
        reach
    }

    #[inline]
    fn exactly(self, cutoffs: &[AtomicU64; 8], cutoff: usize) -> u64 {
        let wanted = cutoff as u64 * LOWEST;
        // What is left of a highest bit after a difference of seven bits is taken from it: all of it only if there is none.
        let alike = |word: &AtomicU64| highest_bits(HIGHEST - ((word.load(Ordering::Relaxed) & !HIGHEST) ^ wanted));
        (0..).zip(cutoffs).fold(0, |all, (nth, word)| all | alike(word) << (nth * 8))
    }
}

/// The highest bit of each byte, together: one multiplication moves bit 8i + 7 to 56 + i.
#[inline]
const fn highest_bits(bytes: u64) -> u64 {
    (bytes & HIGHEST).wrapping_mul(0x0002_0408_1020_4081) >> 56
}

/// How many of the first `contents` are what `wanted` says.
#[inline]
pub(crate) fn common_prefix(contents: &[AtomicU64], wanted: &[ContentHash]) -> usize {
    struct Common<'a>(&'a [AtomicU64], &'a [ContentHash]);
    impl Work for Common<'_> {
        type Output = usize;

        #[inline(always)]
        fn with(self, width: impl Width) -> usize {
            width.common_prefix(self.0, self.1)
        }
    }
    widest(Common(contents, wanted))
}

/// A bit for each of eight hashes that is `hash`.
#[inline]
pub(crate) fn alike_of_eight(hashes: &[u16; 8], hash: u16) -> u32 {
    narrow::alike_of_eight(hashes, hash)
}

/// The portable form.
#[cfg(any(test, not(all(target_arch = "x86_64", not(any(miri, kv_loom, kv_portable, kv_shuttle))))))]
fn alike_one_by_one(hashes: &[u16; 8], hash: u16) -> u32 {
    hashes.iter().zip(0u32..).fold(0, |alike, (&other, at)| alike | u32::from(other == hash) << at)
}

/// Words that the narrow form compares without a branch among them.
const STEP: usize = 8;

/// The lowest and the highest bit of each byte.
const LOWEST: u64 = 0x0101_0101_0101_0101;
const HIGHEST: u64 = 0x8080_8080_8080_8080;

#[cfg(all(target_arch = "x86_64", not(any(miri, kv_loom, kv_portable, kv_shuttle))))]
mod avx2 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m256i, _mm256_and_si256, _mm256_castsi256_pd, _mm256_cmpeq_epi8, _mm256_cmpeq_epi64, _mm256_cmpgt_epi8,
        _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_movemask_pd, _mm256_set1_epi8, _mm256_setzero_si256,
    };

    use super::{AtomicU64, ContentHash, Ordering, Reach, Width, Work};

    /// Four words at once.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Avx2(());

    impl Avx2 {
        #[inline]
        pub(super) fn of_this_processor() -> Option<Self> {
            let can = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2");
            can.then_some(Self(()))
        }

        /// Does work that is compiled for such a processor.
        #[inline]
        pub(super) fn with<W: Work>(self, work: W) -> W::Output {
            #[target_feature(enable = "avx2,bmi1,bmi2")]
            fn inside<W: Work>(avx2: Avx2, work: W) -> W::Output {
                work.with(avx2)
            }
            // SAFETY: `self` is the proof that the processor knows all three.
            unsafe { inside(self, work) }
        }
    }

    impl Width for Avx2 {
        #[inline(always)]
        fn common_prefix(self, contents: &[AtomicU64], wanted: &[ContentHash]) -> usize {
            // SAFETY: `self` is the proof that the processor knows AVX2.
            unsafe { common_prefix(contents, wanted) }
        }

        #[inline(always)]
        fn reach(self, cutoffs: &[AtomicU64; 8], least: usize) -> Reach {
            // SAFETY: as above.
            unsafe { reach(cutoffs, least) }
        }

        #[inline(always)]
        fn exactly(self, cutoffs: &[AtomicU64; 8], cutoff: usize) -> u64 {
            // SAFETY: as above.
            unsafe { exactly(cutoffs, cutoff) }
        }
    }

    /// Four words as relaxed loads of atomics. Others may store to them meanwhile, which is why this is assembly and not a load of
    /// a vector; the processor does not tear the aligned words of a wider load.
    ///
    /// # Safety
    /// There are four words.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load(words: *const AtomicU64) -> __m256i {
        let loaded;
        // SAFETY: the caller's promise; nothing is written.
        unsafe {
            asm!(
                "vmovdqu {loaded}, [{words}]",
                loaded = out(ymm_reg) loaded,
                words = in(reg) words,
                options(nostack, readonly, preserves_flags),
            );
        }
        loaded
    }

    /// All bits of each of four words that are the same.
    ///
    /// # Safety
    /// Both have four words.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn equal(contents: *const AtomicU64, wanted: *const ContentHash) -> __m256i {
        // SAFETY: the caller's promise; a `ContentHash` is a word, transparently.
        unsafe { _mm256_cmpeq_epi64(load(contents), _mm256_loadu_si256(wanted.cast())) }
    }

    /// A bit for each of four words.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn bits(equal: __m256i) -> u32 {
        _mm256_movemask_pd(_mm256_castsi256_pd(equal)).cast_unsigned()
    }

    /// How many of the first of sixteen words are the same.
    ///
    /// # Safety
    /// Both have sixteen words.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn common_of_sixteen(contents: *const AtomicU64, wanted: *const ContentHash) -> usize {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { (equal(contents, wanted), equal(contents.add(4), wanted.add(4))) };
        // SAFETY: as above.
        let (c, d) = unsafe { (equal(contents.add(8), wanted.add(8)), equal(contents.add(12), wanted.add(12))) };
        if _mm256_movemask_epi8(_mm256_and_si256(_mm256_and_si256(a, b), _mm256_and_si256(c, d))) == -1 {
            return 16;
        }
        (bits(a) | bits(b) << 4 | bits(c) << 8 | bits(d) << 12).trailing_ones() as usize
    }

    /// Sixteen words at a time, the last of them perhaps once more.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn common_prefix(contents: &[AtomicU64], wanted: &[ContentHash]) -> usize {
        let len = contents.len().min(wanted.len());
        let (contents, wanted) = (&contents[..len], &wanted[..len]);
        let (of, with) = (contents.as_ptr(), wanted.as_ptr());
        let mut same = 0;
        while same < len {
            // SAFETY: sixteen or four words from there on are before `len`, the length of both.
            same = unsafe {
                if len >= 16 {
                    let at = same.min(len - 16);
                    let common = common_of_sixteen(of.add(at), with.add(at));
                    if common < 16 {
                        return at + common;
                    }
                    at + 16
                } else if len >= 4 {
                    let at = same.min(len - 4);
                    let common = bits(equal(of.add(at), with.add(at))).trailing_ones();
                    if common < 4 {
                        return at + common as usize;
                    }
                    at + 4
                } else {
                    if contents[same].load(Ordering::Relaxed) != wanted[same].0 {
                        return same;
                    }
                    same + 1
                }
            };
        }
        len
    }

    /// 64 cutoffs, each in a byte of its own.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn cutoffs_of(words: &[AtomicU64; 8]) -> [__m256i; 2] {
        let cutoff = _mm256_set1_epi8(0x7f);
        // SAFETY: there are eight words.
        let (low, high) = unsafe { (load(words.as_ptr()), load(words.as_ptr().add(4))) };
        [_mm256_and_si256(low, cutoff), _mm256_and_si256(high, cutoff)]
    }

    /// A bit for each of 64 bytes: its highest.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn byte_bits([low, high]: [__m256i; 2]) -> u64 {
        let bits = |bytes: __m256i| u64::from(_mm256_movemask_epi8(bytes).cast_unsigned());
        bits(low) | bits(high) << 32
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn reach(cutoffs: &[AtomicU64; 8], least: usize) -> Reach {
        let [low, high] = cutoffs_of(cutoffs);
        let above = |most: __m256i| byte_bits([_mm256_cmpgt_epi8(low, most), _mm256_cmpgt_epi8(high, most)]);
        Reach { enough: above(_mm256_set1_epi8(least as i8 - 1)), some: above(_mm256_setzero_si256()) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn exactly(cutoffs: &[AtomicU64; 8], cutoff: usize) -> u64 {
        let [low, high] = cutoffs_of(cutoffs);
        let wanted = _mm256_set1_epi8(cutoff as i8);
        byte_bits([_mm256_cmpeq_epi8(low, wanted), _mm256_cmpeq_epi8(high, wanted)])
    }
}

#[cfg(all(target_arch = "x86_64", not(any(miri, kv_loom, kv_portable, kv_shuttle))))]
mod narrow {
    use std::arch::asm;
    use std::arch::x86_64::{
        _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16, _mm_setzero_si128,
    };

    use super::{AtomicU64, ContentHash, STEP};

    /// Some of the words that are the same, in whole steps. Both have as many.
    #[inline]
    pub(super) fn common_start(contents: &[AtomicU64], wanted: &[ContentHash]) -> usize {
        assert_eq!(contents.len(), wanted.len());
        // SAFETY: both have as many words (a `ContentHash` is one, transparently); SSE2 is part of x86-64.
        unsafe { common_start_sse2(contents, wanted) }
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

    // Reads as many words of `contents` as `wanted` has, and writes nothing. Others may store to `contents` meanwhile, which
    // is why this is assembly and not a vector load: in Rust's terms these are relaxed loads of the atomics, and the
    // processor does not tear the aligned words of a wider load.

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
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, kv_loom, kv_portable, kv_shuttle)))))]
mod narrow {
    use super::{AtomicU64, ContentHash, Ordering, STEP};

    pub(super) use super::alike_one_by_one as alike_of_eight;

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

    struct Cutoffs<'a>(&'a [AtomicU64; 8], usize);

    impl Work for Cutoffs<'_> {
        type Output = (Reach, u64);

        #[inline(always)]
        fn with(self, width: impl Width) -> (Reach, u64) {
            (width.reach(self.0, self.1), width.exactly(self.0, self.1))
        }
    }

    #[test]
    fn cutoffs_are_found_by_what_they_reach_with_and_without_masks() {
        let bytes: [u8; 64] = std::array::from_fn(|nth| ((nth as u8).wrapping_mul(37) % 65) | (nth as u8 % 2) << 7);
        let mut words = bytes.chunks(8).map(|chunk| AtomicU64::new(u64::from_le_bytes(chunk.try_into().unwrap())));
        let cutoffs: [AtomicU64; 8] = std::array::from_fn(|_| words.next().unwrap());
        let bits =
            |is: &dyn Fn(u8) -> bool| (0..).zip(bytes).fold(0u64, |all, (nth, byte)| all | u64::from(is(byte & 0x7f)) << nth);
        // 0 is asked for beside a writer that has cut everything off.
        for asked in 0..=64 {
            let reach = Reach { enough: bits(&|cutoff| cutoff >= asked), some: bits(&|cutoff| cutoff > 0) };
            let expected = (reach, bits(&|cutoff| cutoff == asked));
            assert_eq!(widest(Cutoffs(&cutoffs, asked.into())), expected, "{asked} places");
            assert_eq!(Cutoffs(&cutoffs, asked.into()).with(Narrow), expected, "{asked} places");
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
        let both = |contents: &[AtomicU64], wanted: &[ContentHash]| {
            let common = common_prefix(contents, wanted);
            assert_eq!(common, Narrow.common_prefix(contents, wanted));
            common
        };
        for len in 0..70 {
            let contents: Vec<AtomicU64> = (0..len).map(AtomicU64::new).collect();
            let mut wanted: Vec<ContentHash> = (0..len).map(ContentHash).collect();
            assert_eq!(both(&contents, &wanted), len as usize);
            for at in 0..len as usize {
                for bit in [0, 31, 32, 63] {
                    wanted[at].0 ^= 1 << bit;
                    assert_eq!(both(&contents, &wanted), at);
                    wanted[at].0 ^= 1 << bit;
                }
            }
            wanted.push(ContentHash(9));
            assert_eq!(both(&contents, &wanted), len as usize);
        }
    }
}
