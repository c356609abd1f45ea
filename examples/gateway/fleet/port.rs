//! An engine's gRPC port beside its HTTP server.

use kv_routing::adapter::grpc::{EngineAddress, HealthClient, LoadClient, Servicer, connect};

use crate::gateway::limits::{POLL_EVERY, POLL_MAX};

/// Who asks at the port, on one connection. It is made when it is first needed.
#[derive(Clone, Debug)]
pub(super) struct GrpcPort {
    vllm: LoadClient,
    sglang: LoadClient,
    pub(super) health: HealthClient,
}

impl GrpcPort {
    /// The port at `address`. Inside of a runtime only.
    pub(super) fn at(address: &EngineAddress) -> Self {
        let channel = connect(address);
        Self {
            vllm: LoadClient::new(channel.clone(), Servicer::Vllm),
            sglang: LoadClient::new(channel.clone(), Servicer::Sglang),
            health: HealthClient::new(channel).paced(POLL_EVERY, POLL_MAX),
        }
    }

    pub(super) fn loads(&self, servicer: Servicer) -> &LoadClient {
        match servicer {
            Servicer::Vllm => &self.vllm,
            Servicer::Sglang => &self.sglang,
        }
    }
}
