//! The check of engines' hashes, as a stage of a stream: real streams from their bytes, and what must not be called a mismatch.

#[path = "../wire/capture.rs"]
#[allow(dead_code, reason = "other tests read more of a capture")]
mod capture;
mod rules;
mod streams;
