//! A fleet through its real sockets.

use super::support::{
    Subscriber, cached_tokens, complete, config, eventually, get_json, http, post, prompt, replay, replay_frames, start,
};
use kv_events::Event;
use kv_examples::mock_engine::{Dialect, MockConfig, MockFleet, ReplayLayout, Timing, tokenize};
use serde_json::{Value, json};

#[tokio::test]
async fn a_repeated_prompt_is_cached_but_for_its_last_block() {
    let fleet = start(config()).await;
    let url = fleet.engines()[0].http_url();
    assert_eq!(cached_tokens(&complete(url, &prompt(1, 64), 1).await), 0);
    assert_eq!(cached_tokens(&complete(url, &prompt(1, 64), 1).await), 48);
    fleet.shutdown().await;
}

#[tokio::test]
async fn subscribers_hear_what_the_replay_repeats() {
    for (dialect, replay_layout, frames) in
        [(Dialect::Vllm, ReplayLayout::WithTopic, 4), (Dialect::Sglang, ReplayLayout::Bare, 3)]
    {
        let fleet = start(MockConfig { dialect, replay_layout, ..config() }).await;
        let engine = &fleet.engines()[1];
        let mut subscriber = Subscriber::connect(engine.events_endpoint()).await;
        subscriber.synchronise(engine.http_url()).await;
        complete(engine.http_url(), &prompt(1, 50), 40).await;
        let mut live = Vec::new();
        while let Some(batch) = subscriber.next().await {
            live.push(batch);
        }
        let Event::Stored(stored) = &live[0].1.events[0] else { panic!("a store comes first: {live:?}") };
        assert_eq!((stored.hashes.len(), stored.tokens.len(), stored.block_size), (3, 48, 16));
        assert!(live.len() > 1, "decoding fills blocks too");
        assert!(live.iter().all(|(_, batch)| batch.losses.total() == 0 && batch.rank == Some(0)));
        assert_eq!(replay(engine.replay_endpoint(), live[0].0).await, live);

        let answers = replay_frames(engine.replay_endpoint(), 0).await;
        assert!(answers.iter().all(|answer| answer.len() == frames), "the layout's number of frames");
        let first = &replay(engine.replay_endpoint(), 0).await[0].1;
        assert_eq!(first.clears(), dialect == Dialect::Sglang, "a new SGLang cache starts with a clear");
        fleet.shutdown().await;
    }
}

#[tokio::test]
async fn the_openai_endpoints_answer_in_openai_shapes() {
    let fleet = start(MockConfig { engines: 1, model: "m".to_owned(), max_model_len: 100, ..config() }).await;
    let url = fleet.engines()[0].http_url();
    assert_eq!(get_json(format!("{url}/v1/models")).await["data"][0]["id"], "m");
    assert_eq!(http().get(format!("{url}/health")).send().await.unwrap().status(), 200);

    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "hello there"}], "max_tokens": 3});
    let (_, answer) = post(format!("{url}/v1/chat/completions"), &chat).await;
    let (_, tokenized) = post(format!("{url}/tokenize"), &chat).await;
    assert_eq!(answer["usage"]["prompt_tokens"], tokenized["count"]);
    assert_eq!(tokenized["tokens"], json!(tokenize("user: hello there assistant:")));
    assert_eq!(tokenized["max_model_len"], 100);

    let refused = [
        (404, json!({"model": "other", "prompt": "a"})),
        (400, json!({"prompt": []})),
        (400, json!({"prompt": [-1]})),
        (400, json!({"prompt": "a", "max_tokens": 0})),
        (400, json!({"prompt": "a", "max_tokens": 100})),
        (400, json!({})),
    ];
    for (expected, body) in refused {
        let (status, answer) = post(format!("{url}/v1/completions"), &body).await;
        assert_eq!((status, &answer["error"]["code"]), (expected, &json!(expected)), "{body}");
    }
    let large = http().post(format!("{url}/v1/completions")).body(vec![b' '; (16 << 20) + 1]).send().await;
    assert!(large.is_err() || large.is_ok_and(|response| response.status() == 413));
    fleet.shutdown().await;
}

