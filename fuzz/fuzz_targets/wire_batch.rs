//! See `kv_fuzz::wire_batch`.
#![cfg_attr(fuzzing, no_main)]

kv_fuzz::target!(wire_batch);
