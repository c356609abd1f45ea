//! Bad input gets OpenAI's error shape, and says what to do.

use kv_examples::gateway::{Gateway, Settings};
use serde_json::json;

use crate::site::{Answer, Site, client, completion, fast, free_ports, settings};

/// The message of an error, whose shape, status, code and field must be these.
fn message(answer: &Answer, status: u16, code: &str, param: Option<&str>) -> String {
    let body = answer.json();
    assert_eq!((answer.status, &body["error"]["code"], &body["error"]["param"]), (status, &json!(code), &json!(param)), "{body}");
    let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
    assert_eq!(body["error"]["type"], kind);
    body["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_request_is_said() {
    let fleet = kv_examples::mock_engine::MockFleet::start(fast()).await.unwrap();
    let limited = Settings { body_limit: 1000, ..settings(&[&fleet]) };
    let site = Site::in_front_of(fleet, limited).await;
    let completions = async |body: String| {
        let request = site.client.post(site.url("/v1/completions")).body(body);
        Answer::read(request.send().await.unwrap()).await
    };
    let unknown = json!({"model": "gpt-9", "prompt": "x"}).to_string();
    assert!(message(&completions(unknown).await, 404, "model_not_found", Some("model")).contains("gpt-9"));
    let broken = "{\"model\": \"mock\",".to_owned();
    assert!(message(&completions(broken).await, 400, "invalid_request", None).contains("line 1"));
    let several = json!({"model": "mock", "prompt": ["a", "b"]}).to_string();
    assert!(message(&completions(several).await, 400, "invalid_request", Some("prompt")).contains("one prompt"));
    let long = completion(&vec![1; 1000]).to_string();
    assert!(message(&completions(long).await, 413, "request_too_large", None).contains("1000 bytes"));
    let metrics = site.client.get(site.url("/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("kv_refusals_total{code=\"request_too_large\"} 1"), "{metrics}");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_cut_off_without_its_length_too() {
    let fleet = kv_examples::mock_engine::MockFleet::start(fast()).await.unwrap();
    let limited = Settings { body_limit: 1000, ..settings(&[&fleet]) };
    let site = Site::in_front_of(fleet, limited).await;
    let chunks = (0..4).map(|_| Ok::<_, std::io::Error>("x".repeat(400)));
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(chunks));
    let answer = Answer::read(site.client.post(site.url("/v1/completions")).body(body).send().await.unwrap()).await;
    message(&answer, 413, "request_too_large", None);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_and_methods_that_are_not_there() {
    let site = Site::start(fast()).await;
    let answer = site.post("/v1/embeddings", &json!({})).await;
    assert!(message(&answer, 404, "unknown_route", None).contains("POST /v1/embeddings"));
    let answer = Answer::read(site.client.get(site.url("/v1/completions")).send().await.unwrap()).await;
    assert!(message(&answer, 405, "method_not_allowed", None).contains("GET"));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_ready_engine_clients_are_told_when_to_come_back() {
    let engines = vec![format!("http://127.0.0.1:{}", free_ports(1)).parse().unwrap()];
    let gateway = Gateway::start(Settings { listen: "127.0.0.1:0".to_owned(), engines, ..Settings::default() }).await.unwrap();
    let url = format!("http://{}", gateway.address());
    let request = client().post(format!("{url}/v1/completions")).json(&completion(&[1, 2, 3]));
    let answer = Answer::read(request.send().await.unwrap()).await;
    message(&answer, 503, "no_ready_engine", None);
    assert_eq!(answer.retry_after, Some(2));
    assert_eq!(client().get(format!("{url}/health")).send().await.unwrap().status(), 503);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_s_own_refusal_is_passed_on() {
    let site = Site::start(fast()).await;
    let answer = site.post("/v1/completions", &json!({"model": "mock", "prompt": [1, 2], "max_tokens": 0})).await;
    assert_eq!((answer.status, answer.predicted), (400, Some(0)));
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("max_tokens"), "{}", answer.text);
    site.stop().await;
}