#[tokio::test]
async fn a_stream_carries_tokens_usage_and_an_end() {
    let fleet = start(config()).await;
    let url = format!("{}/v1/completions", fleet.engines()[0].http_url());
    let body = json!({"prompt": [1, 2, 3], "max_tokens": 5, "stream": true, "return_token_ids": true,
        "stream_options": {"include_usage": true}});
    let text = http().post(&url).json(&body).send().await.unwrap().text().await.unwrap();
    let events: Vec<&str> = text.trim().split("\n\n").map(|event| event.strip_prefix("data: ").unwrap()).collect();
    assert_eq!(events.last(), Some(&"[DONE]"));
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(chunks[0]["choices"][0]["prompt_token_ids"], json!([1, 2, 3]));
    let ids: usize = chunks.iter().filter_map(|chunk| chunk["choices"][0]["token_ids"].as_array()).map(Vec::len).sum();
    let (usage, tokens) = chunks.split_last().unwrap();
    assert_eq!((ids, &usage["usage"]["completion_tokens"]), (5, &json!(5)));
    assert_eq!(tokens.last().unwrap()["choices"][0]["finish_reason"], "length");

    let text_of = |chunk: &Value| chunk["choices"][0]["text"].as_str().unwrap().to_owned();
    let streamed: String = tokens.iter().map(text_of).collect();
    assert_eq!(tokenize(&streamed).len(), 5, "each output token is a word of its own: {streamed}");
    fleet.shutdown().await;
}

#[tokio::test]
async fn a_client_that_goes_away_frees_its_blocks() {
    let fleet = start(MockConfig { engines: 1, timing: Timing::default(), ..config() }).await;
    let url = format!("{}/v1/completions", fleet.engines()[0].http_url());
    for stream in [true, false] {
        let body = json!({"prompt": prompt(1, 64), "max_tokens": 100_000, "stream": stream});
        let request = http().post(&url).json(&body).send();
        let client = tokio::spawn(async {
            let mut response = request.await.unwrap();
            while response.chunk().await.unwrap().is_some() {}
        });
        eventually(|| async { fleet.engines()[0].loads()[0].running == 1 }).await;
        client.abort();
        eventually(|| async { fleet.engines()[0].loads()[0].running == 0 }).await;
    }
    fleet.shutdown().await;
}

#[tokio::test]
async fn the_log_tells_what_the_best_engine_could_have_served() {
    let fleet = start(config()).await;
    let [first, second] = fleet.engines() else { panic!("two engines") };
    complete(first.http_url(), &prompt(1, 100), 1).await;
    let answer = complete(second.http_url(), &prompt(1, 100), 1).await;
    assert_eq!(fleet.truth(0, &prompt(1, 100)).await, 96);

    let log = get_json(format!("{}/admin/requests?since=1&limit=5", first.http_url())).await;
    let entry = &log.as_array().unwrap()[0];
    assert_eq!((&entry["worker"], &entry["cached_tokens"], &entry["oracle_tokens"]), (&json!(1), &json!(0), &json!(96)));
    assert_eq!(answer["id"], json!(format!("cmpl-{}", entry["id"].as_str().unwrap())));

    let (_, truth) = post(format!("{}/admin/truth", second.http_url()), &json!({"token_ids": prompt(1, 64)})).await;
    assert_eq!(
        truth,
        json!([{"worker": 0, "cached_tokens": 48, "ranks": [48]}, {"worker": 1, "cached_tokens": 48, "ranks": [48]}])
    );
    fleet.shutdown().await;
}

async fn inject(fleet: &MockFleet, fault: &str) -> Value {
    let (status, report) = post(format!("{}/admin/faults/0/{fault}", fleet.engines()[0].http_url()), &Value::Null).await;
    assert_eq!(status, 200, "{fault}: {report}");
    report
}

#[tokio::test]
async fn dropped_batches_are_missing_live_and_there_in_the_replay() {
    let fleet = start(config()).await;
    let engine = &fleet.engines()[0];
    let mut subscriber = Subscriber::connect(engine.events_endpoint()).await;
    subscriber.synchronise(engine.http_url()).await;
    let next = replay(engine.replay_endpoint(), 0).await.len() as u64;
    inject(&fleet, "drop?batches=2").await;
    for family in 1..4 {
        complete(engine.http_url(), &prompt(family, 32), 1).await;
    }
    let heard = subscriber.next().await.map(|(sequence, _)| sequence);
    assert_eq!(heard, Some(next + 2));
    let replayed: Vec<u64> = replay(engine.replay_endpoint(), next).await.iter().map(|batch| batch.0).collect();
    assert_eq!(replayed, [next, next + 1, next + 2]);
    fleet.shutdown().await;
}

#[tokio::test]
async fn hollow_batches_tell_nothing_live_and_all_in_the_replay() {
    let fleet = start(config()).await;
    let engine = &fleet.engines()[0];
    let mut subscriber = Subscriber::connect(engine.events_endpoint()).await;
    subscriber.synchronise(engine.http_url()).await;
    let next = replay(engine.replay_endpoint(), 0).await.len() as u64;
    inject(&fleet, "hollow?batches=1").await;
    complete(engine.http_url(), &prompt(1, 32), 1).await;
    let heard = subscriber.next().await.expect("it is not lost");
    let replayed = replay(engine.replay_endpoint(), next).await;
    assert_eq!((heard.0, replayed[0].0), (next, next));
    assert!(heard.1.events.is_empty() && !replayed[0].1.events.is_empty(), "{heard:?} {replayed:?}");
    fleet.shutdown().await;
}

