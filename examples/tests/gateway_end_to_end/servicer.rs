//! An engine's gRPC servicer that answers as it is told to.

use std::sync::Arc;

use kv_routing::adapter::grpc::proto::engines::kv_routing::engine::v1::{GetLoadsRequest, GetLoadsResponse, SchedulerLoad};
use kv_routing::adapter::grpc::proto::engines::sglang::grpc::scheduler::sglang_scheduler_server::{
    SglangScheduler, SglangSchedulerServer,
};
use kv_routing::adapter::grpc::proto::engines::vllm::grpc::engine::vllm_engine_server::{VllmEngine, VllmEngineServer};
use kv_routing::adapter::grpc::proto::health::health_check_response::ServingStatus;
use kv_routing::adapter::grpc::proto::health::health_server::{Health, HealthServer};
use kv_routing::adapter::grpc::proto::health::{HealthCheckRequest, HealthCheckResponse};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic::{Request, Response, Status};

/// Requests that wait, by rank; and the health. What it is told is what all clones tell.
#[derive(Clone)]
pub(crate) struct Servicer(Arc<Mutex<(Vec<i32>, ServingStatus)>>);

impl Servicer {
    pub(crate) fn new(waiting: &[i32]) -> Self {
        Self(Arc::new(Mutex::new((waiting.to_vec(), ServingStatus::Serving))))
    }

    pub(crate) fn waits(&self, waiting: &[i32]) {
        self.0.lock().0 = waiting.to_vec();
    }

    pub(crate) fn is(&self, health: ServingStatus) {
        self.0.lock().1 = health;
    }

    /// vLLM's servicer, without a health service. Where it listens.
    pub(crate) async fn vllm(&self) -> String {
        listen(Server::builder().add_service(VllmEngineServer::new(self.clone()))).await
    }

    /// SGLang's, which says how it is.
    pub(crate) async fn sglang(&self) -> String {
        let server = Server::builder().add_service(SglangSchedulerServer::new(self.clone()));
        listen(server.add_service(HealthServer::new(self.clone()))).await
    }

    fn loads(&self) -> Response<GetLoadsResponse> {
        let load = |(rank, waiting): (i32, &i32)| SchedulerLoad {
            dp_rank: rank,
            num_waiting_reqs: *waiting,
            num_waiting_uncached_tokens: Some(waiting * 1000),
            ..SchedulerLoad::default()
        };
        let loads: Vec<_> = (0..).zip(&self.0.lock().0).map(load).collect();
        Response::new(GetLoadsResponse { dp_rank_count: i32::try_from(loads.len()).unwrap(), loads })
    }
}

async fn listen(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("grpc://{}", listener.local_addr().unwrap());
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

#[tonic::async_trait]
impl VllmEngine for Servicer {
    async fn get_loads(&self, _: Request<GetLoadsRequest>) -> Result<Response<GetLoadsResponse>, Status> {
        Ok(self.loads())
    }
}

#[tonic::async_trait]
impl SglangScheduler for Servicer {
    async fn get_loads(&self, _: Request<GetLoadsRequest>) -> Result<Response<GetLoadsResponse>, Status> {
        Ok(self.loads())
    }
}

#[tonic::async_trait]
impl Health for Servicer {
    type WatchStream = tokio_stream::Pending<Result<HealthCheckResponse, Status>>;

    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(HealthCheckResponse { status: self.0.lock().1.into() }))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Ok(Response::new(tokio_stream::pending()))
    }
}
