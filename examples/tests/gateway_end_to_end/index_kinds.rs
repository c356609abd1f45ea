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
async fn predictions_are_what_engines_report_with_either_index() {
    for kv_index in [IndexKind::Chain, IndexKind::Reference] {
        let fleet = MockFleet::start(MockConfig { engines: 2, kv_blocks: 24, ..fast() }).await.unwrap();
        let settings = Settings { kv_index, ..settings(&[&fleet]) };
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
