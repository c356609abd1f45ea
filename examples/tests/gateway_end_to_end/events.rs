//! Streams that break, start again, or began without the gateway.

use kv_examples::mock_engine::{MockConfig, MockFleet, ReplayLayout};

use crate::site::{Answer, Site, client, completion, eventually, fast, free_ports, prompt, settings};

/// Sends `prompt` to the fleet's only engine past any gateway.
async fn complete_directly(fleet: &MockFleet, prompt: &[u32]) {
    let url = format!("{}/v1/completions", fleet.engines()[0].http_url());
    assert_eq!(client().post(url).json(&completion(prompt)).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_published_before_the_gateway_came_is_replayed() {
    for replay_layout in [ReplayLayout::WithTopic, ReplayLayout::Bare] {
        let fleet = MockFleet::start(MockConfig { engines: 1, replay_layout, ..fast() }).await.unwrap();
        for family in 0..5 {
            complete_directly(&fleet, &prompt(family, 64)).await;
        }
        let settings = settings(&[&fleet]);
        let site = Site::in_front_of(fleet, settings).await;
        site.settled().await;
        let answer = site.complete(&[prompt(3, 64), vec![5; 20]].concat()).await;
        assert_eq!((answer.predicted, answer.cached), (Some(64), Some(64)), "{replay_layout:?}");
        // The first batch of a connection is believed when the replay socket has shown it too.
        eventually("it is exact", || async { site.ranks().await[0]["trust"] == "exact" }).await;
        site.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_batches_are_replayed() {
    let site = Site::start(MockConfig { engines: 1, ..fast() }).await;
    site.complete(&prompt(0, 64)).await;
    site.fault("0", "drop?batches=3").await;
    for family in 1..5 {
        complete_directly(&site.fleet, &prompt(family, 64)).await;
    }
    site.settled().await;
    // The index shows a batch a moment before the report of the stream does.
    eventually("the replay is reported", || async { site.ranks().await[0]["batches"]["replayed"].as_u64() >= Some(3) }).await;
    eventually("it is exact", || async { site.ranks().await[0]["trust"] == "exact" }).await;
    assert_eq!(site.ranks().await[0]["batches"]["missed"], 0);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_last_batch_is_found_in_the_silence_after_it() {
    let site = Site::start(MockConfig { engines: 1, ..fast() }).await;
    site.complete(&prompt(0, 64)).await;
    site.fault("0", "drop?batches=1").await;
    complete_directly(&site.fleet, &prompt(1, 64)).await;
    site.settled().await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_replay_socket_a_loss_is_owned_up_to() {
    let fleet = MockFleet::start(MockConfig { engines: 1, ..fast() }).await.unwrap();
    let mut settings = settings(&[&fleet]);
    settings.engines[0].replay = None;
    let site = Site::in_front_of(fleet, settings).await;
    // Nothing tells a subscriber that the publisher has heard of it.
    let family = std::cell::Cell::new(1000);
    eventually("the gateway hears the engine", || async {
        complete_directly(&site.fleet, &prompt(family.replace(family.get() + 1), 16)).await;
        site.ranks().await[0]["sequence"].is_u64()
    })
    .await;
    site.fault("0", "drop?batches=1").await;
    complete_directly(&site.fleet, &prompt(100, 64)).await;
    complete_directly(&site.fleet, &prompt(101, 64)).await;
    eventually("the loss is known", || async { site.ranks().await[0]["trust"] == "degraded" }).await;
    assert!(site.ranks().await[0]["missed_batches"].as_u64().unwrap() >= 1);
    site.stop().await;
}

/// What only hides blocks costs no trust in those that are known; a lost removal does.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_discounted_for_what_may_be_gone_and_not_for_what_is_hidden() {
    let fleet = MockFleet::start(MockConfig { engines: 1, ..fast() }).await.unwrap();
    complete_directly(&fleet, &prompt(0, 64)).await;
    let mut settings = settings(&[&fleet]);
    settings.engines[0].replay = None;
    let site = Site::in_front_of(fleet, settings).await;
    let reasons = async || site.ranks().await[0]["degraded_by"].as_array().unwrap().len();
    let family = std::cell::Cell::new(1);
    eventually("the gateway hears the engine, too late", || async {
        complete_directly(&site.fleet, &prompt(family.replace(family.get() + 1), 64)).await;
        reasons().await == 1
    })
    .await;
    let held = prompt(family.get() - 1, 64);
    let candidate = async || {
        let request = site.client.post(site.url("/v1/completions")).header("x-kv-explain", "1");
        let answer = Answer::read(request.json(&completion(&held)).send().await.unwrap()).await;
        let candidate = answer.decision.expect("it was asked for")["record"]["scored"][0]["candidate"].clone();
        (candidate["overlap"]["device_tokens"].as_u64().unwrap(), candidate["degraded"].as_bool().unwrap_or(false))
    };
    assert_eq!((site.ranks().await[0]["trust"].as_str(), candidate().await), (Some("degraded"), (48, false)));
    site.fault("0", "drop?batches=1").await;
    complete_directly(&site.fleet, &prompt(100, 64)).await;
    complete_directly(&site.fleet, &prompt(101, 64)).await;
    eventually("the loss is known", || async { reasons().await == 2 }).await;
    assert_eq!(candidate().await, (48, true));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_that_starts_again_starts_the_stream_again() {
    let site = Site::start(MockConfig { engines: 1, ..fast() }).await;
    for family in 0..4 {
        site.complete(&prompt(family, 64)).await;
    }
    site.fault("0", "restart-publisher").await;
    complete_directly(&site.fleet, &prompt(9, 64)).await;
    // The engine keeps its cache, and says nothing of it: what it stored since is all that is known.
    eventually("the restart is seen", || async { site.ranks().await[0]["batches"]["restarts"] == 1 }).await;
    eventually("the new stream is taken in", || async { site.indexed().await == [4] }).await;
    eventually("its sequence is reported", || async { site.ranks().await[0]["sequence"] == 0 }).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_engine_in_its_place_is_not_taken_for_a_gap() {
    let first_port = free_ports(3);
    let config = || MockConfig { engines: 1, http_port: first_port, events_port: first_port + 1, ..fast() };
    let fleet = MockFleet::start(config()).await.unwrap();
    let settings = settings(&[&fleet]);
    let site = Site::in_front_of(fleet, settings).await;
    for family in 0..2 {
        site.complete(&prompt(family, 64)).await;
    }
    let Site { fleet, gateway, client } = site;
    fleet.shutdown().await;
    // Long enough for the pauses between attempts to grow, so that the new engine's count passes the old one's unseen.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let fleet = MockFleet::start(config()).await.unwrap();
    for family in 10..15 {
        complete_directly(&fleet, &prompt(family, 64)).await;
    }
    tokio::time::timeout(std::time::Duration::from_secs(10), gateway.all_ready()).await.expect("it is back");
    let site = Site { fleet, gateway, client };
    site.settled().await;
    assert_eq!(site.indexed().await, [20]);
    let answer = site.complete(&[prompt(1, 64), vec![5; 20]].concat()).await;
    assert_eq!((answer.predicted, answer.cached), (Some(0), Some(0)), "nothing of the old engine is believed");
    site.stop().await;
}
