//! The gateway with each index that it can keep.

use kv_examples::gateway::{Gateway, IndexKind, Settings};
use kv_examples::mock_engine::{Dialect, MockConfig, MockFleet};
use serde_json::Value;

use crate::site::{Site, client, eventually, fast, prompt, settings};

#[test]
fn the_chain_index_is_the_default() {
    assert_eq!(Settings::default().kv_index, IndexKind::Chain);
}

#[tokio::test(flavor = "multi_thread")]
async fn predictions_are_what_engines_report_with_either_index_and_any_lanes() {
    for (kv_index, lanes) in [(IndexKind::Chain, None), (IndexKind::Chain, Some(3)), (IndexKind::Reference, Some(2))] {
        let fleet = MockFleet::start(MockConfig { engines: 2, kv_blocks: 24, ..fast() }).await.unwrap();
        let settings = Settings { kv_index, lanes, ..settings(&[&fleet]) };
        let site = Site::in_front_of(fleet, settings).await;
        let mut reused = 0;
        for round in 0..4 {
            for family in 0..12 {
                let answer = site.complete(&prompt(family % 7, 20 + 16 * (family % 5))).await;
                assert_eq!(answer.predicted, answer.cached, "{kv_index:?}: round {round}, family {family}");
                reused += answer.cached.unwrap();
            }
        }
        assert!(reused > 0, "{kv_index:?} was asked for nothing");
        site.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lanes_are_told_of_and_apply_all_that_they_take() {
    let fleet = MockFleet::start(fast()).await.unwrap();
    let settings = Settings { lanes: Some(2), ..settings(&[&fleet]) };
    let site = Site::in_front_of(fleet, settings).await;
    assert!(site.gateway.greeting().contains("index Chain written by 2 lanes"), "{}", site.gateway.greeting());
    for family in 0..6 {
        site.complete(&prompt(family, 64)).await;
    }
    let metrics = site.client.get(site.url("/metrics")).send().await.unwrap().text().await.unwrap();
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} is absent"));
        line.trim().parse::<u64>().unwrap()
    };
    let lanes: u64 = (0..3).map(|lane| value(&format!("kv_lane_applied_total{{lane=\"{lane}\"}}"))).sum();
    assert!(lanes >= 6, "{metrics}");
    assert_eq!(value("kv_lane_steps_total{outcome=\"accepted\"}"), value("kv_lane_steps_total{outcome=\"applied\"}"));
    assert_eq!((value("kv_lane_steps_total{outcome=\"panicked\"}"), value("kv_lane_queued_steps")), (0, 0));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_lanes_that_cannot_be_is_refused() {
    for lanes in [0, 64] {
        let settings = Settings { listen: "127.0.0.1:0".to_owned(), lanes: Some(lanes), ..Settings::default() };
        let refused = Gateway::start(settings).await.err().unwrap().to_string();
        assert_eq!(refused, format!("cannot apply events: a pool has 1 to 63 lanes, not {lanes}"));
    }
}

/// Of every rank: how many blocks, and the digest of what is held.
async fn held(gateway: &Gateway) -> Vec<Value> {
    let url = format!("http://{}/debug/workers", gateway.address());
    let engines: Vec<Value> = client().get(url).send().await.unwrap().json().await.unwrap();
    let ranks = engines.iter().flat_map(|engine| engine["ranks"].as_array().unwrap());
    ranks.map(|rank| Value::from(vec![rank["blocks"].clone(), rank["digest"].clone()])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_before_one_fleet_hold_the_same_by_different_indexes() {
    for dialect in [Dialect::Vllm, Dialect::Sglang] {
        let config = MockConfig { engines: 2, ranks: 2, kv_blocks: 32, dialect, ..fast() };
        let fleet = MockFleet::start(config).await.unwrap();
        let of_kind = |kv_index| Settings { kv_index, ..settings(&[&fleet]) };
        let (chain, reference) = (of_kind(IndexKind::Chain), of_kind(IndexKind::Reference));
        let other = Gateway::start(reference).await.unwrap();
        other.all_ready().await;
        let site = Site::in_front_of(fleet, chain).await;
        for family in 0..40 {
            site.complete(&prompt(family % 11, 30 + 16 * (family % 6))).await;
        }
        let ours = held(&site.gateway).await;
        eventually("both hold the same", || async { held(&other).await == ours }).await;
        assert!(ours.iter().any(|rank| rank[0] != 0), "{ours:?}");
        other.stop().await;
        site.stop().await;
    }
}
