//! The demonstration's load: users who chat with the gateway over its own port, several at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Client, Response};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::conversation::Conversation;
use crate::gateway::fleet::ratio;

/// What came of the requests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    answered: u64,
    failed: u64,
    /// Answers whose cached tokens were as predicted.
    equal: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
}

/// Sends `requests` chat turns for `model` to the gateway at `address`, and says in words what came of them.
pub(in crate::gateway) async fn send(address: String, model: String, requests: usize) -> String {
    let started = Instant::now();
    let client = Client::builder().no_proxy().build().expect("a client without TLS needs nothing of the machine");
    let url: Arc<str> = format!("http://{address}/v1/chat/completions").into();
    let (seats, model): (_, Arc<str>) = (Arc::new(Semaphore::new(USERS_AT_A_TIME)), model.into());
    let mut users = JoinSet::new();
    for (number, first) in (0..).zip((0..requests).step_by(TURNS)) {
        let turns = TURNS.min(requests - first);
        let (client, url, model, seats) = (client.clone(), url.clone(), model.clone(), seats.clone());
        users.spawn(async move {
            let _seat = seats.acquire_owned().await;
            chat(&client, &url, &model, Conversation::of_user(number), turns).await
        });
    }
    let total = users.join_all().await.into_iter().fold(Tally::default(), Tally::and);
    total.in_words(started.elapsed())
}

async fn chat(client: &Client, url: &str, model: &str, mut conversation: Conversation, turns: usize) -> Tally {
    let mut tally = Tally::default();
    for _ in 0..turns {
        let question = conversation.ask(model);
        match client.post(url).json(&question).send().await {
            Ok(answer) => tally.take(answer, &mut conversation).await,
            Err(_) => tally.failed += 1,
        }
        sleep(THINKING).await;
    }
    tally
}

impl Tally {
    async fn take(&mut self, answer: Response, conversation: &mut Conversation) {
        let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let (predicted, cached) = (header("x-kv-predicted-tokens"), header("x-kv-cached-tokens"));
        let body: Value = answer.json().await.unwrap_or_default();
        if !conversation.hear(&body) {
            self.failed += 1;
            return;
        }
        self.answered += 1;
        self.equal += u64::from(predicted.is_some() && predicted == cached);
        self.prompt_tokens += body["usage"]["prompt_tokens"].as_u64().unwrap_or(0);
        self.cached_tokens += cached.unwrap_or(0);
    }

    fn and(self, other: Self) -> Self {
        Self {
            answered: self.answered + other.answered,
            failed: self.failed + other.failed,
            equal: self.equal + other.equal,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            cached_tokens: self.cached_tokens + other.cached_tokens,
        }
    }

    fn in_words(self, took: Duration) -> String {
        let Self { answered, failed, equal, prompt_tokens, cached_tokens } = self;
        let share = ratio(cached_tokens, prompt_tokens.max(1)) * 100.0;
        let rest =
            if equal < answered { " The others ran beside requests that computed or evicted the same blocks." } else { "" };
        format!(
            "{answered} requests answered in {:.1} s, {failed} failed. {share:.1} % of {prompt_tokens} prompt tokens came from caches; \
             for {equal} answers the gateway had predicted exactly how many.{rest}",
            took.as_secs_f64()
        )
    }
}

/// Turns of each user.
const TURNS: usize = 8;
const USERS_AT_A_TIME: usize = 16;
/// Between an answer and the next question.
const THINKING: Duration = Duration::from_millis(50);
