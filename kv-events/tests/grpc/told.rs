//! The SMG family's stream through sockets, as its gateways ask for it.

use kv_events::adapter::grpc::proto::smg_family as family;
use kv_events::adapter::grpc::smg::Unsaid;
use tonic::Code;

use crate::scene::{Scene, options, store, within};
use family::sglang::grpc::scheduler::sglang_scheduler_client::SglangSchedulerClient;
use family::smg::grpc::common::SubscribeKvEventsRequest;
use family::vllm::grpc::engine::vllm_engine_client::VllmEngineClient;

#[tokio::test]
async fn every_engines_servicer_tells_the_same_and_resumes_no_number() {
    let scene = Scene::start(options(1)).await;
    for sequence in 0..2 {
        scene.publish(0, sequence, store(sequence)).await;
    }
    scene.publish(0, 2, b"no batch at all".to_vec()).await;
    scene.settle(2).await;
    let start = |start_sequence_number| SubscribeKvEventsRequest { start_sequence_number };
    let mut vllm = VllmEngineClient::new(scene.channel().await);
    let mut sglang = SglangSchedulerClient::new(scene.channel().await);
    let refused = vllm.subscribe_kv_events(start(1)).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::OutOfRange, "a number alone cannot be resumed: expected 0, got 1"));
    let mut streams = [
        vllm.subscribe_kv_events(start(0)).await.unwrap().into_inner(),
        sglang.subscribe_kv_events(start(0)).await.unwrap().into_inner(),
    ];
    for stream in &mut streams {
        for (sequence, events) in [(0, 1), (1, 1), (2, 0)] {
            let batch = within("a batch", stream.message()).await.unwrap().unwrap();
            assert_eq!((batch.sequence_number, batch.events.len(), batch.dp_rank), (sequence, events, Some(0)));
        }
    }
    scene.publish(0, 0, store(9)).await;
    for stream in &mut streams {
        let end = within("the end", stream.message()).await.unwrap_err();
        assert_eq!(end.code(), Code::DataLoss, "another life");
    }
    assert_eq!(scene.smg.all(), [0; Unsaid::ALL.len()]);
    scene.stop().await;
}
