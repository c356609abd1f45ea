//! Server and client, through sockets.

use std::time::Duration;

use kv_events::Trust;
use kv_events::adapter::grpc::Subscription;
use kv_events::adapter::grpc::proto::kv_events::{self as proto, kv_events_client::KvEventsClient};
use kv_events::adapter::hub::Input;
use kv_events::admission::Request;
use kv_events::relay::{Load, LoadCore, Options, ReplayEnd, ReplayRequest};
use tokio::net::TcpListener;
use tonic::Code;

use crate::scene::{Reader, Scene, long_store, options, store, within};

#[tokio::test]
async fn a_reader_gets_all_that_was_what_comes_and_what_it_missed() {
    let scene = Scene::start(options(1)).await;
    scene.publish_all(0..3).await;
    scene.settle(2).await;
    let mut reader = scene.reader(0);
    reader.read_to(2).await;
    scene.publish_all(3..5).await;
    reader.read_to(4).await;
    assert_eq!(reader.said, ["connected", "0", "1", "2", "3", "4"]);
    // It goes away, and comes back.
    let position = reader.follower.position();
    reader.follower.handle_disconnected(Duration::ZERO);
    assert_eq!(reader.follower.poll_request(), Some(Request::Resubscribe { after: position }));
    reader.subscription = Subscription::new(&format!("grpc://{}", scene.address).parse().unwrap(), 0);
    reader.subscription.resubscribe(position);
    scene.publish_all(5..6).await;
    reader.said.clear();
    reader.read_to(5).await;
    assert_eq!((reader.said.join(" ").as_str(), reader.digest().count), ("connected 5", 6));
    reader.read_until("beat false").await;
    assert_eq!(
        reader.trust(),
        Trust::ExactAsOf { sequence: 5 },
        "a relay without a replay socket cannot know whether it is the last"
    );
    scene.stop().await;
}

#[tokio::test]
async fn a_late_reader_is_told_a_snapshot_that_is_what_an_early_one_has() {
    let scene = Scene::start(Options { history_batches: 10, ..options(1) }).await;
    let mut early = scene.reader(0);
    early.read_until("connected").await;
    // A few at a time: a reader that is not there yet would be left behind.
    for first in (0..2104).step_by(8) {
        scene.publish_all(first..first + 8).await;
        early.read_to(first + 7).await;
    }
    let mut late = scene.reader(0);
    late.read_to(2103).await;
    scene.publish_all(2104..2105).await;
    late.read_to(2104).await;
    early.read_to(2104).await;
    assert_eq!((late.said.join(" ").as_str(), late.digest()), ("connected chunk 0/2 chunk 1/2 2104", early.digest()));
    assert_eq!(late.digest().count, 2105);
    scene.stop().await;
}

/// Amendment 7: while the relay cannot see its engine, what it told is not called the engine's state, whatever heartbeats come.
#[tokio::test]
async fn a_reader_is_exact_only_while_its_relay_sees_the_engine() {
    let scene = Scene::start(Options { ranks: 1, ..Options::default() }).await;
    let mut asked = scene.hub.requests(0).unwrap();
    let answer = async |scene: &Scene, asked: &mut tokio::sync::watch::Receiver<Option<ReplayRequest>>| {
        let request = within("a question", asked.wait_for(Option::is_some)).await.unwrap().unwrap();
        scene.hub.tell(Input::Replayed { request, sequence: 0, payload: store(0).into() }).await.unwrap();
        scene.hub.tell(Input::ReplayEnded { request, end: ReplayEnd::Complete }).await.unwrap();
    };
    answer(&scene, &mut asked).await;
    // Behind news an end marker proves little: the end is asked for once more.
    let first = asked.borrow().unwrap();
    within("the question for the end", asked.wait_for(|request| *request != Some(first))).await.unwrap();
    answer(&scene, &mut asked).await;
    let mut reader = scene.reader(0);
    reader.read_until("beat true").await;
    assert_eq!(reader.trust(), Trust::Exact);
    scene.hub.tell(Input::Disconnected { rank: 0 }).await.unwrap();
    reader.read_until("beat false").await;
    assert_eq!(reader.trust(), Trust::ExactAsOf { sequence: 0 });
    asked.mark_unchanged();
    let seen = asked.borrow().unwrap();
    scene.hub.tell(Input::Connected { rank: 0 }).await.unwrap();
    within("another question", asked.wait_for(|request| *request != Some(seen))).await.unwrap();
    answer(&scene, &mut asked).await;
    reader.read_until("beat true").await;
    assert_eq!(reader.trust(), Trust::Exact);
    scene.stop().await;
}

