//! Keeps what one engine announces about its KV cache, and serves it to any number of readers.
//!
//! ```text
//! cargo run --release --example relay -- --engine-events tcp://127.0.0.1:5557 --replay tcp://127.0.0.1:5657
//! cargo run --release --example relay -- --help
//! ```

use std::process::ExitCode;

use clap::Parser;
use kv_examples::relay::{Options, run};

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relay: {error}");
            ExitCode::FAILURE
        }
    }
}
