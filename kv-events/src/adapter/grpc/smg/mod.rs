//! `SubscribeKvEvents` as gateways of the SMG family call it on engines: the same stream in messages that can say less.
//!
//! # What this wire cannot say
//! It has a block's name, its tokens, a LoRA's number and a tier. It has no salt, no LoRA's name, no multimodal items, no cache
//! group, no place other than behind a named parent, and no life. What cannot be said is left out, so that the reader misses what it
//! could have had, and is never told what is not so:
//!
//! | what | what becomes of it |
//! |---|---|
//! | a store below a block that the reader was not told of, whatever the reason | left out: readers take such a block for the first of a prompt |
//! | a store with a salt, an item or digest, or a LoRA without a number; of a group that is not main attention; of another owner or place; on an unknown medium; without tokens; of fewer blocks than its tokens; that repeats a name | left out |
//! | a further copy that is announced by name alone | not told, but counted: the removal of a copy reaches the reader when the copies that were not told are gone |
//! | a removal of what was not told | left out |
//! | bigrams | their first elements; such a reader may predict a block too much, which is counted |
//! | a batch of which nothing is left | told empty: numbers are contiguous |
//! | heartbeats, loads | left out |
//! | a position | `OUT_OF_RANGE` unless it is 0: a number names no life, nor what its reader was told before. The reader clears and asks from 0, by its own rules |
//!
//! Everything that is left out is counted by reason ([`SmgCounts`]). Where an engine has several ranks and the stream begins with
//! snapshots, only the first begins with a clear: some readers keep one set for all ranks, and would lose what they were just told.

mod convert;
mod counts;
#[cfg(test)]
mod tests;
mod told;

use std::sync::Arc;

use tonic::transport::server::Router;
use tonic::{Request, Response, Status};

use self::convert::Converter;
pub use self::counts::{SmgCounts, Unsaid};
use super::limits::{REQUEST_BYTES_MAX, UPDATE_BYTES_MAX};
use super::proto::smg_family as family;
use super::status::refused;
use super::stream::{Messages, Teller, messages};
use super::update::Update;
use crate::adapter::hub::Hub;
use family::sglang::grpc::scheduler::sglang_scheduler_server::{SglangScheduler, SglangSchedulerServer};
use family::smg::grpc::common::{KvEventBatch, SubscribeKvEventsRequest};
use family::tokenspeed::grpc::scheduler::token_speed_scheduler_server::{TokenSpeedScheduler, TokenSpeedSchedulerServer};
use family::trtllm::trtllm_service_server::{TrtllmService, TrtllmServiceServer};
use family::vllm::grpc::engine::vllm_engine_server::{VllmEngine, VllmEngineServer};

/// The same answer under the names of four engines' servicers.
#[derive(Clone, Debug)]
pub(super) struct SmgService {
    hub: Hub,
    counts: Arc<SmgCounts>,
}

impl SmgService {
    pub(super) fn new(hub: Hub, counts: Arc<SmgCounts>) -> Self {
        Self { hub, counts }
    }

    pub(super) fn add_to(self, router: Router) -> Router {
        macro_rules! limited {
            ($server:ident) => {
                $server::new(self.clone())
                    .max_decoding_message_size(REQUEST_BYTES_MAX)
                    .max_encoding_message_size(UPDATE_BYTES_MAX)
            };
        }
        router
            .add_service(limited!(VllmEngineServer))
            .add_service(limited!(SglangSchedulerServer))
            .add_service(limited!(TrtllmServiceServer))
            .add_service(limited!(TokenSpeedSchedulerServer))
    }

    async fn answer(&self, request: SubscribeKvEventsRequest) -> Result<Response<Messages<KvEventBatch>>, Status> {
        if request.start_sequence_number != 0 {
            let number = request.start_sequence_number;
            return Err(Status::out_of_range(format!("a number alone cannot be resumed: expected 0, got {number}")));
        }
        let reader = self.hub.subscribe(Vec::new(), Vec::new()).await.map_err(|error| refused(&error))?;
        Ok(Response::new(messages(reader, Converter::new(self.counts.clone()))))
    }
}

impl Teller for Converter {
    type Message = KvEventBatch;

    fn tell(&mut self, update: Update) -> Result<Option<KvEventBatch>, Status> {
        Ok(self.convert(update))
    }
}

macro_rules! servicer {
    ($service:ident) => {
        #[tonic::async_trait]
        impl $service for SmgService {
            type SubscribeKvEventsStream = Messages<KvEventBatch>;

            async fn subscribe_kv_events(
                &self,
                request: Request<SubscribeKvEventsRequest>,
            ) -> Result<Response<Self::SubscribeKvEventsStream>, Status> {
                self.answer(request.into_inner()).await
            }
        }
    };
}

servicer!(VllmEngine);
servicer!(SglangScheduler);
servicer!(TrtllmService);
servicer!(TokenSpeedScheduler);
