//! What the mock engines say about requests: the cached tokens that the best of them could have served.

use std::collections::{BTreeMap, HashMap};

use reqwest::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::client::{Outcome, causes};
use super::error::ReplayError;
use super::limits;
use crate::mock_engine::LogEntry;

/// The request log of one fleet, and where it stood when the replay began.
#[derive(Debug)]
pub(super) struct Oracle {
    url: String,
    since: u64,
    /// The fleet's caches, which are all alike.
    pub(super) block_size: usize,
    /// Blocks of one cache.
    pub(super) kv_blocks: usize,
}

#[derive(Deserialize)]
struct FleetInfo {
    block_size: usize,
    kv_blocks: usize,
    next_request: u64,
    workers: Vec<WorkerInfo>,
}

#[derive(Deserialize)]
struct WorkerInfo {
    url: String,
}

/// Finds the fleets behind `named` addresses, which must answer, and behind `listed` ones, which may be real engines.
/// Engines of one process share one log, which is asked once.
pub(super) async fn find(client: &Client, named: &[String], listed: &[String]) -> Result<Vec<Oracle>, ReplayError> {
    let mut fleets = BTreeMap::new();
    for url in named {
        let (first, oracle) = open(client, url).await?;
        fleets.insert(first, oracle);
    }
    for url in listed {
        if let Ok((first, oracle)) = open(client, url).await {
            fleets.entry(first).or_insert(oracle);
        }
    }
    Ok(fleets.into_values().collect())
}

/// Returns the fleet's first engine, which names the fleet, beside its oracle.
async fn open(client: &Client, url: &str) -> Result<(String, Oracle), ReplayError> {
    let url = url.trim_end_matches('/').to_owned();
    let asked = format!("{url}/admin/fleet");
    let fail = |reason: &str| ReplayError::NoLog { url: asked.clone(), reason: reason.to_owned() };
    let info: FleetInfo = ask(client, &asked).await.map_err(|reason| fail(&reason))?;
    let first = info.workers.into_iter().next().ok_or_else(|| fail("no workers"))?.url;
    Ok((first, Oracle { url, since: info.next_request, block_size: info.block_size, kv_blocks: info.kv_blocks }))
}

/// Oracle tokens of every row, by position in `outcomes`. Joined by the number in the answer's `id`.
pub(super) async fn read(client: &Client, oracles: &[Oracle], outcomes: &[Outcome]) -> Vec<Option<u64>> {
    let mut known = HashMap::new();
    for oracle in oracles {
        let mut since = oracle.since;
        while let Ok(page) = page(client, oracle, since).await {
            let Some(last) = page.last() else { break };
            since = last.sequence + 1;
            known.extend(page.into_iter().map(|entry| (entry.id, entry.oracle_tokens as u64)));
        }
    }
    let number = |id: &str| id.split_once('-').and_then(|(_, number)| known.get(number).copied());
    outcomes.iter().map(|outcome| outcome.answer_id.as_deref().and_then(number)).collect()
}

async fn page(client: &Client, oracle: &Oracle, since: u64) -> Result<Vec<LogEntry>, String> {
    ask(client, &format!("{}/admin/requests?since={since}&limit={}", oracle.url, limits::LOG_PAGE)).await
}

/// Asks a side question.
pub(super) async fn ask<T: DeserializeOwned>(client: &Client, url: &str) -> Result<T, String> {
    let request = client.get(url).timeout(limits::SIDE_CALL).send();
    let response = request.await.and_then(reqwest::Response::error_for_status).map_err(|error| causes(&error))?;
    response.json().await.map_err(|error| causes(&error))
}
