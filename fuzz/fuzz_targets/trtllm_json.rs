//! See `kv_fuzz::trtllm_json`.
#![cfg_attr(fuzzing, no_main)]

kv_fuzz::target!(trtllm_json);
