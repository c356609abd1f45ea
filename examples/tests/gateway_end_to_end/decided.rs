//! What tests of decisions share.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use kv_examples::gateway::{DecisionSettings, PolicyKind, Settings};
use kv_examples::mock_engine::{MockConfig, MockFleet};
use kv_routing::Threshold;
use kv_routing::select::Gates;
use serde_json::Value;

use crate::site::{Answer, Site, settings};

/// A gateway of `decision` in front of `config`'s fleet.
pub(crate) async fn decided(config: MockConfig, policy: PolicyKind, decision: DecisionSettings) -> Site {
    let fleet = MockFleet::start(config).await.unwrap();
    let settings = Settings { policy, decision, ..settings(&[&fleet]) };
    Site::in_front_of(fleet, settings).await
}

pub(crate) fn often() -> DecisionSettings {
    DecisionSettings { load_interval: Some(Duration::from_millis(50)), ..DecisionSettings::default() }
}

/// Gates that never shut.
pub(crate) fn off() -> Gates {
    Gates { balance_abs: Threshold::Off, ..DecisionSettings::default().gates }
}

/// The value of a line of `/metrics`; 0 if there is none.
pub(crate) async fn metric(site: &Site, line: &str) -> f64 {
    let text = site.client.get(site.url("/metrics")).send().await.unwrap().text().await.unwrap();
    text.lines().find_map(|told| told.strip_prefix(line)?.trim().parse().ok()).unwrap_or(0.0)
}

/// Sends all at once.
pub(crate) async fn at_once(site: &Site, bodies: &[Value]) -> Vec<Answer> {
    join_all(bodies.iter().map(|body| site.post("/v1/completions", body))).await
}

/// Answers by worker.
pub(crate) fn spread(answers: &[Answer]) -> BTreeMap<String, usize> {
    answers.iter().fold(BTreeMap::new(), |mut spread, answer| {
        *spread.entry(answer.worker.clone().unwrap_or_default()).or_default() += 1;
        spread
    })
}
