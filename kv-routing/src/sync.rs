//! Where this crate's atomics and locks come from: the standard library and `parking_lot`, or loom (`--cfg kv_loom`), which replaces
//! them all. The name is our own, so that nobody else's `--cfg loom` switches it.

#[cfg(kv_loom)]
pub(crate) use loom::sync::{Arc, atomic};
#[cfg(not(kv_loom))]
pub(crate) use std::sync::{Arc, Weak, atomic};

#[cfg(not(kv_loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

#[cfg(kv_loom)]
pub(crate) use locks::{Mutex, MutexGuard};

#[cfg(kv_loom)]
mod locks {
    pub(crate) use loom::sync::MutexGuard;

    /// A mutex that, as `parking_lot`'s, knows no poison.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a model that panics has failed already")
        }
    }
}
