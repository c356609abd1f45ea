//! `grpc.health.v1.Health`.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tonic::Status;
use tonic::codec::Streaming;
use tonic::transport::Channel;

use super::proto::health::health_check_response::ServingStatus;
use super::proto::health::health_client::HealthClient as Client;
use super::proto::health::{HealthCheckRequest, HealthCheckResponse};
use super::status;
use crate::adapter::tokio::{PollError, PollFailure, Pulse};
use crate::limits::{HEALTH_CHECK_EVERY, HEALTH_CHECK_MAX, HEALTH_MESSAGE_BYTES_MAX, LOAD_POLL_PAUSE_MIN};

/// What a server says of itself, or of one of its services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// It serves.
    Serving,
    /// It does not, for now.
    NotServing,
    /// It does not know, it has no such service, or it says what is no status.
    Unknown,
}

/// Asks one server for its health. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HealthClient {
    client: Client<Channel>,
    service: String,
    interval: Duration,
    deadline: Duration,
}

/// A server that tells by itself when its health changes.
#[derive(Debug)]
pub struct HealthWatch(Streaming<HealthCheckResponse>);

impl HealthClient {
    /// A client on a [connection](super::connect), which other clients may share, for the server as a whole: asked every 60 s, within
    /// 30 s.
    pub fn new(channel: Channel) -> Self {
        let client = Client::new(channel).max_decoding_message_size(HEALTH_MESSAGE_BYTES_MAX);
        Self { client, service: String::new(), interval: HEALTH_CHECK_EVERY, deadline: HEALTH_CHECK_MAX }
    }

    /// The same, for one of the server's services.
    #[must_use]
    pub fn of_service(self, service: impl Into<String>) -> Self {
        Self { service: service.into(), ..self }
    }

    /// The same, at another pace.
    #[must_use]
    pub fn paced(self, interval: Duration, deadline: Duration) -> Self {
        Self { interval: interval.max(LOAD_POLL_PAUSE_MIN), deadline, ..self }
    }

    /// Asks once.
    ///
    /// # Errors
    /// A [`PollError`]: late after the deadline, unsupported by a server without the service.
    pub async fn check(&self) -> Result<Health, PollError> {
        let mut client = self.client.clone();
        let answer = self.in_time(client.check(self.request())).await?;
        Ok(answer.into())
    }

    /// Asks to be told now, and whenever it changes. The deadline is for the beginning.
    ///
    /// # Errors
    /// As of [`check`](Self::check).
    pub async fn watch(&self) -> Result<HealthWatch, PollError> {
        let mut client = self.client.clone();
        Ok(HealthWatch(self.in_time(client.watch(self.request())).await?))
    }

    /// Asks at the client's pace, and shows every answer to `tell`. Who serves is told to liveness as a passed probe, for each of the
    /// server's workers; a check that fails is the business of whoever counts failures. Until it is dropped, or the server
    /// says that it has no such service.
    pub async fn keep_checked(self, workers: Vec<Pulse>, mut tell: impl FnMut(&Result<Health, PollError>)) -> PollError {
        loop {
            let asked_at = Instant::now();
            let answer = self.check().await;
            if let Ok(Health::Serving) = answer {
                workers.iter().for_each(Pulse::probed);
            }
            tell(&answer);
            match answer {
                Err(error) if error.failure() == PollFailure::Unsupported => return error,
                _ => sleep_until(asked_at + self.interval).await,
            }
        }
    }

    fn request(&self) -> HealthCheckRequest {
        HealthCheckRequest { service: self.service.clone() }
    }

    async fn in_time<T>(&self, call: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, PollError> {
        let answer = timeout(self.deadline, call).await.map_err(|elapsed| PollError::new(PollFailure::Late, elapsed))?;
        Ok(answer.map_err(status::error)?.into_inner())
    }
}

impl HealthWatch {
    /// The server's health, as it is now and with each change. Nothing when the server has ended the stream.
    ///
    /// # Errors
    /// A [`PollError`], after which nothing comes. A server without the service may say so only here.
    pub async fn next(&mut self) -> Result<Option<Health>, PollError> {
        Ok(self.0.message().await.map_err(status::error)?.map(Health::from))
    }
}

impl From<HealthCheckResponse> for Health {
    fn from(response: HealthCheckResponse) -> Self {
        match response.status() {
            ServingStatus::Serving => Self::Serving,
            ServingStatus::NotServing => Self::NotServing,
            ServingStatus::Unknown | ServingStatus::ServiceUnknown => Self::Unknown,
        }
    }
}
