//! An engine's servicer that answers as it is told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kv_routing::adapter::grpc::connect;
use kv_routing::adapter::grpc::proto::engines::kv_routing::engine::v1::{GetLoadsRequest, GetLoadsResponse, SchedulerLoad};
use kv_routing::adapter::grpc::proto::engines::sglang::grpc::scheduler::sglang_scheduler_server::{
    SglangScheduler, SglangSchedulerServer,
};
use kv_routing::adapter::grpc::proto::engines::vllm::grpc::engine::vllm_engine_server::{VllmEngine, VllmEngineServer};
use kv_routing::adapter::grpc::proto::health::health_check_response::ServingStatus;
use kv_routing::adapter::grpc::proto::health::health_server::{Health, HealthServer};
use kv_routing::adapter::grpc::proto::health::{HealthCheckRequest, HealthCheckResponse};
use kv_routing::adapter::tokio::{Pulse, Watch};
use kv_routing::liveness::{self, Veto};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{TcpListenerStream, WatchStream};
use tonic::transport::server::Router;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};

/// What an engine answers to `GetLoads`.
#[derive(Clone)]
pub(crate) enum Answer {
    Loads(Vec<SchedulerLoad>),
    Fails(Code),
    Hangs,
}

#[derive(Clone)]
pub(crate) struct Engine(pub(crate) Arc<Mutex<Answer>>);

/// The health of every service that it is asked for but "absent".
pub(crate) struct Doctor(pub(crate) tokio::sync::watch::Receiver<i32>);

/// What listens at an address, until it is dropped: a runtime of its own, so that its connections die with it.
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Engine {
    pub(crate) fn new(answer: Answer) -> Self {
        Self(Arc::new(Mutex::new(answer)))
    }

    async fn answer(&self) -> Result<Response<GetLoadsResponse>, Status> {
        let answer = self.0.lock().clone();
        match answer {
            Answer::Loads(loads) => Ok(Response::new(GetLoadsResponse { dp_rank_count: 1, loads })),
            Answer::Fails(code) => Err(Status::new(code, "as told")),
            Answer::Hangs => std::future::pending().await,
        }
    }
}

#[tonic::async_trait]
impl VllmEngine for Engine {
    async fn get_loads(&self, request: Request<GetLoadsRequest>) -> Result<Response<GetLoadsResponse>, Status> {
        assert_eq!(request.into_inner().dp_rank, None, "all ranks are asked for");
        self.answer().await
    }
}

#[tonic::async_trait]
impl SglangScheduler for Engine {
    async fn get_loads(&self, _: Request<GetLoadsRequest>) -> Result<Response<GetLoadsResponse>, Status> {
        self.answer().await
    }
}

#[tonic::async_trait]
impl Health for Doctor {
    type WatchStream = tokio_stream::adapters::Map<WatchStream<i32>, fn(i32) -> Result<HealthCheckResponse, Status>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if request.into_inner().service == "absent" {
            return Err(Status::not_found("no such service"));
        }
        let status = *self.0.borrow();
        if status == HANGS {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(HealthCheckResponse { status }))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Ok(Response::new(WatchStream::new(self.0.clone()).map(|status| Ok(HealthCheckResponse { status }))))
    }
}

/// A status by which a check is never answered.
pub(crate) const HANGS: i32 = -1;

pub(crate) fn doctor(status: ServingStatus) -> (HealthServer<Doctor>, tokio::sync::watch::Sender<i32>) {
    let (tell, told) = tokio::sync::watch::channel(status as i32);
    (HealthServer::new(Doctor(told)), tell)
}

pub(crate) async fn vllm(engine: &Engine) -> Listening {
    listen(Server::builder().add_service(VllmEngineServer::new(engine.clone()))).await
}

pub(crate) async fn sglang(engine: &Engine) -> Listening {
    listen(Server::builder().add_service(SglangSchedulerServer::new(engine.clone()))).await
}

pub(crate) async fn listen(router: Router) -> Listening {
    listen_at("127.0.0.1:0".parse().unwrap(), router).await
}

pub(crate) async fn listen_at(address: SocketAddr, router: Router) -> Listening {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.spawn(TcpListener::bind(address)).await.unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async { router.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap() });
    Listening { address, runtime: Some(runtime) }
}

impl Listening {
    pub(crate) fn channel(&self) -> Channel {
        channel(self.address)
    }

    /// The process is gone: nothing listens, and connections are reset.
    pub(crate) fn die(self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

pub(crate) fn channel(address: SocketAddr) -> Channel {
    connect(&format!("grpc://{address}").parse().unwrap())
}

/// Where nothing listens.
pub(crate) async fn nowhere() -> Channel {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    channel(listener.local_addr().unwrap())
}

/// A worker that is passed over half a second after its connection failed.
pub(crate) fn worker() -> Pulse {
    let stall = Duration::from_millis(500);
    let watch = Watch::new(liveness::Options { stall, ..liveness::Options::default() });
    tokio::spawn(watch.clone().keep_swept(|_| ()));
    watch.enlist().unwrap()
}

pub(crate) async fn until(pulse: &Pulse, veto: Option<Veto>) {
    reached(&format!("{veto:?}"), || pulse.veto() == veto).await;
}

/// Waits until it is so, but not for ever.
pub(crate) async fn reached(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), waiting).await.unwrap_or_else(|_| panic!("expected within 20 s: {what}"));
}