/// A removal that the relay could not read leaves what it names in the relay's state: a snapshot says so.
#[tokio::test]
async fn what_a_relay_could_not_read_is_said_with_its_snapshot() {
    let scene = Scene::start(Options { history_batches: 1, ..options(1) }).await;
    scene.publish(0, 0, store(0)).await;
    scene.publish(0, 1, b"no batch".to_vec()).await;
    scene.publish(0, 2, store(2)).await;
    scene.settle(2).await;
    let mut reader = scene.reader(0);
    reader.read_to(2).await;
    assert!(reader.said.contains(&"chunk 0/1".to_owned()) && reader.trust().may_overstate(), "{:?}", reader.trust());
    scene.stop().await;
}

/// D15, R1: another life ends the stream, and the reader begins anew.
#[tokio::test]
async fn a_restart_ends_the_stream_and_its_reader_relearns_at_once() {
    let scene = Scene::start(options(1)).await;
    scene.publish_all(0..5).await;
    let mut reader = scene.reader(0);
    reader.read_to(4).await;
    scene.publish(0, 0, store(100)).await;
    reader.read_until("DataLoss").await;
    assert_eq!(reader.digest().count, 0);
    reader.read_to(0).await;
    assert_eq!(reader.digest().count, 1);
    scene.stop().await;
}

/// A position names its life: a relay that started again, and counts as before, cannot resume it.
#[tokio::test]
async fn a_position_of_another_relay_is_out_of_range() {
    let scene = Scene::start(options(1)).await;
    scene.publish_all(0..5).await;
    let mut reader = scene.reader(0);
    reader.read_to(4).await;
    let address = scene.address.to_string();
    scene.stop().await;
    reader.read_until("disconnected").await;
    let scene = Scene::at(&address, 8, options(1)).await;
    for sequence in 0..7 {
        scene.publish(0, sequence, store(1000 + sequence)).await;
    }
    reader.read_to(6).await;
    assert!(reader.said.contains(&"OutOfRange".to_owned()), "{:?}", reader.said);
    assert_eq!(reader.digest().count, 7, "nothing of the other life is left");
    scene.stop().await;
}

/// A slow reader blocks nobody, and what it missed is refilled from the window.
#[tokio::test]
async fn a_slow_reader_blocks_nobody_and_is_refilled() {
    let scene = Scene::start(options(1)).await;
    let (mut slow, mut fast) = (scene.reader(0), scene.reader(0));
    slow.read_until("connected").await;
    for sequence in 0..80 {
        // 6 MB in all: more than HTTP/2 takes for a stream that is not read.
        scene.publish(0, sequence, long_store(sequence, 20_000)).await;
        fast.read_to(sequence).await;
    }
    slow.read_to(79).await;
    assert_eq!((slow.said.len(), slow.digest()), (81, fast.digest()));
    scene.stop().await;
}

/// P37: one that the window has passed is told so, and learns the state anew.
#[tokio::test]
async fn a_reader_that_was_left_behind_gets_data_loss_and_a_snapshot() {
    let scene = Scene::start(Options { history_batches: 20, ..options(1) }).await;
    let (mut slow, mut fast) = (scene.reader(0), scene.reader(0));
    slow.read_until("connected").await;
    for sequence in 0..120 {
        scene.publish(0, sequence, long_store(sequence, 20_000)).await;
        fast.read_to(sequence).await;
    }
    slow.read_to(119).await;
    assert!(
        slow.said.contains(&"DataLoss".to_owned()) && slow.said.iter().any(|word| word.starts_with("chunk")),
        "{:?}",
        slow.said
    );
    assert_eq!(slow.digest(), fast.digest());
    scene.stop().await;
}

/// Defect 20: every rank is relayed, and one rank's restart is its own.
#[tokio::test]
async fn ranks_are_streams_of_their_own() {
    let scene = Scene::start(options(2)).await;
    let (mut first, mut second) = (scene.reader(0), scene.reader(1));
    scene.publish_all(0..3).await;
    scene.publish(1, 0, store(7)).await;
    first.read_to(2).await;
    second.read_to(0).await;
    scene.publish(0, 0, store(50)).await;
    first.read_until("DataLoss").await;
    scene.publish(1, 1, store(8)).await;
    second.read_to(1).await;
    assert_eq!(second.said, ["connected", "0", "1"]);
    scene.stop().await;
}

