//! Where this crate's atomics and locks come from.

pub(crate) use std::sync::{Arc, Weak, atomic};

pub(crate) use parking_lot::{Mutex, MutexGuard};
