//! See `kv_fuzz::snapshot_load`.
#![cfg_attr(fuzzing, no_main)]

kv_fuzz::target!(snapshot_load);
