//! Sends each LLM request to the engine that already holds its prefix in the KV cache.
//!
//! ```text
//! cargo run --release --example gateway             # four mock engines and a demonstration
//! cargo run --release --example gateway -- --help
//! ```

use std::process::ExitCode;

use clap::Parser;
use kv_examples::gateway::{Options, run};

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gateway: {error}");
            ExitCode::FAILURE
        }
    }
}
