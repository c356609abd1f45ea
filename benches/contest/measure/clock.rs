//! CPU time of threads: what an operation costs whoever owns the core, whatever else runs on the machine.

use std::mem::MaybeUninit;

/// CPU time that the calling thread has used, in ns.
pub fn thread_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// What reading [`thread_ns`] once is charged with, in ns: the median of two thousand.
pub fn reading_ns() -> u64 {
    let mut reads: Vec<u64> = (0..2_000)
        .map(|_| {
            let at = thread_ns();
            thread_ns() - at
        })
        .collect();
    reads.sort_unstable();
    reads[reads.len() / 2]
}

/// CPU time that all other threads of the process have used, in ns: a contender's lanes.
pub fn lanes_ns() -> u64 {
    // In this order, so that the difference can only be too large by what this call costs, never negative.
    let own = thread_ns();
    read(libc::CLOCK_PROCESS_CPUTIME_ID) - own
}

/// CPU time that they have used since [`lanes_ns`] said `began`. The two clocks are read one after the other, and a thread that
/// loses its core between them is off by what it did there: an idle lane may seem to have used less than nothing.
pub fn lanes_since(began: u64) -> u64 {
    lanes_ns().saturating_sub(began)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` is valid for the one write that the call makes.
    let failed = unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
    assert_eq!(failed, 0, "the clocks of threads and processes exist on every Linux");
    // SAFETY: the call succeeded, so it has written `time`.
    let time = unsafe { time.assume_init() };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_charged_for_its_own_work_only() {
        let (own, lanes) = (thread_ns(), lanes_ns());
        std::thread::spawn(|| while thread_ns() < 20_000_000 {}).join().unwrap();
        assert!(lanes_ns() - lanes >= 20_000_000);
        assert!(thread_ns() - own < 20_000_000);
    }
}