#[tokio::test]
async fn loads_ride_on_batches_and_heartbeats() {
    let scene = Scene::start(options(1)).await;
    let core = LoadCore { running: 3, ..LoadCore::default() };
    scene.hub.tell(Input::Load { rank: 0, load: Load { core, ..Load::default() } }).await.unwrap();
    scene.publish_all(0..1).await;
    let mut client = KvEventsClient::new(scene.channel().await);
    let mut stream = client.subscribe(proto::SubscribeRequest::default()).await.unwrap().into_inner();
    for kind in ["published", "heartbeat"] {
        let update = within(kind, stream.message()).await.unwrap().unwrap();
        assert_eq!(update.load.unwrap().running, 3);
        assert_eq!(matches!(update.kind, Some(proto::update::Kind::Heartbeat(_))), kind == "heartbeat");
    }
    scene.stop().await;
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_with_the_reason() {
    let scene = Scene::start(options(1)).await;
    let mut client = KvEventsClient::new(scene.channel().await);
    let position = proto::Position { rank: 0, incarnation: None, sequence: 3 };
    let life = proto::Incarnation { watcher: 7, life: 0 };
    let ahead = proto::Position { incarnation: Some(life), ..position };
    for (request, code, reason) in [
        (proto::SubscribeRequest { positions: vec![position], ..Default::default() }, Code::InvalidArgument, "incarnation"),
        (proto::SubscribeRequest { ranks: vec![0; 2000], ..Default::default() }, Code::InvalidArgument, "got 2000"),
        (proto::SubscribeRequest { ranks: vec![1], ..Default::default() }, Code::OutOfRange, "expected one of 1 ranks"),
        (proto::SubscribeRequest { positions: vec![ahead], ..Default::default() }, Code::OutOfRange, "nothing was relayed yet"),
        (proto::SubscribeRequest { ranks: vec![u32::MAX; 100_000], ..Default::default() }, Code::OutOfRange, "too large"),
    ] {
        let status = client.subscribe(request).await.unwrap_err();
        assert!((status.code(), status.message().contains(reason)) == (code, true), "{status:?}: {reason}");
    }
    assert_eq!(scene.hub.status().await.unwrap().1, 0, "nobody is subscribed");
    scene.stop().await;
}

#[tokio::test]
async fn who_goes_away_is_forgotten() {
    let scene = Scene::start(options(1)).await;
    let mut reader = scene.reader(0);
    reader.read_until("connected").await;
    assert_eq!(scene.hub.status().await.unwrap().1, 1);
    drop(reader);
    within("the subscription's end", async {
        while scene.hub.status().await.unwrap().1 > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    scene.stop().await;
}

#[tokio::test]
async fn whoever_is_no_relay_is_left_or_asked_again() {
    // A server without the service.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = listener.local_addr().unwrap();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let routes = tonic::service::Routes::default();
    tokio::spawn(tonic::transport::Server::builder().add_routes(routes).serve_with_incoming(incoming));
    let mut reader = Reader::of(other, 0);
    reader.read_until("Unimplemented").await;
    assert!(tokio::time::timeout(Duration::from_millis(300), reader.step()).await.is_err(), "it is not asked again");
    // Something that speaks another protocol, and then nobody.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut reader = Reader::of(listener.local_addr().unwrap(), 0);
    let noise = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        _ = tokio::io::AsyncWriteExt::write_all(&mut stream, &[b'?'; 4096]).await;
    });
    reader.read_until("unreachable").await;
    noise.await.unwrap();
    reader.step().await;
    assert_eq!(reader.said, ["unreachable", "unreachable"]);
}

/// R2: a relay that accepts and stays silent is given up after 2 s, not never.
#[tokio::test]
async fn a_relay_that_does_not_answer_is_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut reader = Reader::of(listener.local_addr().unwrap(), 0);
    let begun = std::time::Instant::now();
    reader.read_until("unreachable").await;
    let took = begun.elapsed();
    assert!((1_900..4_000).contains(&took.as_millis()), "{took:?}");
}
