//! Clients of a fleet, as a router would write them.

use std::time::Duration;

use kv_events::Batch;
use kv_events::wire::decode_batch;
use kv_events::wire::frame::{self, ReplayAnswer};
use kv_examples::mock_engine::{MockConfig, MockFleet, Timing};
use serde_json::{Value, json};
use zeromq::{DealerSocket, Socket, SocketRecv, SocketSend, SubSocket, ZmqMessage};

/// Fast enough for a test, slow enough that passes are passes.
pub(crate) fn config() -> MockConfig {
    MockConfig { timing: Timing { speed: 100.0, ..Timing::default() }, ..MockConfig::default() }
}

pub(crate) async fn start(config: MockConfig) -> MockFleet {
    MockFleet::start(config).await.expect("a fleet on free ports starts")
}

pub(crate) fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

pub(crate) async fn post(url: String, body: &Value) -> (u16, Value) {
    let response = http().post(url).json(body).send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

pub(crate) async fn get_json(url: String) -> Value {
    http().get(url).send().await.unwrap().json().await.unwrap()
}

/// Completes a prompt and returns the whole answer.
pub(crate) async fn complete(url: &str, tokens: &[u32], max_tokens: usize) -> Value {
    let (status, answer) = post(format!("{url}/v1/completions"), &json!({"prompt": tokens, "max_tokens": max_tokens})).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

pub(crate) fn cached_tokens(answer: &Value) -> usize {
    let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("usage has cached tokens");
    usize::try_from(cached).unwrap()
}

/// `len` tokens that no other `family` shares.
pub(crate) fn prompt(family: u32, len: u32) -> Vec<u32> {
    (0..len).map(|position| family * 100_000 + position + 1).collect()
}

/// A live subscription.
pub(crate) struct Subscriber(SubSocket);

impl Subscriber {
    pub(crate) async fn connect(endpoint: &str) -> Self {
        let mut socket = SubSocket::new();
        socket.connect(endpoint).await.unwrap();
        socket.subscribe("").await.unwrap();
        Self(socket)
    }

    /// The next batch, if one comes within half a second.
    pub(crate) async fn next(&mut self) -> Option<(u64, Batch)> {
        let message = tokio::time::timeout(Duration::from_millis(500), self.0.recv()).await.ok()?.unwrap();
        let frames = message.into_vec();
        let message = frame::live(&frames).unwrap();
        Some((message.sequence, decode_batch(message.payload)))
    }

    /// Waits for the subscription to arrive at the publisher, which nothing announces: asks for unshared prompts until
    /// the batch of one is heard.
    pub(crate) async fn synchronise(&mut self, url: &str) {
        for family in 900.. {
            complete(url, &prompt(family, 32), 1).await;
            if self.next().await.is_some() {
                return;
            }
        }
    }
}

/// Asks the replay socket for everything from `start` on, and waits for the end marker.
pub(crate) async fn replay(endpoint: &str, start: u64) -> Vec<(u64, Batch)> {
    let answers = replay_frames(endpoint, start).await;
    let mut batches = Vec::new();
    for frames in &answers[..answers.len() - 1] {
        let ReplayAnswer::Batch(message) = frame::replayed_to_dealer(frames).unwrap() else {
            panic!("an end marker before the end")
        };
        batches.push((message.sequence, decode_batch(message.payload)));
    }
    batches
}

/// The frames of each answer, the end marker last.
pub(crate) async fn replay_frames(endpoint: &str, start: u64) -> Vec<Vec<Vec<u8>>> {
    let mut socket = DealerSocket::new();
    socket.connect(endpoint).await.unwrap();
    let [delimiter, start] = frame::replay_request(start);
    let mut request = ZmqMessage::from(delimiter);
    request.push_back(start.into());
    socket.send(request).await.unwrap();
    let mut answers = Vec::new();
    loop {
        let answer = tokio::time::timeout(Duration::from_secs(5), socket.recv()).await.expect("an answer").unwrap();
        let frames: Vec<Vec<u8>> = answer.into_vec().iter().map(|frame| frame.to_vec()).collect();
        let end = frame::replayed_to_dealer(&frames).unwrap() == ReplayAnswer::End;
        answers.push(frames);
        if end {
            return answers;
        }
    }
}

/// Tries until `done` or two seconds have passed.
pub(crate) async fn eventually<F: Future<Output = bool>>(mut done: impl FnMut() -> F) {
    for _ in 0..200 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("did not come true within two seconds");
}
