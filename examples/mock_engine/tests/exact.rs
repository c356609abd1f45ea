//! What a router predicts from the events is what the mock engines serve: the whole way through kv-events and kv-index.

use super::support::{cached_tokens, config, http, replay, start};
use kv_events::{Predictor, Stream, StreamOptions};
use kv_examples::mock_engine::{Dialect, MockConfig, MockEngine, SplitMix64};
use kv_index::{ContentHash, Index, Namespace, ReferenceIndex, ReferenceWorker};
use serde_json::json;

/// One rank's stream, read from its replay socket.
struct Feed {
    endpoint: String,
    stream: Stream<ReferenceWorker>,
    next: u64,
}

impl Feed {
    /// Applies everything before sequence `end`; what an answer's pass published may still be on its way.
    async fn catch_up(&mut self, end: u64) {
        while self.next < end {
            self.read().await;
        }
    }

    async fn read(&mut self) {
        for (sequence, batch) in replay(&self.endpoint, self.next).await {
            assert_eq!(sequence, self.next, "sequences have no holes");
            self.stream.apply(&batch);
            self.next += 1;
        }
    }

    fn predict(&self, index: &ReferenceIndex, tokens: &[u32]) -> usize {
        let Some(scheme) = self.stream.profile().scheme else { return 0 };
        let mut hashes: Vec<ContentHash> = Vec::new();
        scheme.hash_prompt(Namespace::default(), tokens, &mut hashes);
        Predictor::new().predict(index, self.stream.worker(), self.stream.profile(), &hashes, tokens.len()).tokens
    }
}

fn feeds(index: &ReferenceIndex, engine: &MockEngine) -> Vec<Feed> {
    let feed = |(_, replay): (&str, &str)| Feed {
        endpoint: replay.to_owned(),
        stream: Stream::new(index.add_worker().unwrap(), StreamOptions::default()),
        next: 0,
    };
    engine.rank_endpoints().into_iter().map(feed).collect()
}

/// A prompt that shares a beginning of random length with others of its family.
fn random_prompt(random: &mut SplitMix64) -> Vec<u32> {
    let family = u32::try_from(random.below(4)).unwrap() * 100_000;
    let own = u32::try_from(random.next_u64() >> 33).unwrap();
    let shared = u32::try_from(random.below(150)).unwrap();
    let tail = u32::try_from(1 + random.below(40)).unwrap();
    (family..family + shared).chain((0..tail).map(|position| own.wrapping_add(position))).collect()
}

#[tokio::test]
async fn predicted_equals_reported_for_every_request() {
    for dialect in [Dialect::Vllm, Dialect::Sglang] {
        // 40 blocks of 16 tokens: most requests evict something.
        let greetings = u64::from(dialect == Dialect::Sglang);
        let fleet = start(MockConfig { engines: 1, ranks: 2, kv_blocks: 40, dialect, ..config() }).await;
        let engine = &fleet.engines()[0];
        let index = ReferenceIndex::new();
        let mut feeds = feeds(&index, engine);
        let (mut random, mut hits) = (SplitMix64::new(11), 0);
        for turn in 0..80 {
            let tokens = random_prompt(&mut random);
            let rank = turn % 2;
            feeds[rank].catch_up(engine.loads()[rank].batches + greetings).await;
            let predicted = feeds[rank].predict(&index, &tokens);
            let request = http()
                .post(format!("{}/v1/completions", engine.http_url()))
                .header("x-data-parallel-rank", rank)
                .json(&json!({"prompt": tokens, "max_tokens": 1 + random.below(30)}));
            let reported = cached_tokens(&request.send().await.unwrap().json().await.unwrap());
            assert_eq!(predicted, reported, "turn {turn} on rank {rank} of {dialect:?}");
            hits += usize::from(reported > 0);
        }
        assert!(hits > 20, "only {hits} of 80 requests hit: the test shows little");
        let removed: u64 = feeds.iter().map(|feed| feed.stream.counts().removed).sum();
        assert!(removed > 100, "only {removed} blocks were evicted: the test shows little");
        assert!(feeds.iter().all(|feed| feed.stream.counts().losses.total() == 0));
        fleet.shutdown().await;
    }
}
