//! The chain index under many threads: what is left at the end, and what lookups saw meanwhile.
//!
//! The short version runs in `cargo test`. `KV_STRESS_RUNS=50 cargo test -p kv-index --release --test concurrent` runs each
//! scene fifty times, under another seed each time.

#![expect(clippy::cast_possible_truncation, reason = "small numbers of a test")]
#![expect(clippy::struct_field_names, reason = "tails are what they are")]

mod exact;
mod history;
mod rule_13;
mod steady;

use kv_index::{ChainIndex, ChainOptions};

/// Threads that write, each the only writer of its workers.
const WRITERS: usize = 16;

/// Threads that look up meanwhile.
const READERS: usize = 4;

/// The seeds of a scene's runs.
fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("KV_STRESS_RUNS").map_or(1, |runs| runs.parse().expect("KV_STRESS_RUNS is a number"))
}

/// An index whose tables are keyed with the same secret every time.
fn chain() -> ChainIndex {
    ChainIndex::with_options(&ChainOptions { seed: Some([17, 0x9e37_79b9_7f4a_7c15]), ..ChainOptions::default() })
}
