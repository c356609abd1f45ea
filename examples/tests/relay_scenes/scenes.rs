//! What breaks.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use kv_examples::mock_engine::Dialect;
use tokio::time::sleep;

use crate::load::Load;
use crate::proxy::Proxy;
use crate::site::{From, Link, Site};

async fn direct(_: Link, address: SocketAddr) -> SocketAddr {
    address
}

/// A site of which one link goes through a proxy.
async fn cut_at(link: Link, from: From) -> (Site, Proxy) {
    let proxy = RefCell::new(None);
    let via = async |at: Link, address: SocketAddr| {
        if at != link {
            return address;
        }
        let through = Proxy::to(address).await;
        let address = through.address;
        *proxy.borrow_mut() = Some(through);
        address
    };
    let site = Site::start(from, Dialect::Vllm, via).await;
    let proxy = proxy.borrow_mut().take().expect("the scene has this link");
    (site, proxy)
}

/// R1, D12, P13: a gateway that starts again under load.
async fn gateway_restarted(from: From) {
    let mut site = Site::start(from, Dialect::Vllm, direct).await;
    let load = Load::start(&site.engine_url());
    load.go_on(150).await;
    for _ in 0..2 {
        site.restart_gateway().await;
        load.go_on(80).await;
    }
    load.stop().await;
    site.becomes_exact(&format!("gateway restarted, events from {from:?}")).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_starts_again_reads_the_engine_anew() {
    gateway_restarted(From::Engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_starts_again_reads_the_relay_anew() {
    gateway_restarted(From::Relay).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_is_killed_and_started_again_is_another_one() {
    let mut site = Site::start(From::Relay, Dialect::Vllm, direct).await;
    let load = Load::start(&site.engine_url());
    load.go_on(150).await;
    site.kill_relay().await;
    load.go_on(100).await;
    assert_ne!(site.rank().await["trust"], "exact", "nobody tells what happens");
    site.start_relay().await;
    load.go_on(50).await;
    load.stop().await;
    let rank = site.becomes_exact("relay killed and started again").await;
    assert!(rank["batches"]["restarts"].as_u64().unwrap() >= 1, "its lives are its own: {rank:#}");
    site.stop().await;
}

/// P37, D11: what a cut link missed is refilled, and nothing is cleared for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_the_relay_that_is_cut_is_resumed() {
    let (site, proxy) = cut_at(Link::Relay, From::Relay).await;
    let load = Load::start(&site.engine_url());
    load.go_on(150).await;
    for _ in 0..2 {
        proxy.cut();
        load.go_on(100).await;
        proxy.mend();
        load.go_on(50).await;
    }
    load.stop().await;
    let rank = site.becomes_exact("link from gateway to relay cut").await;
    assert_eq!(
        (&rank["batches"]["missed"], &rank["batches"]["restarts"], &rank["batches"]["resyncs"]),
        (&0.into(), &0.into(), &0.into())
    );
    site.stop().await;
}

/// While nobody sees the engine, the index is not called exact, though the relay may still be there.
async fn engine_link_cut(from: From) {
    let (site, proxy) = cut_at(Link::EngineEvents, from).await;
    let load = Load::start(&site.engine_url());
    load.go_on(150).await;
    for _ in 0..2 {
        proxy.cut();
        load.go_on(100).await;
        site.becomes(if from == From::Relay { "exact as of the last sequence" } else { "disconnected" }).await;
        proxy.mend();
        load.go_on(50).await;
    }
    load.stop().await;
    let rank = site.becomes_exact(&format!("link to the engine cut, events from {from:?}")).await;
    assert_eq!(rank["batches"]["missed"], 0, "{rank:#}");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_from_the_engine_that_is_cut_is_refilled_for_the_gateway() {
    engine_link_cut(From::Engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_from_the_engine_that_is_cut_is_refilled_for_the_relay() {
    engine_link_cut(From::Relay).await;
}

/// Batches that are lost without a sign are asked for.
async fn batches_lost(from: From) {
    let site = Site::start(from, Dialect::Vllm, direct).await;
    let load = Load::start(&site.engine_url());
    for _ in 0..3 {
        load.go_on(60).await;
        site.fault("drop?batches=7").await;
    }
    load.go_on(60).await;
    site.fault("drop?batches=1000000").await;
    load.go_on(30).await;
    load.stop().await;
    // The last ones are lost too: nothing shows it but silence.
    let rank = site.becomes_exact(&format!("batches lost, the last ones too, events from {from:?}")).await;
    assert_eq!(rank["batches"]["missed"], 0, "{rank:#}");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_that_are_lost_are_asked_for_by_the_gateway() {
    batches_lost(From::Engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_that_are_lost_are_asked_for_by_the_relay() {
    batches_lost(From::Relay).await;
}

/// R1, P1: an engine that starts again, with a clear of its own (SGLang) or without (vLLM), counts from 0 and holds nothing.
async fn engine_restarted(from: From, dialect: Dialect) {
    let mut site = Site::start(from, dialect, direct).await;
    let load = Load::start(&site.engine_url());
    load.go_on(150).await;
    site.kill_engine().await;
    sleep(Duration::from_millis(100)).await;
    site.start_engine().await;
    load.go_on(150).await;
    load.stop().await;
    site.becomes_exact(&format!("{dialect:?} engine restarted, events from {from:?}")).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_starts_again_without_a_clear_starts_again_in_the_gateway() {
    engine_restarted(From::Engine, Dialect::Vllm).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_starts_again_with_a_clear_starts_again_in_the_gateway() {
    engine_restarted(From::Engine, Dialect::Sglang).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_starts_again_without_a_clear_starts_again_through_the_relay() {
    engine_restarted(From::Relay, Dialect::Vllm).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_starts_again_with_a_clear_starts_again_through_the_relay() {
    engine_restarted(From::Relay, Dialect::Sglang).await;
}

/// A publisher that starts again while its cache stays tells nothing of what it kept. What it stores below that has no known place:
/// the stream says so, and is exact again after a clear.
#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_that_starts_again_alone_leaves_the_stream_degraded_until_a_clear() {
    let site = Site::start(From::Relay, Dialect::Vllm, direct).await;
    let load = Load::start(&site.engine_url());
    load.go_on(100).await;
    site.fault("restart-publisher").await;
    load.go_on(100).await;
    site.becomes("degraded").await;
    let rank = site.rank().await;
    assert_eq!(rank["degraded_by"][0], "blocks wait for a parent that was not announced", "{rank:#}");
    site.reset().await;
    load.go_on(100).await;
    load.stop().await;
    site.becomes_exact("publisher restarted alone, and a clear").await;
    site.stop().await;
}
