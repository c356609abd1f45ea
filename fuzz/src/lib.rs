//! The bodies of the fuzz targets: functions over any bytes, which panic when something does not hold.
//!
//! `cargo test` here replays the corpus, and every seed cut short or with a byte changed, on a stable toolchain.
//! `cargo fuzz run wire_batch` (nightly, cargo-fuzz) searches on. `cargo run --bin wire_batch FILE...` replays what it
//! found.
#![forbid(unsafe_code)]

mod follower;
mod index;
mod load;
mod snapshot;
mod stream;
mod wire;

pub use follower::follower;
pub use index::index_vs_reference;
pub use load::load_body;
pub use snapshot::snapshot_load;
pub use stream::stream;
pub use wire::{trtllm_json, wire_batch, wire_frames};

use std::{env, fs, io};

/// A target's body.
pub type Body = fn(&[u8]);

/// Every target: its name is that of its program and of its folder in `corpus`.
pub const TARGETS: &[(&str, Body)] = &[
    ("follower", follower),
    ("index_vs_reference", index_vs_reference),
    ("load_body", load_body),
    ("snapshot_load", snapshot_load),
    ("stream", stream),
    ("trtllm_json", trtllm_json),
    ("wire_batch", wire_batch),
    ("wire_frames", wire_frames),
];

/// Runs `body` over the files that the command line names.
///
/// # Errors
/// When a file cannot be read.
pub fn replay(body: Body) -> io::Result<()> {
    for path in env::args_os().skip(1) {
        println!("{}", path.display());
        body(&fs::read(path)?);
    }
    Ok(())
}

/// The program of one target: libFuzzer's under cargo-fuzz, else a replay of files.
#[macro_export]
macro_rules! target {
    ($body:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::$body(data));

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            $crate::replay($crate::$body)
        }
    };
}
