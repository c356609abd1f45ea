//! SGLang's load endpoint: `/v1/loads`, `{"loads": [{"dp_rank": 0, ...}, ...]}`, and before it `/get_load`, the bare array.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::{Loads, WireError, within_bounds};
use crate::limits::RANKS_MAX;
use crate::load::Sample;

/// The loads that a body tells. `sent_at` is when it was asked for. An entry without its rank is rank 0; of two for one rank, the
/// later counts.
///
/// # Errors
/// A [`WireError`] when the body is too long, is no JSON, or has no entry that tells how many requests run.
pub fn loads(body: &[u8], sent_at: Duration) -> Result<Loads, WireError> {
    within_bounds(body)?;
    let body: Value = serde_json::from_slice(body).map_err(|error| WireError::NotJson(error.to_string()))?;
    let entries = body.get("loads").unwrap_or(&body).as_array().ok_or(WireError::NoLoad("an array of loads"))?;
    let mut ranks = BTreeMap::new();
    let mut unreadable = 0;
    for entry in entries {
        match rank(entry).zip(sample(entry, sent_at)) {
            Some((rank, sample)) => _ = ranks.insert(rank, sample),
            None => unreadable += 1,
        }
    }
    if ranks.is_empty() {
        return Err(WireError::NoLoad("num_running_reqs or num_reqs"));
    }
    Ok(Loads { ranks: ranks.into_iter().collect(), unreadable })
}

fn rank(entry: &Value) -> Option<u16> {
    let rank = match entry.get("dp_rank") {
        None | Some(Value::Null) => 0,
        Some(rank) => u16::try_from(rank.as_u64()?).ok()?,
    };
    (usize::from(rank) < RANKS_MAX).then_some(rank)
}

fn sample(entry: &Value, sent_at: Duration) -> Option<Sample> {
    let number = |name: &str| entry.get(name).and_then(Value::as_f64);
    let waiting = number("num_waiting_reqs").unwrap_or(0.0);
    Some(Sample {
        // The older endpoint tells how many there are in all.
        running: number("num_running_reqs").or_else(|| Some(number("num_reqs")? - waiting))?,
        waiting,
        queued_tokens: number("num_waiting_uncached_tokens"),
        kv_usage: number("token_usage"),
        tokens_per_s: number("gen_throughput"),
        ..Sample::polled(sent_at)
    })
}
