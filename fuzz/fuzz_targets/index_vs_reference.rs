//! See `kv_fuzz::index_vs_reference`.
#![cfg_attr(fuzzing, no_main)]

kv_fuzz::target!(index_vs_reference);
