//! A server's health, asked and told.

use std::time::Duration;

use kv_routing::adapter::grpc::proto::health::health_check_response::ServingStatus;
use kv_routing::adapter::grpc::{Health, HealthClient};
use kv_routing::adapter::tokio::PollFailure;
use kv_routing::liveness::{Cause, Veto};
use tokio::time::{sleep, timeout};
use tonic::transport::Server;

use crate::engine::{Answer, Engine, HANGS, doctor, listen, nowhere, until, vllm, worker};

const MS: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_server_says_how_it_is() {
    let (service, tell) = doctor(ServingStatus::Serving);
    let server = listen(Server::builder().add_service(service)).await;
    let client = HealthClient::new(server.channel());
    for (status, health) in [
        (ServingStatus::Serving as i32, Health::Serving),
        (ServingStatus::NotServing as i32, Health::NotServing),
        (ServingStatus::Unknown as i32, Health::Unknown),
        (ServingStatus::ServiceUnknown as i32, Health::Unknown),
        (99, Health::Unknown),
    ] {
        tell.send_replace(status);
        assert_eq!(client.check().await.unwrap(), health, "{status}");
    }
    let absent = client.of_service("absent").check().await.unwrap_err();
    assert_eq!(absent.failure(), PollFailure::Engine, "{absent}");
}

#[tokio::test]
async fn a_server_without_the_service_has_no_such_call() {
    let server = vllm(&Engine::new(Answer::Hangs)).await;
    let client = HealthClient::new(server.channel());
    assert_eq!(client.check().await.unwrap_err().failure(), PollFailure::Unsupported);
    assert_eq!(client.watch().await.unwrap_err().failure(), PollFailure::Unsupported);
    let error = timeout(1_000 * MS, client.keep_checked(vec![worker()], |_| ())).await.expect("it is not asked again");
    assert_eq!(error.failure(), PollFailure::Unsupported);
}

#[tokio::test]
async fn where_nothing_listens_is_a_transport_failure() {
    let client = HealthClient::new(nowhere().await);
    assert_eq!(client.check().await.unwrap_err().failure(), PollFailure::Transport);
    assert_eq!(client.watch().await.unwrap_err().failure(), PollFailure::Transport);
}

#[tokio::test]
async fn a_server_that_hangs_is_late() {
    let (service, tell) = doctor(ServingStatus::Serving);
    tell.send_replace(HANGS);
    let server = listen(Server::builder().add_service(service)).await;
    let client = HealthClient::new(server.channel()).paced(100 * MS, 100 * MS);
    let late = timeout(5_000 * MS, client.check()).await.expect("within its deadline");
    assert_eq!(late.unwrap_err().failure(), PollFailure::Late);
    tell.send_replace(ServingStatus::Serving as i32);
    assert_eq!(client.check().await.unwrap(), Health::Serving, "the connection stands");
}

/// A passed check ends the veto, and promotes nobody; what failed is for its caller to count.
#[tokio::test]
async fn a_passed_check_is_a_probe_and_a_failed_one_is_nothing() {
    let (service, tell) = doctor(ServingStatus::NotServing);
    let server = listen(Server::builder().add_service(service)).await;
    let pulse = worker();
    pulse.cut_off();
    let (seen, mut seeing) = tokio::sync::mpsc::unbounded_channel();
    let client = HealthClient::new(server.channel()).paced(100 * MS, 1_000 * MS);
    let checking =
        tokio::spawn(client.keep_checked(vec![pulse.clone()], move |health| seen.send(health.as_ref().ok().copied()).unwrap()));
    assert_eq!(seeing.recv().await, Some(Some(Health::NotServing)));
    until(&pulse, Some(Veto::Unreachable)).await;
    tell.send_replace(ServingStatus::Serving as i32);
    until(&pulse, None).await;
    assert_eq!(pulse.watch().counts().transitions(Cause::Probe), 1);
    server.die();
    while seeing.recv().await.unwrap().is_some() {}
    sleep(800 * MS).await;
    assert_eq!(pulse.veto(), None, "a failed check is no transport failure");
    checking.abort();
    assert!(timeout(100 * MS, checking).await.expect("promptly").unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_watch_tells_of_changes_and_of_its_end() {
    let (service, tell) = doctor(ServingStatus::Serving);
    let server = listen(Server::builder().add_service(service)).await;
    let mut watch = HealthClient::new(server.channel()).watch().await.unwrap();
    assert_eq!(watch.next().await.unwrap(), Some(Health::Serving));
    tell.send_replace(ServingStatus::NotServing as i32);
    assert_eq!(watch.next().await.unwrap(), Some(Health::NotServing));
    drop(tell);
    assert_eq!(watch.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_watch_on_a_server_that_dies_says_so() {
    let (service, _tell) = doctor(ServingStatus::Serving);
    let server = listen(Server::builder().add_service(service)).await;
    let mut watch = HealthClient::new(server.channel()).watch().await.unwrap();
    watch.next().await.unwrap();
    server.die();
    let error = timeout(5_000 * MS, watch.next()).await.expect("at once").unwrap_err();
    assert_eq!(error.failure(), PollFailure::Transport, "{error}");
}

// Defect 31: a client that asks more often whether the connection lives is sent away by grpc-core's servers (GOAWAY, too_many_pings).
#[test]
fn nobody_is_pinged_more_often_than_servers_bear() {
    let (every, answered_within) = kv_routing::limits::GRPC_KEEPALIVE;
    assert!(every >= Duration::from_secs(30) && answered_within >= Duration::from_secs(10));
}
