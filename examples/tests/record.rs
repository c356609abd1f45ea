//! `capture record` against a mock engine: what it writes is a recording that `capture check` reads and finds exact.

use std::path::PathBuf;

use clap::Parser;
use kv_events::StreamOptions;
use kv_examples::capture::check::check;
use kv_examples::capture::file::{MessageKind, Recording};
use kv_examples::capture::record::{Counts, RecordOptions, record};
use kv_examples::mock_engine::{MockConfig, MockEngine, MockFleet};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: RecordOptions,
}

/// Records `engine` to a file of its own under `name`.
async fn recorded(engine: &MockEngine, name: &str, arguments: &[&str]) -> (PathBuf, Counts) {
    let path = std::env::temp_dir().join(format!("kv-record-{name}-{}.jsonl", std::process::id()));
    let (url, events, replay) = (engine.http_url(), engine.events_endpoint(), engine.replay_endpoint());
    let out = path.to_str().unwrap();
    let place = ["record", "--engine", &url, "--events", &events, "--replay", &replay, "--out", out, "--pause-ms", "20"];
    let options = Cli::try_parse_from([&place, arguments].concat()).unwrap().options;
    let mut lines = Vec::new();
    let counts = record(&options, &mut lines).await.unwrap();
    std::fs::write(&path, lines).unwrap();
    (path, counts)
}
