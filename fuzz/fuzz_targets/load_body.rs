//! See `kv_fuzz::load_body`.
#![cfg_attr(fuzzing, no_main)]

kv_fuzz::target!(load_body);
