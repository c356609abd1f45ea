//! Telling the processor what will be read soon.

/// Fetches the cache line at `address` into all levels. Any address will do: a prefetch cannot fault.
#[inline]
pub(crate) fn read(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing that the program can see and ignores addresses that are not mapped. Hint 3 is T0.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<3>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Fetches the cache line of a word.
#[inline]
pub(crate) fn word(word: &crate::sync::atomic::AtomicU64) {
    read(std::ptr::from_ref(word).cast());
}

/// Fetches so many cache lines from `address` on.
#[inline]
pub(crate) fn lines(address: *const u8, lines: usize) {
    for line in 0..lines {
        read(address.wrapping_add(line * 64));
    }
}
