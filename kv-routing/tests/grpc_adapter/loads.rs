//! Loads over gRPC, from an engine to the books.

use std::time::Duration;

use kv_routing::adapter::grpc::proto::engines::kv_routing::engine::v1::SchedulerLoad;
use kv_routing::adapter::grpc::proto::engines::vllm::grpc::engine::vllm_engine_server::VllmEngineServer;
use kv_routing::adapter::grpc::{LoadClient, Servicer};
use kv_routing::adapter::tokio::{LoadPoller, LoadSource, PollFailure, PollOptions, PollOutcome};
use kv_routing::liveness::Veto;
use kv_routing::load::{self, Ledger, Refusal};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tonic::Code;
use tonic::transport::{Channel, Server};

use crate::engine::{Answer, Engine, channel, listen_at, nowhere, reached, sglang, until, vllm, worker};

const NOW: Duration = Duration::from_secs(7);
const MS: Duration = Duration::from_millis(1);

fn load(dp_rank: i32, running: i32, waiting: i32) -> SchedulerLoad {
    SchedulerLoad { dp_rank, num_running_reqs: running, num_waiting_reqs: waiting, ..SchedulerLoad::default() }
}

async fn failure(channel: Channel, servicer: Servicer) -> PollFailure {
    LoadClient::new(channel, servicer).poll(NOW).await.unwrap_err().failure()
}

#[tokio::test]
async fn an_engine_tells_the_load_of_each_rank() {
    let loads = vec![
        SchedulerLoad { token_usage: 0.25, gen_throughput: 900.0, ..load(0, 3, 0) },
        SchedulerLoad { num_waiting_uncached_tokens: Some(700), token_usage: 0.5, ..load(1, 5, 2) },
    ];
    let engine = Engine::new(Answer::Loads(loads));
    let (a, b) = (vllm(&engine).await, sglang(&engine).await);
    for client in [LoadClient::new(a.channel(), Servicer::Vllm), LoadClient::new(b.channel(), Servicer::Sglang)] {
        let loads = client.poll(NOW).await.unwrap();
        let ledger = Ledger::new(load::Options::default());
        loads.ranks.iter().for_each(|(rank, sample)| ledger.handle_sample(NOW, *rank, sample).unwrap());
        let view = ledger.view(NOW);
        assert_eq!((view.running, view.waiting, view.queued_tokens, view.kv_usage), (8, 2, 700, Some(0.375)));
        assert_eq!((view.rate_tokens_per_s, view.sampled_at), (Some(900.0), Some(NOW)));
        assert_eq!((loads.report().running, loads.report().waiting, loads.report().pushed), (8, 2, false));
    }
}

/// vLLM's servicer does not tell how many tokens wait, and says nothing or 0.
#[tokio::test]
async fn tokens_that_are_not_told_are_not_none() {
    let untold = [load(0, 1, 2), SchedulerLoad { num_waiting_uncached_tokens: Some(0), ..load(1, 1, 2) }, load(2, 1, 0)];
    let server = vllm(&Engine::new(Answer::Loads(untold.to_vec()))).await;
    let loads = LoadClient::new(server.channel(), Servicer::Vllm).poll(NOW).await.unwrap();
    assert_eq!(loads.ranks.iter().map(|(_, sample)| sample.queued_tokens).collect::<Vec<_>>(), [None, None, Some(0.0)]);
}

#[tokio::test]
async fn absurd_loads_are_refused_and_counted_and_absurd_ranks_are_none() {
    let bad = [
        load(0, -1, 0),
        load(1, 1, i32::MAX),
        SchedulerLoad { token_usage: f64::NAN, gen_throughput: f64::INFINITY, ..load(2, 4, 0) },
        SchedulerLoad { token_usage: -0.1, gen_throughput: 1e300, ..load(3, 2, 0) },
        load(-1, 1, 1),
        load(1_024, 1, 1),
        load(i32::MIN, 1, 1),
    ];
    let server = sglang(&Engine::new(Answer::Loads(bad.to_vec()))).await;
    let loads = LoadClient::new(server.channel(), Servicer::Sglang).poll(NOW).await.unwrap();
    assert_eq!((loads.ranks.len(), loads.unreadable), (4, 3));
    let ledger = Ledger::new(load::Options::default());
    loads.ranks.iter().for_each(|(rank, sample)| _ = ledger.handle_sample(NOW, *rank, sample));
    let (counts, view) = (ledger.counts(), ledger.view(NOW));
    assert_eq!((counts.accepted, counts.refused(Refusal::Negative), counts.refused(Refusal::Absurd)), (2, 1, 1));
    assert_eq!([Refusal::NotANumber, Refusal::Negative, Refusal::Absurd].map(|reason| counts.left_out(reason)), [2, 1, 1]);
    assert_eq!((view.running, view.kv_usage, view.rate_tokens_per_s), (6, None, None));
}

