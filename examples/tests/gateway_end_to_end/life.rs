//! An engine that shows no life is passed over while another can serve.

use std::time::Duration;

use kv_examples::gateway::{PolicyKind, Settings};
use kv_examples::mock_engine::{MockConfig, MockFleet};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::site::{Answer, Site, completion, eventually, fast, prompt, settings};

async fn vetoes(site: &Site) -> Vec<Value> {
    site.ranks().await.iter().map(|rank| rank["veto"].clone()).collect()
}

// Behaviour 3: no health check fails, for the engine's HTTP side answers as ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_whose_streams_do_not_move_is_passed_over_until_they_do() {
    let fleet = MockFleet::start(MockConfig { engines: 2, ..fast() }).await.unwrap();
    let mut settings = Settings { policy: PolicyKind::CacheAware, ..settings(&[&fleet]) };
    settings.liveness.wedge = Some(Duration::from_millis(500));
    let site = Site::in_front_of(fleet, settings).await;
    let family = prompt(1, 160);
    let holder = site.complete(&family).await.worker.unwrap();
    let place = site.fleet.engines().iter().position(|engine| engine.http_url().ends_with(&holder)).unwrap();
    site.fault(&place.to_string(), "pause").await;
    let body = json!({"model": "mock", "prompt": family, "max_tokens": 2, "stream": true});
    let hanging: Vec<_> = (0..4)
        .map(|_| {
            let request = site.client.post(site.url("/v1/completions")).json(&body);
            tokio::spawn(async move { Answer::read(request.send().await.unwrap()).await })
        })
        .collect();
    eventually("the holder is passed over", || async { vetoes(&site).await[place] == "wedged" }).await;
    let request = completion(&family);
    let asked = timeout(Duration::from_secs(10), site.post("/v1/completions", &request));
    let answer = asked.await.expect("it does not go to the engine that hangs");
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_ne!(answer.worker.as_ref(), Some(&holder), "its prefix attracts nobody now");
    let metrics = site.client.get(site.url("/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("kv_veto_transitions_total{cause=\"pile\"} 1"), "{metrics}");
    site.fault(&place.to_string(), "resume").await;
    for stream in hanging {
        let answer = stream.await.unwrap();
        assert_eq!((answer.status, answer.worker.as_ref()), (200, Some(&holder)), "{}", answer.text);
    }
    eventually("it is chosen again", || async { vetoes(&site).await.iter().all(Value::is_null) }).await;
    site.stop().await;
}
