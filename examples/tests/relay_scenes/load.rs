//! Requests that share prefixes, more of them than the engine has room for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use reqwest::Client;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Prompts of a run at most.
pub(crate) const PROMPTS: u32 = 4000;

/// A load that runs until it is stopped.
pub(crate) struct Load {
    next: Arc<AtomicU32>,
    answered: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

/// Prompt `number`: one of 16 long beginnings, and an end of its own.
pub(crate) fn prompt(number: u32) -> Vec<u32> {
    let family = number % 16;
    let beginning = (0..64).map(|at| 1_000_000 + family * 1000 + at);
    beginning.chain((0..48).map(|at| 2_000_000 + number * 64 + at)).collect()
}

impl Load {
    /// Sends prompts to `url` from a few clients. An engine that is away is tried again.
    pub(crate) fn start(url: &str) -> Self {
        let (next, answered) = (Arc::<AtomicU32>::default(), Arc::<AtomicU64>::default());
        let mut tasks = JoinSet::new();
        for _ in 0..3 {
            tasks.spawn(client(format!("{url}/v1/completions"), next.clone(), answered.clone()));
        }
        Self { next, answered, tasks }
    }

    /// Waits until so many more prompts were answered.
    pub(crate) async fn go_on(&self, prompts: u64) {
        let until = self.answered.load(Ordering::Relaxed) + prompts;
        let done = async {
            while self.answered.load(Ordering::Relaxed) < until {
                sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), done).await.expect("the load goes on");
        assert!(self.next.load(Ordering::Relaxed) < PROMPTS, "prompts are left");
    }

    pub(crate) async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

async fn client(url: String, next: Arc<AtomicU32>, answered: Arc<AtomicU64>) {
    let client = Client::builder().no_proxy().build().unwrap();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= PROMPTS {
            return;
        }
        let body = json!({"model": "mock", "prompt": prompt(number), "max_tokens": 1});
        match client.post(&url).json(&body).send().await {
            Ok(response) if response.status() == 200 => {
                // Read to its end, so that the connection is used again.
                let _ = response.bytes().await;
                answered.fetch_add(1, Ordering::Relaxed);
            }
            _ => sleep(Duration::from_millis(20)).await,
        }
    }
}