#[tokio::test]
async fn an_answer_without_a_rank_tells_nothing() {
    for answer in [vec![], vec![load(-1, 1, 1)]] {
        let server = vllm(&Engine::new(Answer::Loads(answer))).await;
        let error = LoadClient::new(server.channel(), Servicer::Vllm).poll(NOW).await.unwrap_err();
        let text = "the answer is an error: the load of a rank was expected, and is not there";
        assert_eq!((error.failure(), error.to_string()), (PollFailure::Engine, text.to_owned()));
    }
}

#[tokio::test]
async fn an_answer_beyond_all_bounds_is_not_read() {
    let server = vllm(&Engine::new(Answer::Loads(vec![load(0, 1, 1); 200_000]))).await;
    assert_eq!(failure(server.channel(), Servicer::Vllm).await, PollFailure::Engine);
}

#[tokio::test]
async fn a_status_says_what_failed() {
    let engine = Engine::new(Answer::Hangs);
    let server = vllm(&engine).await;
    for (code, expected) in [
        (Code::Unavailable, PollFailure::Transport),
        (Code::Unknown, PollFailure::Transport),
        (Code::Cancelled, PollFailure::Transport),
        (Code::Aborted, PollFailure::Transport),
        (Code::Unimplemented, PollFailure::Unsupported),
        (Code::DeadlineExceeded, PollFailure::Late),
        (Code::Internal, PollFailure::Engine),
        (Code::ResourceExhausted, PollFailure::Engine),
    ] {
        *engine.0.lock() = Answer::Fails(code);
        assert_eq!(failure(server.channel(), Servicer::Vllm).await, expected, "{code:?}");
    }
}

/// Each servicer has a name of its own.
#[tokio::test]
async fn an_engine_of_another_kind_has_no_such_call() {
    let engine = Engine::new(Answer::Loads(vec![load(0, 1, 1)]));
    let (a, b) = (vllm(&engine).await, sglang(&engine).await);
    assert_eq!(failure(a.channel(), Servicer::Sglang).await, PollFailure::Unsupported);
    assert_eq!(failure(b.channel(), Servicer::Vllm).await, PollFailure::Unsupported);
}

/// One line wires an engine: its load, its death, its return and its slowness all arrive.
#[tokio::test]
async fn a_poller_follows_an_engine_through_its_death_and_return() {
    let engine = Engine::new(Answer::Loads(vec![load(0, 3, 1)]));
    let server = vllm(&engine).await;
    let (pulse, ledger) = (worker(), Ledger::new(load::Options::default()));
    let options = PollOptions { interval: 100 * MS, deadline: 300 * MS, retry: 100 * MS };
    let client = LoadClient::new(server.channel(), Servicer::Vllm);
    let poller = LoadPoller::new(client, pulse.clone(), ledger.clone()).with_options(options);
    let counts = poller.counts();
    let polling = tokio::spawn(poller.keep_polled(|_| ()));
    reached("two answers", || counts.of(PollOutcome::Answered) >= 2).await;
    assert_eq!((ledger.view(pulse.now()).running, pulse.veto()), (3, None));

    let address = server.die();
    until(&pulse, Some(Veto::Unreachable)).await;
    assert!(counts.of(PollOutcome::Unreachable) > 0 && counts.of(PollOutcome::Late) == 0, "{counts:?}");

    let router = Server::builder().add_service(VllmEngineServer::new(engine.clone()));
    let _server = listen_at(address, router).await;
    until(&pulse, None).await;

    // An engine that hangs is late, and that casts no doubt on its connection.
    let unreachable = counts.of(PollOutcome::Unreachable);
    *engine.0.lock() = Answer::Hangs;
    reached("three late answers", || counts.of(PollOutcome::Late) >= 3).await;
    assert_eq!((counts.of(PollOutcome::Unreachable), pulse.veto()), (unreachable, None));
    polling.abort();
    assert!(timeout(100 * MS, polling).await.expect("promptly").unwrap_err().is_cancelled());
}

#[tokio::test]
async fn where_nothing_listens_is_a_transport_failure() {
    assert_eq!(failure(nowhere().await, Servicer::Sglang).await, PollFailure::Transport);
}

/// A machine that accepts and says nothing, as one whose engine is frozen.
#[tokio::test]
async fn what_accepts_and_never_answers_is_late() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let channel = channel(listener.local_addr().unwrap());
    let (pulse, ledger) = (worker(), Ledger::new(load::Options::default()));
    let options = PollOptions { deadline: 200 * MS, ..PollOptions::default() };
    let poller = LoadPoller::new(LoadClient::new(channel, Servicer::Vllm), pulse, ledger).with_options(options);
    let counts = poller.counts();
    timeout(600 * MS, poller.keep_polled(|_| ())).await.unwrap_err();
    assert_eq!((counts.of(PollOutcome::Late), counts.of(PollOutcome::Unreachable)), (1, 0));
}
