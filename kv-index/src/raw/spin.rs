//! A lock for a few instructions on a line or two: one atomic exchange to take it, one store to give it back.

/// Under a model checker, its mutex: the protocol is the same and its schedules are fewer.
#[cfg(any(kv_loom, kv_shuttle))]
pub(crate) use crate::sync::Mutex as SpinLock;
#[cfg(not(any(kv_loom, kv_shuttle)))]
pub(crate) use spinning::SpinLock;

#[cfg(not(any(kv_loom, kv_shuttle)))]
mod spinning {
    use std::cell::UnsafeCell;
    use std::fmt;
    use std::ops::{Deref, DerefMut};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// See the module.
    #[derive(Default)]
    pub(crate) struct SpinLock<T> {
        taken: AtomicBool,
        value: UnsafeCell<T>,
    }

    /// The taken lock.
    pub(crate) struct Guard<'a, T>(&'a SpinLock<T>);

    // SAFETY: the value is reached through a guard only, and there is one at a time: a mutex.
    unsafe impl<T: Send> Sync for SpinLock<T> {}

    impl<T> SpinLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
        }

        #[inline]
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            // Acquire: what the last holder wrote is there.
            if self.taken.swap(true, Ordering::Acquire) {
                self.wait();
            }
            Guard(self)
        }

        #[cold]
        fn wait(&self) {
            let mut spins = 0;
            // Acquire: as in `lock`. Relaxed while it waits, so that the line is not taken from the holder.
            while self.taken.load(Ordering::Relaxed) || self.taken.swap(true, Ordering::Acquire) {
                super::super::segments::relax(spins);
                spins += 1;
            }
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        #[inline]
        fn deref(&self) -> &T {
            // SAFETY: this guard has taken the lock, so no other reference to the value exists.
            unsafe { &*self.0.value.get() }
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: as above, and the guard is borrowed for as long.
            unsafe { &mut *self.0.value.get() }
        }
    }

    impl<T> Drop for Guard<'_, T> {
        #[inline]
        fn drop(&mut self) {
            // Release: the next holder sees what this one wrote.
            self.0.taken.store(false, Ordering::Release);
        }
    }

    impl<T> fmt::Debug for SpinLock<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("SpinLock").finish_non_exhaustive()
        }
    }
}
