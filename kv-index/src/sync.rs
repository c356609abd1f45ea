//! Where this crate's atomics, locks and threads come from: the standard library and `parking_lot`, or a model checker
//! (`--cfg kv_loom`, `--cfg kv_shuttle`) that replaces them all. The names are our own, so that nobody else's `--cfg loom`
//! switches them.

#[cfg(kv_loom)]
#[path = "sync/watched.rs"]
pub(crate) mod atomic;
#[cfg(kv_loom)]
pub(crate) use loom::{hint, sync::Arc, thread};
#[cfg(kv_shuttle)]
pub(crate) use shuttle::{
    hint,
    sync::{Arc, atomic},
    thread,
};
#[cfg(not(any(kv_loom, kv_shuttle)))]
pub(crate) use std::{
    hint,
    sync::{Arc, atomic},
    thread,
};

#[cfg(not(any(kv_loom, kv_shuttle)))]
mod locks {
    pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock};

    /// A condition variable in the shape that all three sources share.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }
}

#[cfg(any(kv_loom, kv_shuttle))]
mod locks {
    #[cfg(kv_loom)]
    use loom::sync;
    #[cfg(kv_shuttle)]
    use shuttle::sync;

    pub(crate) use sync::MutexGuard;

    /// A mutex that, as `parking_lot`'s, knows no poison.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a model that panics has failed already")
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// A lock for many readers or one writer, without poison as well.
    #[derive(Debug)]
    pub(crate) struct RwLock<T>(sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn read(&self) -> sync::RwLockReadGuard<'_, T> {
            self.0.read().expect("a model that panics has failed already")
        }

        pub(crate) fn write(&self) -> sync::RwLockWriteGuard<'_, T> {
            self.0.write().expect("a model that panics has failed already")
        }
    }

    impl<T: Default> Default for RwLock<T> {
        fn default() -> Self {
            Self(sync::RwLock::new(T::default()))
        }
    }

    #[derive(Debug)]
    pub(crate) struct Condvar(sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(sync::Condvar::new())
        }

        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).expect("a model that panics has failed already")
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }
}

pub(crate) use locks::{Condvar, Mutex, MutexGuard, RwLock};
