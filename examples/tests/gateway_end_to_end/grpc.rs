//! Engines with a gRPC port beside their HTTP server: loads and health are asked for there, requests go to HTTP.

use std::time::Duration;

use kv_examples::gateway::{DecisionSettings, LoadSource, PolicyKind, Settings};
use kv_examples::mock_engine::{MockConfig, MockFleet};
use kv_routing::adapter::grpc::proto::health::health_check_response::ServingStatus;
use serde_json::{Value, json};

use crate::decided::{metric, often};
use crate::servicer::Servicer;
use crate::site::{Site, completion, eventually, fast, free_ports, prompt, settings};

/// A gateway in front of `engines` of `ranks`, the first of which has a gRPC port.
async fn site(engines: usize, ranks: usize, grpc: &str, load: LoadSource) -> Site {
    let fleet = MockFleet::start(MockConfig { engines, ranks, ..fast() }).await.unwrap();
    let decision = DecisionSettings { predict_for: None, ..often() };
    let mut settings = Settings { policy: PolicyKind::LeastLoad, decision, ..settings(&[&fleet]) };
    settings.liveness.stall = Duration::from_millis(300);
    (settings.engines[0].grpc, settings.engines[0].load) = (Some(grpc.parse().unwrap()), load);
    Site::in_front_of(fleet, settings).await
}

async fn first(site: &Site) -> Value {
    site.json("/debug/workers").await[0].clone()
}

/// Who serves eight requests, by engine and rank.
async fn served(site: &Site) -> Vec<(String, u64)> {
    let mut served = Vec::new();
    for family in 0..8 {
        let answer = site.post("/v1/completions", &completion(&prompt(family, 64))).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        served.push((answer.worker.unwrap(), answer.rank.unwrap()));
    }
    served
}

#[tokio::test(flavor = "multi_thread")]
async fn loads_of_a_servicer_go_to_their_ranks_and_steer() {
    for (load, is_sglang) in [(LoadSource::Auto, false), (LoadSource::Auto, true), (LoadSource::GrpcSglang, true)] {
        let servicer = Servicer::new(&[6, 0]);
        let address = if is_sglang { servicer.sglang().await } else { servicer.vllm().await };
        let site = site(1, 2, &address, load).await;
        for (waiting, chosen) in [([6, 0], 1), ([0, 6], 0)] {
            servicer.waits(&waiting);
            eventually("each rank is told its own", || async {
                site.ranks().await.iter().map(|rank| rank["waiting"].clone()).collect::<Vec<_>>() == waiting.map(Value::from)
            })
            .await;
            let served = served(&site).await;
            assert!(served.iter().all(|(_, rank)| *rank == chosen), "{load:?}: {waiting:?} wait, and {served:?} served");
        }
        let (engine, path) = (first(&site).await, if is_sglang { "/sglang.grpc" } else { "/vllm.grpc" });
        assert!(engine["load_polls"]["path"].as_str().unwrap().starts_with(path), "{}", engine["load_polls"]);
        let answered = format!("kv_load_polls_total{{worker=\"{}\",outcome=\"answered\"}} ", engine["name"].as_str().unwrap());
        assert!(metric(&site, &answered).await > 1.0);
        site.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_that_it_does_not_serve_gets_no_requests_until_it_does() {
    let servicer = Servicer::new(&[0]);
    let site = site(2, 1, &servicer.sglang().await, LoadSource::Off).await;
    let name = first(&site).await["name"].as_str().unwrap().to_owned();
    let ready = async |count: u32| site.json("/health").await["ready_engines"] == count;
    servicer.is(ServingStatus::NotServing);
    eventually("it is taken out", || ready(1)).await;
    let engine = first(&site).await;
    assert_eq!((&engine["ready"], &engine["grpc_health"]["says"]), (&json!(false), &json!("not_serving")), "{engine}");
    assert_eq!(engine["last_error"], "its gRPC health says NOT_SERVING");
    assert_eq!(engine["ranks"][0]["because"][0], "not serving");
    // Longer than from one look at its HTTP server, which is well, to the next.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert!(ready(1).await && served(&site).await.iter().all(|(worker, _)| *worker != name));
    assert!(metric(&site, &format!("kv_health_checks_total{{worker=\"{name}\",outcome=\"not_serving\"}} ")).await > 0.0);
    assert!(metric(&site, &format!("kv_engine_ready{{worker=\"{name}\"}} ")).await < 1.0);
    servicer.is(ServingStatus::Serving);
    eventually("it is back", || ready(2)).await;
    let engine = first(&site).await;
    assert_eq!((&engine["last_error"], &engine["grpc_health"]["says"]), (&Value::Null, &json!("serving")));
    assert!(served(&site).await.iter().any(|(worker, _)| *worker == name));
    assert_eq!(site.json("/debug/workers").await[1]["grpc_health"], Value::Null, "the other one has no port");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_without_a_health_service_says_nothing_of_health() {
    let servicer = Servicer::new(&[0]);
    let site = site(1, 1, &servicer.vllm().await, LoadSource::GrpcVllm).await;
    let unsupported = || async { first(&site).await["grpc_health"]["outcomes"]["unsupported"] == 1 };
    eventually("it was asked", unsupported).await;
    served(&site).await;
    let engine = first(&site).await;
    assert_eq!((&engine["ready"], &engine["grpc_health"]["says"]), (&json!(true), &Value::Null), "{engine}");
    assert_eq!(engine["ranks"][0]["because"], json!([]), "and that is no fault");
    assert!(unsupported().await, "it is not asked again and again");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_refuses_is_shown_and_takes_nothing_out() {
    for (load, told) in [(LoadSource::GrpcVllm, "unreachable"), (LoadSource::Auto, "answered")] {
        let site = site(1, 1, &format!("grpc://127.0.0.1:{}", free_ports(1)), load).await;
        eventually("it was asked for both", || async {
            let engine = first(&site).await;
            let [health, loads] = ["grpc_health", "load_polls"].map(|questions| engine[questions]["outcomes"].clone());
            health["unreachable"].as_u64() > Some(1) && loads[told].as_u64() > Some(3)
        })
        .await;
        let engine = first(&site).await;
        assert!(engine["grpc_health"]["last_error"].as_str().unwrap().contains("refused"), "{engine}");
        assert_eq!(engine["ranks"][0]["because"], json!(["gRPC health unheard"]));
        let error = engine["load_polls"]["last_error"].as_str().unwrap_or_default();
        match load {
            // Where it is left to the gateway, HTTP tells instead.
            LoadSource::Auto => assert_eq!((&engine["load_polls"]["path"], error), (&json!("/metrics"), "")),
            _ => assert!(error.starts_with("gRPC: Connection refused"), "{error}"),
        }
        // All the time that the connection's failures take to pass over whom they are told of.
        for _ in 0..10 {
            let engine = first(&site).await;
            assert_eq!((&engine["ready"], &engine["ranks"][0]["veto"]), (&json!(true), &Value::Null), "{engine}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        served(&site).await;
        site.stop().await;
    }
}
