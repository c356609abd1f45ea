//! Traces in Mooncake's format: one JSON object a line.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Row {
    /// Since the trace's start.
    #[serde(rename = "timestamp")]
    pub timestamp_ms: u64,
    #[serde(rename = "input_length")]
    pub input_tokens: u32,
    #[serde(rename = "output_length")]
    pub output_tokens: u32,
    /// One for each 512 tokens of the input, the last of them perhaps begun only; equal ids are equal prefixes.
    pub hash_ids: Vec<u64>,
}

/// Where traces lie: `KV_TRACES`, or the developers' shared folder beside the checkout; none on other machines.
pub fn folder() -> Option<PathBuf> {
    let told = std::env::var_os("KV_TRACES").map(PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = root.ancestors().map(|above| above.join("shared/data/traces"));
    told.into_iter().chain(beside).find(|folder| folder.is_dir())
}

/// Reads the first `rows` requests of the trace at `path`.
pub fn read(path: &Path, rows: usize) -> Vec<Row> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parse =
        |(number, line)| serde_json::from_str(line).unwrap_or_else(|error| panic!("{}, line {number}: {error}", path.display()));
    (1..).zip(text.lines()).take(rows).map(parse).collect()
}
