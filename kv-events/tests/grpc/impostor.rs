//! A relay that is none of ours, and sends what it likes.

use kv_events::adapter::grpc::proto::kv_events::kv_events_server::{KvEvents, KvEventsServer};
use kv_events::adapter::grpc::proto::kv_events::{self as proto, Batch, Incarnation, Published, SubscribeRequest};
use tokio::net::TcpListener;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status};

use crate::scene::Reader;

/// Tells every subscriber the same, and then rejects it.
struct Impostor(Vec<proto::Update>);

#[tonic::async_trait]
impl KvEvents for Impostor {
    type SubscribeStream = ReceiverStream<Result<proto::Update, Status>>;

    async fn subscribe(&self, _: Request<SubscribeRequest>) -> Result<Response<Self::SubscribeStream>, Status> {
        let (queue, messages) = tokio::sync::mpsc::channel(self.0.len() + 1);
        for message in self.0.iter().cloned().map(Ok).chain([Err(Status::data_loss("again"))]) {
            queue.send(message).await.map_err(|_| Status::internal("there is room"))?;
        }
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}

fn update(rank: u32, sequence: u64) -> proto::Update {
    let kind = proto::update::Kind::Published(Published { batch: Some(Batch::default()), missed: 0 });
    let incarnation = Some(Incarnation { watcher: 3, life: 0 });
    proto::Update { rank, incarnation, sequence, doubted: false, load: None, kind: Some(kind) }
}

async fn reader_of(messages: Vec<proto::Update>) -> Reader {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(KvEventsServer::new(Impostor(messages)));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    Reader::of(address, 0)
}

/// One rank's batches never enter another's, and a message that is none costs itself.
#[tokio::test]
async fn messages_of_another_rank_or_none_are_passed_over() {
    let headless = proto::Update { incarnation: None, ..update(0, 1) };
    let mut reader = reader_of(vec![update(0, 0), update(5, 1), headless, update(0, 1)]).await;
    reader.read_to(1).await;
    let said = ["connected", "0", "expected rank 0, got 5", "expected the field incarnation, it is absent", "1"];
    assert_eq!(reader.said, said);
}

/// A relay that rejects its reader over and over is asked ten times a second at most.
#[tokio::test]
async fn a_relay_that_rejects_for_ever_is_not_asked_without_end() {
    let mut reader = reader_of(vec![update(0, 0)]).await;
    let begun = std::time::Instant::now();
    let rejected = |reader: &Reader| reader.said.iter().filter(|word| *word == "DataLoss").count();
    while rejected(&reader) < 6 {
        reader.step().await;
    }
    assert!(begun.elapsed().as_millis() >= 480, "five pauses of 100 ms: {:?}", begun.elapsed());
    let mut silent = reader_of(Vec::new()).await;
    let begun = std::time::Instant::now();
    while rejected(&silent) < 4 {
        silent.step().await;
    }
    assert!(begun.elapsed().as_millis() >= 280, "pauses that double: {:?}", begun.elapsed());
}
