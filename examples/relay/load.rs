//! Asking the engine how busy its ranks are, so that every batch and heartbeat says it.
//!
//! Whatever answers at the URL is told by its form: JSON is SGLang's load endpoint (`/v1/loads`, or `/get_load`), anything else is
//! `/metrics`, of vLLM or SGLang. An engine that has not answered for [`FAILURES_MAX`] polls in a row has no known load: a reader must
//! not take an old one for the present.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kv_events::adapter::hub::{Hub, Input, Stopped};
use kv_events::relay::{Load, LoadCore};
use kv_routing::limits::LOAD_BODY_BYTES_MAX;
use kv_routing::load::Sample;
use kv_routing::load::wire::{Loads, metrics, sglang};
use reqwest::{Client, Response, Url};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::limits::{FAILURES_MAX, POLL_MAX};

/// What became of the polls.
#[derive(Debug, Default)]
pub(super) struct LoadCounts {
    answered: AtomicU64,
    failed: AtomicU64,
    unreadable: AtomicU64,
}

/// The polls of one engine.
pub(super) struct LoadPolls {
    url: Url,
    client: Client,
    hub: Hub,
    counts: Arc<LoadCounts>,
    begun: Instant,
    /// By rank, when the tokens since the engine's start were told last, and how many.
    tokens: HashMap<u16, (Duration, f64)>,
    failures: u32,
}

impl LoadCounts {
    /// Each outcome with its count.
    pub(super) fn all(&self) -> [(&'static str, u64); 3] {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [("answered", read(&self.answered)), ("failed", read(&self.failed)), ("unreadable_rank", read(&self.unreadable))]
    }
}

impl LoadPolls {
    pub(super) fn new(url: Url, hub: Hub, counts: Arc<LoadCounts>) -> Result<Self, reqwest::Error> {
        let client = Client::builder().no_proxy().timeout(POLL_MAX).build()?;
        Ok(Self { url, client, hub, counts, begun: Instant::now(), tokens: HashMap::new(), failures: 0 })
    }

    /// Polls until the relay stops.
    pub(super) async fn run(mut self, every: Duration) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let told = match self.ask().await {
                Ok(loads) => self.tell(&loads).await,
                Err(reason) => self.failed(&reason).await,
            };
            if told.is_err() {
                return;
            }
        }
    }

    async fn ask(&self) -> Result<Loads, String> {
        let sent_at = self.begun.elapsed();
        let answer = self.client.get(self.url.clone()).send().await.map_err(|error| error.without_url().to_string())?;
        if !answer.status().is_success() {
            return Err(format!("answered {}", answer.status()));
        }
        read(&body_of(answer).await?, sent_at)
    }

    async fn tell(&mut self, loads: &Loads) -> Result<(), Stopped> {
        if self.failures > 0 {
            tracing::info!(url = %self.url, "the engine tells its load again");
        }
        self.failures = 0;
        self.counts.answered.fetch_add(1, Ordering::Relaxed);
        self.counts.unreadable.fetch_add(loads.unreadable, Ordering::Relaxed);
        let ranks = self.hub.ranks();
        for &(rank, sample) in loads.ranks.iter().filter(|(rank, _)| u32::from(*rank) < ranks) {
            let load = Load { core: self.core(rank, &sample), ..Load::default() };
            self.hub.tell(Input::Load { rank: rank.into(), load }).await?;
        }
        Ok(())
    }

    async fn failed(&mut self, reason: &str) -> Result<(), Stopped> {
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 {
            tracing::warn!(url = %self.url, reason, "the engine does not tell its load");
        }
        if self.failures == FAILURES_MAX {
            self.tokens.clear();
            for rank in 0..self.hub.ranks() {
                self.hub.tell(Input::Unloaded { rank }).await?;
            }
        }
        Ok(())
    }

    /// What is told of a rank: values that are no numbers are left out, and a rate that the engine does not tell is made of two polls.
    fn core(&mut self, rank: u16, sample: &Sample) -> LoadCore {
        let before = sample.tokens_total.and_then(|total| self.tokens.insert(rank, (sample.sampled_at, total)));
        LoadCore {
            running: whole(sample.running),
            waiting: whole(sample.waiting),
            queued_tokens: u64::from(whole(sample.queued_tokens.unwrap_or_default())),
            window_tokens: 0,
            kv_usage: sample.kv_usage.filter(|usage| usage.is_finite()).unwrap_or_default().clamp(0.0, 1.0),
            tokens_per_s: sample.tokens_per_s.or_else(|| rate(before?, sample)).filter(|rate| *rate >= 0.0).unwrap_or_default(),
        }
    }
}

/// What a body says, by its form.
fn read(body: &[u8], sent_at: Duration) -> Result<Loads, String> {
    let is_json = body.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|first| matches!(first, b'{' | b'['));
    let loads = if is_json { sglang::loads(body, sent_at) } else { metrics::loads(body, sent_at) };
    loads.map_err(|error| error.to_string())
}

async fn body_of(mut answer: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| error.without_url().to_string())? {
        if body.len() + chunk.len() > LOAD_BODY_BYTES_MAX {
            return Err(format!("expected at most {LOAD_BODY_BYTES_MAX} bytes, got more"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Tokens in a second between two polls. Nothing if the engine has started again between them.
fn rate((then, before): (Duration, f64), sample: &Sample) -> Option<f64> {
    let (passed, tokens) = (sample.sampled_at.checked_sub(then)?.as_secs_f64(), sample.tokens_total? - before);
    (passed > 0.0 && tokens >= 0.0).then_some(tokens / passed)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` takes what is out of range for the nearest")]
fn whole(value: f64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polled(s: u64, tokens_total: Option<f64>) -> Sample {
        Sample { tokens_total, ..Sample::polled(Duration::from_secs(s)) }
    }

    #[test]
    fn a_body_is_told_by_its_form() {
        let vllm = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"1\"} 3\n";
        assert_eq!(read(vllm.as_bytes(), Duration::ZERO).unwrap().ranks[0].0, 1);
        let sglang = r#" {"loads": [{"dp_rank": 2, "num_running_reqs": 4, "num_waiting_reqs": 0}]}"#;
        let loads = read(sglang.as_bytes(), Duration::ZERO).unwrap();
        assert_eq!((loads.ranks[0].0, loads.ranks[0].1.running), (2, 4.0));
        assert!(read(b"<html>", Duration::ZERO).unwrap_err().contains("vllm:num_requests_running"));
        assert!(read(b"{", Duration::ZERO).unwrap_err().contains("JSON was expected"));
    }

    #[tokio::test]
    async fn a_rate_is_made_of_two_polls_and_not_across_a_start() {
        let (hub, _) = Hub::spawn(1, kv_events::relay::Options::default());
        let mut polls = LoadPolls::new("http://127.0.0.1:1/metrics".parse().unwrap(), hub, Arc::default()).unwrap();
        let mut rate = |s, total| polls.core(0, &polled(s, total)).tokens_per_s;
        let rates = (rate(1, Some(100.0)), rate(3, Some(500.0)), rate(4, Some(20.0)), rate(6, Some(40.0)));
        assert_eq!(rates, (0.0, 200.0, 0.0, 10.0));
        let odd = Sample { running: f64::NAN, waiting: -3.0, kv_usage: Some(7.0), ..polled(9, None) };
        let core = polls.core(1, &odd);
        assert_eq!((core.running, core.waiting, core.kv_usage, core.tokens_per_s), (0, 0, 1.0, 0.0));
    }
}
