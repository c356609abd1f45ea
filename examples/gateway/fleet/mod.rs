//! The engines, what is known of them, and the tasks that keep it known.

mod applier;
mod auditor;
mod booking;
mod books;
mod checkup;
mod engine;
mod feed;
mod health;
mod kept;
mod laned;
mod line;
mod loads;
mod models;
mod poll;
mod port;
mod rank;
mod reserved;
mod tally;
mod ticket;
#[cfg(test)]
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use kv_events::Follower;
use kv_events::adapter::zmq::BindError;
use kv_index::{Index, WorkersExhausted};
use kv_routing::adapter::tokio::Watch;
use kv_routing::liveness::{self, Transition};
use reqwest::Client;
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use self::booking::Booking;
pub(crate) use self::books::Common;
pub(crate) use self::engine::Engine;
use self::feed::Feed;
pub(crate) use self::laned::{Laned, sensible_lanes};
use self::line::Line;
use self::port::GrpcPort;
pub(crate) use self::rank::{BatchCounts, Rank, StreamState, Trust};
pub(crate) use self::tally::ratio;
pub(crate) use self::ticket::{Forecast, Placement, Ticket};
use super::api::ApiError;
use super::settings::{DecisionSettings, EngineSpec, LoadSource};

/// All engines, in the order of the settings.
#[derive(Debug)]
pub(crate) struct Fleet {
    engines: Vec<Arc<Engine>>,
    common: Common,
    load_interval: Option<Duration>,
}

/// An engine that can serve a request's model now.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) engine: Arc<Engine>,
    /// The model is a LoRA adapter there, and enters the blocks' content by its name.
    pub(crate) is_adapter: bool,
}

