//! See `kv_fuzz::stream`.
#![cfg_attr(fuzzing, no_main)]

kv_fuzz::target!(stream);
