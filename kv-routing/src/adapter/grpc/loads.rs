//! `GetLoads` of the engines' servicers.

use std::collections::BTreeMap;
use std::time::Duration;

use tonic::transport::Channel;

use super::proto::engines::kv_routing::engine::v1::{GetLoadsRequest, GetLoadsResponse, SchedulerLoad};
use super::proto::engines::sglang::grpc::scheduler::sglang_scheduler_client::SglangSchedulerClient;
use super::proto::engines::vllm::grpc::engine::vllm_engine_client::VllmEngineClient;
use super::status;
use crate::adapter::tokio::{LoadSource, PollError};
use crate::limits::{LOADS_MESSAGE_BYTES_MAX, RANKS_MAX};
use crate::load::Sample;
use crate::load::wire::{Loads, WireError};

/// Whose servicer it is. Of TensorRT-LLM's and TokenSpeed's, no load call is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Servicer {
    /// `vllm.grpc.engine.VllmEngine`.
    Vllm,
    /// `sglang.grpc.scheduler.SglangScheduler`.
    Sglang,
}

/// Asks one engine for the loads of all its ranks.
#[derive(Clone, Debug)]
pub struct LoadClient(Client);

#[derive(Clone, Debug)]
enum Client {
    Vllm(VllmEngineClient<Channel>),
    Sglang(SglangSchedulerClient<Channel>),
}

impl LoadClient {
    /// A client on a [connection](super::connect), which other clients may share.
    pub fn new(channel: Channel, servicer: Servicer) -> Self {
        let most = LOADS_MESSAGE_BYTES_MAX;
        Self(match servicer {
            Servicer::Vllm => Client::Vllm(VllmEngineClient::new(channel).max_decoding_message_size(most)),
            Servicer::Sglang => Client::Sglang(SglangSchedulerClient::new(channel).max_decoding_message_size(most)),
        })
    }
}

impl LoadSource for LoadClient {
    async fn poll(&self, sent_at: Duration) -> Result<Loads, PollError> {
        let request = GetLoadsRequest { dp_rank: None };
        let answer = match self.0.clone() {
            Client::Vllm(mut client) => client.get_loads(request).await,
            Client::Sglang(mut client) => client.get_loads(request).await,
        };
        loads(&answer.map_err(status::error)?.into_inner(), sent_at).map_err(PollError::engine)
    }
}

/// The loads that an answer tells. `sent_at` is when it was asked for. Of two entries for one rank, the later counts.
///
/// # Errors
/// [`WireError::NoLoad`] when it tells of no rank that an engine can have.
pub fn loads(answer: &GetLoadsResponse, sent_at: Duration) -> Result<Loads, WireError> {
    let mut ranks = BTreeMap::new();
    let mut unreadable = 0;
    for load in &answer.loads {
        match u16::try_from(load.dp_rank).ok().filter(|rank| usize::from(*rank) < RANKS_MAX) {
            Some(rank) => _ = ranks.insert(rank, sample(load, sent_at)),
            None => unreadable += 1,
        }
    }
    if ranks.is_empty() {
        return Err(WireError::NoLoad("the load of a rank"));
    }
    Ok(Loads { ranks: ranks.into_iter().collect(), unreadable })
}

/// The numbers as they came: whether they are believed is the ledger's to say.
fn sample(load: &SchedulerLoad, sent_at: Duration) -> Sample {
    let waiting = f64::from(load.num_waiting_reqs);
    // Not told is none if nothing waits. Servicers that cannot leave it out say 0, though requests wait.
    let queued = load.num_waiting_uncached_tokens.unwrap_or(0);
    Sample {
        running: load.num_running_reqs.into(),
        waiting,
        queued_tokens: (queued != 0 || load.num_waiting_reqs == 0).then(|| queued.into()),
        kv_usage: Some(load.token_usage),
        tokens_per_s: Some(load.gen_throughput),
        ..Sample::polled(sent_at)
    }
}
