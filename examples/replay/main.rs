//! Replays a request trace; see `--help`.

use std::process::ExitCode;

use clap::Parser;
use kv_examples::replay::{GeneratorOptions, Options, ReplayError, generate, run};

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let result = match &options.generate {
        Some(path) => write_trace(path, &options),
        None => run(&options).await.map(|report| print!("{report}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn write_trace(path: &std::path::Path, options: &Options) -> Result<(), ReplayError> {
    let rows = generate(GeneratorOptions { rows: options.rows, seed: options.seed });
    let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
    std::fs::write(path, lines.join("\n") + "\n").map_err(|source| ReplayError::File { path: path.to_owned(), source })
}
