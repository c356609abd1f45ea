//! See `kv_fuzz::follower`.
#![cfg_attr(fuzzing, no_main)]

kv_fuzz::target!(follower);
