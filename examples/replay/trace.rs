//! Traces in the format of the Mooncake release: one JSON object a line.
//!
//! ```json
//! {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48]}
//! ```
//!
//! One hash id stands for 512 tokens of the prompt, the last one for what is left; equal ids at the start of two prompts
//! are an equal prefix.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;

use super::error::ReplayError;
use super::limits;

/// One request of a trace.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Row {
    /// When it came, in ms; not negative, and not necessarily in order.
    pub timestamp: f64,
    /// Tokens of the prompt.
    pub input_length: u64,
    /// Tokens of the answer.
    pub output_length: u64,
    /// Names of the prompt's 512-token blocks; at least one.
    pub hash_ids: Vec<u64>,
}

/// The row as a line of a trace.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timestamp, input_length, output_length, hash_ids } = self;
        write!(f, "{{\"timestamp\": {timestamp}, \"input_length\": {input_length}, ")?;
        write!(f, "\"output_length\": {output_length}, \"hash_ids\": {hash_ids:?}}}")
    }
}

/// Reads a trace.
///
/// # Errors
/// [`ReplayError::File`] if the file cannot be read; [`ReplayError::Row`] with file and line for the first row that is
/// not JSON, lacks a field, or has a negative time, an empty prompt or no hash ids. Rows out of order are fine.
pub fn read_trace(path: &Path) -> Result<Vec<Row>, ReplayError> {
    let file = File::open(path).map_err(|source| ReplayError::File { path: path.to_owned(), source })?;
    parse_trace(path, BufReader::new(file))
}

/// Parses a trace; `path` is for messages only. Empty lines are skipped.
///
/// # Errors
/// As [`read_trace`].
pub fn parse_trace(path: &Path, mut lines: impl BufRead) -> Result<Vec<Row>, ReplayError> {
    let mut rows = Vec::new();
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let limit = limits::LINE_BYTES as u64 + 1;
        let read = lines.by_ref().take(limit).read_until(b'\n', &mut text);
        let read = read.map_err(|source| ReplayError::File { path: path.to_owned(), source })?;
        if read == 0 {
            break;
        }
        if !text.trim_ascii().is_empty() {
            let row = parse_row(&text).map_err(|reason| ReplayError::Row { path: path.to_owned(), line, reason })?;
            rows.push(row);
        }
    }
    Ok(rows)
}

fn parse_row(text: &[u8]) -> Result<Row, String> {
    if text.len() > limits::LINE_BYTES {
        return Err(format!("expected a line of at most {} bytes", limits::LINE_BYTES));
    }
    let row: Row = serde_json::from_slice(text.trim_ascii_end()).map_err(|error| error.to_string())?;
    if row.timestamp < 0.0 {
        return Err(format!("expected a timestamp of at least 0 ms, got {}", row.timestamp));
    }
    if row.input_length == 0 {
        return Err("expected an input_length of at least 1 token, got 0".to_owned());
    }
    if row.hash_ids.is_empty() {
        return Err("expected at least one hash id, got none".to_owned());
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Row>, String> {
        parse_trace(Path::new("t.jsonl"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_read_in_file_order() {
        let text = "{\"timestamp\": 20, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [1, 2]}\n\n\
                    {\"timestamp\": 10.5, \"input_length\": 1, \"output_length\": 0, \"hash_ids\": [3], \"more\": true}";
        let rows = parse(text).unwrap();
        assert_eq!(rows.len(), 2);
        assert!((rows[1].timestamp - 10.5).abs() < f64::EPSILON);
        assert_eq!(rows[0].hash_ids, [1, 2]);
    }

    #[test]
    fn a_written_row_is_read_back() {
        let row = Row { timestamp: 12.0, input_length: 600, output_length: 5, hash_ids: vec![1, 2] };
        let line = "{\"timestamp\": 12, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [1, 2]}";
        assert_eq!(row.to_string(), line);
        assert_eq!(parse(line), Ok(vec![row]));
    }

    #[test]
    fn a_bad_row_is_named_by_file_and_line() {
        let good = "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [1]}\n";
        let fault = |bad: &str| parse(&format!("{good}{bad}")).unwrap_err();
        let missing = "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}";
        assert!(fault(missing).starts_with("t.jsonl:2: missing field `hash_ids`"), "{}", fault(missing));
        assert!(fault(&good.replace("\"timestamp\": 0", "\"timestamp\": -1")).contains("t.jsonl:2: expected a timestamp"));
        assert!(fault(&good.replace("[1]", "[]")).contains("expected at least one hash id"));
        assert!(fault(&good.replace("\"input_length\": 1", "\"input_length\": 0")).contains("input_length"));
        assert!(fault("not JSON").starts_with("t.jsonl:2: "));
        assert!(fault(&good.replace("\"timestamp\": 0", "\"timestamp\": 1e999")).starts_with("t.jsonl:2: "));
    }
}
