//! See `kv_fuzz::wire_frames`.
#![cfg_attr(fuzzing, no_main)]

kv_fuzz::target!(wire_frames);