#[tokio::test]
async fn sglang_s_loads_are_told_by_rank_and_can_be_broken() {
    let fleet = start(MockConfig { dialect: Dialect::Sglang, ranks: 2, ..config() }).await;
    let url = fleet.engines()[0].http_url();
    let loads = get_json(format!("{url}/v1/loads")).await;
    assert_eq!((&loads["loads"][1]["dp_rank"], &loads["loads"][1]["num_waiting_uncached_tokens"]), (&json!(1), &json!(0)));
    assert_eq!(get_json(format!("{url}/get_load")).await[0]["num_reqs"], 0);
    inject(&fleet, "load?garbled=true").await;
    assert_eq!(get_json(format!("{url}/v1/loads")).await["loads"][0]["num_running_reqs"], -1);
    inject(&fleet, "load?status=429").await;
    for path in ["v1/loads", "get_load", "metrics"] {
        assert_eq!(http().get(format!("{url}/{path}")).send().await.unwrap().status(), 429, "{path}");
    }
    inject(&fleet, "load").await;
    assert_eq!(http().get(format!("{url}/metrics")).send().await.unwrap().status(), 200);
    fleet.shutdown().await;
}

#[tokio::test]
async fn a_restarted_publisher_counts_from_zero_and_the_cache_stays() {
    let fleet = start(config()).await;
    let engine = &fleet.engines()[0];
    complete(engine.http_url(), &prompt(1, 64), 1).await;
    let report = inject(&fleet, "restart-publisher").await;
    assert_eq!(report[0]["streams"][0]["generation"], 1);
    assert!(replay(engine.replay_endpoint(), 0).await.is_empty());
    assert_eq!(cached_tokens(&complete(engine.http_url(), &prompt(1, 80), 1).await), 64);
    eventually(|| async { replay(engine.replay_endpoint(), 0).await.iter().map(|batch| batch.0).eq([0]) }).await;
    fleet.shutdown().await;
}

#[tokio::test]
async fn faults_of_time_and_of_answers() {
    let fleet = start(config()).await;
    let url = fleet.engines()[0].http_url();
    inject(&fleet, "pause").await;
    let held = tokio::time::timeout(std::time::Duration::from_millis(100), complete(url, &prompt(1, 16), 1)).await;
    assert!(held.is_err(), "a paused engine answers nothing");
    assert_eq!(http().get(format!("{url}/health")).send().await.unwrap().status(), 200);
    inject(&fleet, "resume").await;
    complete(url, &prompt(1, 16), 1).await;

    inject(&fleet, "fail?status=503").await;
    assert_eq!(post(format!("{url}/v1/completions"), &json!({"prompt": "a"})).await.0, 503);
    inject(&fleet, "fail?after_tokens=2").await;
    let body = json!({"prompt": "a", "max_tokens": 50, "stream": true});
    let response = http().post(format!("{url}/v1/completions")).json(&body).send().await.unwrap();
    assert!(response.text().await.is_err(), "the stream breaks off");
    inject(&fleet, "fail").await;
    complete(url, &prompt(1, 16), 1).await;

    inject(&fleet, "delay?ms=300").await;
    let before = replay(fleet.engines()[0].replay_endpoint(), 0).await.len();
    complete(url, &prompt(7, 64), 1).await;
    assert_eq!(replay(fleet.engines()[0].replay_endpoint(), 0).await.len(), before, "the batch is held back");
    eventually(|| async { replay(fleet.engines()[0].replay_endpoint(), 0).await.len() > before }).await;
    fleet.shutdown().await;
}

#[tokio::test]
async fn shutdown_tells_open_streams_and_closes_every_socket() {
    let fleet = start(MockConfig { engines: 1, timing: Timing::default(), ..config() }).await;
    let url = fleet.engines()[0].http_url().to_owned();
    let events = fleet.engines()[0].events_endpoint().to_owned();
    let body = json!({"prompt": prompt(1, 64), "max_tokens": 100_000, "stream": true});
    let mut response = http().post(format!("{url}/v1/completions")).json(&body).send().await.unwrap();
    response.chunk().await.unwrap().expect("a first token");
    let rest = tokio::spawn(response.text());
    fleet.shutdown().await;
    assert!(rest.await.unwrap().unwrap().contains("shutting down"));
    assert!(http().get(format!("{url}/health")).send().await.is_err());
    let address = events.strip_prefix("tcp://").unwrap();
    eventually(|| async { tokio::net::TcpStream::connect(address).await.is_err() }).await;
}
