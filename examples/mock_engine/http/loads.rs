//! SGLang's load endpoint, by rank, and the one that it had before.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::Site;
use super::error::ApiError;
use crate::mock_engine::load::Load;

/// `/v1/loads`
pub(super) async fn loads(State(site): State<Site>) -> Result<Json<Value>, ApiError> {
    if site.load_is_garbled()? {
        return Ok(Json(json!({"loads": [{"dp_rank": 0, "num_running_reqs": -1, "num_waiting_reqs": 1e300}]})));
    }
    let loads = site.engine().loads();
    let entries: Vec<Value> = loads.iter().enumerate().map(|(rank, load)| entry(rank, load)).collect();
    Ok(Json(json!({"version": "mock", "dp_rank_count": entries.len(), "loads": entries})))
}

/// `/get_load`, which told how many requests there are in all.
pub(super) async fn get_load(State(site): State<Site>) -> Result<Json<Value>, ApiError> {
    if site.load_is_garbled()? {
        return Ok(Json(json!({"loads": "many"})));
    }
    let loads = site.engine().loads();
    let entry = |(rank, load): (usize, &Load)| {
        let requests = load.running + load.waiting;
        json!({"dp_rank": rank, "num_reqs": requests, "num_waiting_reqs": load.waiting, "num_tokens": load.running_tokens})
    };
    Ok(Json(loads.iter().enumerate().map(entry).collect()))
}

fn entry(rank: usize, load: &Load) -> Value {
    json!({
        "dp_rank": rank,
        "num_running_reqs": load.running,
        "num_waiting_reqs": load.waiting,
        "num_waiting_uncached_tokens": load.queued_tokens,
        "num_used_tokens": load.running_tokens,
        "token_usage": load.kv_usage(),
        "gen_throughput": load.tokens_per_s,
    })
}