/// Why an engine cannot be watched.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WatchError {
    /// More ranks than the index takes.
    #[error("too many ranks: {0}")]
    Index(#[from] WorkersExhausted),
    /// More ranks than a fleet may have.
    #[error("too many ranks: {0}")]
    Fleet(#[from] liveness::WorkersExhausted),
    /// The place where a publisher would connect.
    #[error("cannot wait for events: {0}")]
    Bind(#[from] BindError),
}

impl Fleet {
    /// Engines of `specs`, whose ranks are passed over when they show no life for as long as `options` say, and are booked and
    /// asked for their loads as `settings` say.
    ///
    /// # Errors
    /// [`WatchError::Fleet`].
    pub(crate) fn new(specs: &[EngineSpec], options: liveness::Options, settings: &DecisionSettings) -> Result<Self, WatchError> {
        let common = Common::new(Watch::new(options), settings);
        let mut workers = 0;
        let engine = |spec: &EngineSpec| {
            let first = workers;
            workers += spec.ranks;
            Ok(Arc::new(Engine::new(spec.clone(), first, &common)?))
        };
        let engines = specs.iter().map(engine).collect::<Result<_, liveness::WorkersExhausted>>()?;
        Ok(Self { engines, common, load_interval: settings.load_interval })
    }

    /// Who keeps an eye on the ranks.
    pub(crate) fn life(&self) -> &Watch {
        &self.common.watch
    }

    /// What the books of all ranks have in common.
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    /// All ranks, by their workers' numbers.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = &Rank> {
        self.engines.iter().flat_map(|engine| engine.ranks())
    }

    /// Asks again for what was asked for in vain, where it is time.
    pub(crate) fn keep_audited(&self) {
        let due = self.common.auditor.due(self.common.watch.clock().now());
        self.ranks().filter(|rank| due.contains(&rank.worker)).for_each(Rank::want_anew);
    }

    /// What keeps the vetoes up to date and logs them.
    fn sweep(&self) -> impl Future<Output = ()> + use<> {
        let engines = self.engines.clone();
        self.common.watch.clone().keep_swept(move |change| {
            let ranks = engines.iter().flat_map(|engine| engine.ranks().iter().map(move |rank| (engine, rank)));
            for (engine, rank) in ranks.filter(|(_, rank)| rank.pulse.handle() == change.worker) {
                log(engine.name(), rank.number, change);
            }
        })
    }

    pub(crate) fn engines(&self) -> &[Arc<Engine>] {
        &self.engines
    }

    /// The ready engines that serve `model`.
    ///
    /// # Errors
    /// [`ApiError::UnknownModel`] when no engine serves it, ready or not; [`ApiError::NotReady`] when one does that is
    /// not ready, or may, because it has never told what it serves.
    pub(crate) fn serving(&self, model: &str) -> Result<Vec<Server>, ApiError> {
        let server = |engine: &Arc<Engine>| {
            let models = engine.models();
            let card = models.iter().find(|card| card.id == model)?;
            Some(Server { engine: engine.clone(), is_adapter: card.parent.is_some() })
        };
        let (ready, absent): (Vec<_>, Vec<_>) = self.engines.iter().partition(|engine| engine.is_ready());
        let servers: Vec<Server> = ready.into_iter().filter_map(server).collect();
        if !servers.is_empty() {
            return Ok(servers);
        }
        let may_serve = |engine: &&Arc<Engine>| engine.models().is_empty() || server(engine).is_some();
        let model = model.to_owned();
        Err(if absent.iter().any(may_serve) { ApiError::NotReady { model } } else { ApiError::UnknownModel { model } })
    }

    /// Starts what keeps the engines known: for each a poll, and for each of its ranks a feed to the lanes. Waits for the end of
    /// former feeds of engines of the same names.
    ///
    /// # Errors
    /// [`WatchError`] when the index takes no further rank, or a publisher cannot be listened for.
    pub(crate) async fn watch<I>(&self, laned: &Arc<Laned<I>>, client: &Client, tasks: &mut JoinSet<()>) -> Result<(), WatchError>
    where
        I: Index + 'static,
        I::Worker: 'static,
    {
        tasks.spawn(self.sweep());
        for engine in &self.engines {
            tasks.spawn(poll::keep_polled(engine.clone(), client.clone()));
            let port = engine.spec().grpc.as_ref().map(GrpcPort::at);
            if let Some(port) = &port {
                tasks.spawn(health::keep_checked(engine.clone(), port.health.clone()));
            }
            if let Some(interval) = self.load_interval.filter(|_| engine.spec().load != LoadSource::Off) {
                tasks.spawn(loads::keep_loads(engine.clone(), client.clone(), port, interval));
            }
            for rank in 0..engine.ranks().len() {
                let reservation = laned.reserved.reserve(&format!("{} {rank}", engine.name())).await;
                if let Some(feed) = feed(engine, rank, laned).await? {
                    tasks.spawn(async move {
                        feed.run().await;
                        // After the feed also where the task is aborted.
                        drop(reservation);
                    });
                }
            }
        }
        Ok(())
    }
}

fn log(engine: &str, rank: u32, Transition { from, to, cause, .. }: &Transition) {
    if let Some(veto) = to {
        tracing::warn!(engine, rank, veto = veto.as_str(), %cause, "passed over");
    } else {
        tracing::info!(engine, rank, was = from.map_or("none", liveness::Veto::as_str), %cause, "chosen again");
    }
}

/// The feed of one rank; nothing for an engine without events.
async fn feed<I: Index>(engine: &Arc<Engine>, rank: usize, laned: &Arc<Laned<I>>) -> Result<Option<Feed<I>>, WatchError>
where
    I::Worker: 'static,
{
    let number = engine.ranks()[rank].number;
    let Some(line) = Line::open(engine.spec(), number).await? else { return Ok(None) };
    Ok(Some(Feed {
        engine: engine.clone(),
        rank,
        laned: laned.clone(),
        lane: laned.enlist(engine, rank)?,
        follower: Follower::new(line.source(), laned.watcher),
        begun: Instant::now(),
        line,
        refused: None,
        unreadable: 0,
        last_error: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::models::ModelCard;
    use super::*;

    fn fleet(count: usize) -> Fleet {
        let specs: Vec<_> = (0..count).map(|i| EngineSpec::at(&format!("http://h:{}", i + 1)).unwrap()).collect();
        Fleet::new(&specs, liveness::Options::default(), &DecisionSettings::default()).unwrap()
    }

    fn serves(fleet: &Fleet, engine: usize, models: &[(&str, Option<&str>)]) {
        let card = |&(id, parent): &(&str, Option<&str>)| ModelCard {
            id: id.to_owned(),
            parent: parent.map(str::to_owned),
            card: serde_json::Value::Null,
        };
        fleet.engines[engine].is_up(models.iter().map(card).collect());
    }

    #[test]
    fn a_model_is_served_by_the_ready_engines_that_list_it() {
        let fleet = fleet(3);
        serves(&fleet, 0, &[("m", None)]);
        serves(&fleet, 1, &[("m", None), ("ad", Some("m"))]);
        serves(&fleet, 2, &[("m", None)]);
        fleet.engines[2].is_down("gone".to_owned());
        let names =
            |model| fleet.serving(model).unwrap().iter().map(|s| (s.engine.name().to_owned(), s.is_adapter)).collect::<Vec<_>>();
        assert_eq!(names("m"), [("h:1".to_owned(), false), ("h:2".to_owned(), false)]);
        assert_eq!(names("ad"), [("h:2".to_owned(), true)]);
    }

    #[test]
    fn unknown_and_not_ready_are_told_apart() {
        let fleet = fleet(2);
        assert!(matches!(fleet.serving("m"), Err(ApiError::NotReady { .. })), "nobody has said what it serves");
        serves(&fleet, 0, &[("m", None)]);
        assert!(matches!(fleet.serving("x"), Err(ApiError::NotReady { .. })), "the other engine may serve it");
        serves(&fleet, 1, &[("n", None)]);
        assert!(matches!(fleet.serving("x"), Err(ApiError::UnknownModel { .. })));
        fleet.engines[1].is_down("gone".to_owned());
        assert!(matches!(fleet.serving("n"), Err(ApiError::NotReady { .. })));
    }
}
