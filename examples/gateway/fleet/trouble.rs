//! What lanes meet: an index that panics, has no room, or is slow. Through real sockets, from a mock engine to the index.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use kv_index::lanes::Load;
use kv_index::{
    Block, BlockName, ContentHash, Digest, Holding, Index, Matches, ReferenceIndex, ReferenceWorker, Removed, Runs, StoreError,
    Stored, View, ViewsExhausted, Worker, WorkerId, WorkersExhausted,
};
use kv_routing::liveness;
use reqwest::Client;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{Fleet, Laned, StreamState, Trust};
use crate::gateway::settings::{DecisionSettings, EngineSpec};
use crate::mock_engine::{MockConfig, MockEngine, MockFleet, Timing};

/// The reference index, in a mood.
#[derive(Debug, Default)]
struct Moody {
    inner: ReferenceIndex,
    mood: Arc<Mood>,
}

#[derive(Debug, Default)]
struct Mood {
    /// So many of the next stores panic.
    panics: AtomicU32,
    full: AtomicBool,
    /// Every store waits.
    closed: AtomicBool,
}

#[derive(Debug)]
struct MoodyWorker {
    inner: ReferenceWorker,
    mood: Arc<Mood>,
}

impl Index for Moody {
    type Worker = MoodyWorker;

    fn add_worker(&self) -> Result<MoodyWorker, WorkersExhausted> {
        Ok(MoodyWorker { inner: self.inner.add_worker()?, mood: self.mood.clone() })
    }

    fn find(&self, request: &[ContentHash], out: &mut Matches) {
        self.inner.find(request, out);
    }

    fn coverage(&self, worker: WorkerId, view: View, request: &[ContentHash], out: &mut Runs) {
        self.inner.coverage(worker, view, request, out);
    }

    fn depth(&self, worker: WorkerId, view: View, request: &[ContentHash]) -> u32 {
        self.inner.depth(worker, view, request)
    }

    fn digest(&self, worker: WorkerId, view: View) -> Digest {
        self.inner.digest(worker, view)
    }

    fn for_each_holding(&self, worker: WorkerId, visit: &mut dyn FnMut(Holding)) {
        self.inner.for_each_holding(worker, visit);
    }

    fn workers(&self) -> Vec<WorkerId> {
        self.inner.workers()
    }
}

impl Worker for MoodyWorker {
    fn id(&self) -> WorkerId {
        self.inner.id()
    }

    fn views(&self) -> u8 {
        self.inner.views()
    }

    fn add_view(&mut self) -> Result<View, ViewsExhausted> {
        self.inner.add_view()
    }

    fn store(
        &mut self,
        view: View,
        parent: Option<BlockName>,
        blocks: &[Block],
        out: &mut Vec<Stored>,
    ) -> Result<(), StoreError> {
        while self.mood.closed.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let panics = self.mood.panics.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        assert!(panics.is_err(), "in a mood to panic");
        if self.mood.full.load(Ordering::Relaxed) {
            return Err(StoreError::OverBudget { budget_bytes: 0, needed_bytes: 1 });
        }
        self.inner.store(view, parent, blocks, out)
    }

    fn remove(&mut self, view: View, names: &[BlockName], out: &mut Vec<Removed>) {
        self.inner.remove(view, names, out);
    }

    fn holds(&self, view: View, name: BlockName) -> bool {
        self.inner.holds(view, name)
    }

    fn knows(&self, name: BlockName) -> bool {
        self.inner.knows(name)
    }

    fn clear_view(&mut self, view: View) {
        self.inner.clear_view(view);
    }

    fn clear(&mut self) {
        self.inner.clear();
    }
}

/// Mock engines, watched into a moody index by one lane.
struct Scene {
    engines: MockFleet,
    fleet: Fleet,
    laned: Arc<Laned<Moody>>,
    mood: Arc<Mood>,
    client: Client,
    tasks: JoinSet<()>,
}

impl Scene {
    async fn start(engines: usize, replays: bool, queue_events: usize) -> Self {
        let timing = Timing { speed: 100.0, ..Timing::default() };
        let engines = MockFleet::start(MockConfig { engines, timing, ..MockConfig::default() }).await.unwrap();
        let fleet = Fleet::new(
            &engines.engines().iter().map(|engine| spec(engine, replays)).collect::<Vec<_>>(),
            liveness::Options::default(),
            &DecisionSettings::default(),
        )
        .unwrap();
        let mut laned = Laned::new(Moody::default(), 1).unwrap();
        laned.queue.queue = Load { events: queue_events, cost: u64::MAX };
        let (mood, laned) = (laned.index.mood.clone(), Arc::new(laned));
        let (client, mut tasks) = (Client::builder().no_proxy().build().unwrap(), JoinSet::new());
        fleet.watch(&laned, &client, &mut tasks).await.unwrap();
        let scene = Self { engines, fleet, laned, mood, client, tasks };
        scene.until("the streams are connected", || (0..scene.fleet.engines().len()).all(|at| scene.stream(at).connected)).await;
        scene
    }

    /// What is known of an engine's stream.
    fn stream(&self, engine: usize) -> Arc<StreamState> {
        self.fleet.engines()[engine].ranks()[0].stream()
    }

    /// Has an engine store four blocks of its own.
    async fn store(&self, engine: usize, family: u32) {
        let tokens: Vec<u32> = (0..64).map(|position| family * 1000 + position + 1).collect();
        let url = format!("{}/v1/completions", self.engines.engines()[engine].http_url());
        let body = json!({"model": "mock", "prompt": tokens, "max_tokens": 1});
        assert_eq!(self.client.post(url).json(&body).send().await.unwrap().status(), 200);
    }

    /// Whether the index is believed, and has what the engine has.
    fn is_exact(&self, engine: usize) -> bool {
        let stream = self.stream(engine);
        let blocks = self.laned.index.digest(stream.worker.unwrap(), View::MAIN).count;
        stream.trust() == Trust::Exact && blocks == self.engines.engines()[engine].loads()[0].cached_blocks as u64
    }

    async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let held = timeout(Duration::from_secs(10), async {
            while !condition() {
                sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(held.await.is_ok(), "waited in vain: {what}; {:?}", self.stream(0));
    }

    async fn stop(mut self) {
        self.tasks.shutdown().await;
        self.engines.shutdown().await;
    }
}

fn spec(engine: &MockEngine, replays: bool) -> EngineSpec {
    let replay = if replays { format!(",replay={}", engine.replay_endpoint()) } else { String::new() };
    format!("{},events={}{replay}", engine.http_url(), engine.events_endpoint()).parse().unwrap()
}

const ROOMY: usize = 4096;

// D17.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_costs_its_own_stream_and_that_is_learned_anew() {
    let scene = Scene::start(2, true, ROOMY).await;
    for family in 0..3 {
        scene.store(0, family).await;
        scene.store(1, family).await;
    }
    scene.until("both are taken in", || scene.is_exact(0) && scene.is_exact(1)).await;
    let other = scene.stream(1).worker;
    scene.mood.panics.store(1, Ordering::Relaxed);
    scene.store(0, 10).await;
    scene.until("the failure is told", || scene.stream(0).batches.failures == 1).await;
    scene.until("the stream is learned anew", || scene.stream(0).batches.resyncs == 1 && scene.is_exact(0)).await;
    assert_eq!((scene.stream(1).batches.failures, scene.stream(1).worker), (0, other), "the other has noticed nothing");
    assert!(scene.is_exact(1));
    scene.until("the failed worker is gone", || scene.laned.index.workers().len() == 2).await;
    assert_eq!((scene.laned.metrics().failed, scene.laned.metrics().counts.panicked), (0, 1));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_a_stream_is_learned_anew_is_tried_again_later() {
    let scene = Scene::start(1, true, ROOMY).await;
    scene.store(0, 1).await;
    scene.until("it is taken in", || scene.is_exact(0)).await;
    scene.mood.panics.store(3, Ordering::Relaxed);
    scene.store(0, 2).await;
    scene.until("it has got over it", || scene.mood.panics.load(Ordering::Relaxed) == 0 && scene.is_exact(0)).await;
    assert_eq!(scene.stream(0).batches.failures, 3);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_replay_socket_a_failed_stream_owns_up_to_what_it_forgot() {
    let scene = Scene::start(1, false, ROOMY).await;
    // Nothing tells a subscriber that the publisher has heard of it.
    for family in 0..200 {
        scene.store(0, family).await;
        sleep(Duration::from_millis(10)).await;
        if scene.stream(0).sequence.is_some() {
            break;
        }
    }
    scene.mood.panics.store(1, Ordering::Relaxed);
    scene.store(0, 1000).await;
    scene.until("it is known", || scene.stream(0).batches.failures == 1 && scene.stream(0).trust() == Trust::Degraded).await;
    scene.store(0, 1001).await;
    scene.until("it goes on", || scene.stream(0).sequence.is_some()).await;
    assert_eq!((scene.stream(0).trust(), scene.stream(0).counts.stored), (Trust::Degraded, 4));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_index_degrades_a_stream_until_there_is_room() {
    let scene = Scene::start(1, true, ROOMY).await;
    scene.store(0, 0).await;
    scene.until("it is taken in", || scene.is_exact(0)).await;
    scene.mood.full.store(true, Ordering::Relaxed);
    scene.store(0, 1).await;
    scene.until("the refusal is told", || scene.stream(0).trust() == Trust::Degraded).await;
    assert!(scene.stream(0).counts.losses.iter().any(|(loss, _)| loss.as_str() == "over_budget"));
    scene.until("a try in vain", || scene.stream(0).batches.resyncs >= 1).await;
    // Another try may be under way.
    assert_ne!(scene.stream(0).trust(), Trust::Exact);
    scene.mood.full.store(false, Ordering::Relaxed);
    scene.until("it is learned anew", || scene.is_exact(0)).await;
    assert_eq!(scene.stream(0).batches.failures, 0);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_holds_up_its_feed_and_loses_nothing() {
    let scene = Scene::start(1, true, 2).await;
    scene.mood.closed.store(true, Ordering::Relaxed);
    for family in 0..20 {
        scene.store(0, family).await;
    }
    scene.until("an event comes back", || scene.laned.metrics().counts.returned > 0).await;
    assert!(scene.laned.metrics().held.events <= 2);
    scene.mood.closed.store(false, Ordering::Relaxed);
    scene.until("all is taken in", || scene.is_exact(0)).await;
    assert_eq!((scene.stream(0).missed(), scene.stream(0).batches.missed), (0, 0));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_is_over_when_all_that_was_taken_is_applied() {
    let scene = Scene::start(1, true, ROOMY).await;
    // What is said of a stream's beginning is queued too.
    scene.store(0, 0).await;
    scene.until("it is taken in", || scene.is_exact(0)).await;
    let before = scene.laned.metrics().counts.accepted;
    scene.mood.closed.store(true, Ordering::Relaxed);
    for family in 1..=5 {
        scene.store(0, family).await;
    }
    scene.until("all are queued", || scene.laned.metrics().counts.accepted >= before + 5).await;
    let mut drain = scene.laned.drain();
    assert!(timeout(Duration::from_millis(50), &mut drain).await.is_err(), "nothing can be applied");
    scene.mood.closed.store(false, Ordering::Relaxed);
    let drained = timeout(Duration::from_secs(10), drain).await.unwrap();
    assert_eq!((drained.streams, drained.lost), (1, 0));
    assert_eq!(scene.stream(0).counts.stored, 24);
    scene.stop().await;
}

/// Defect 3: an engine that is watched again waits for the end of its former feeds, also if nobody else does.
// P11, #3.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_watched_again_waits_for_its_former_feeds() {
    let mut scene = Scene::start(1, true, ROOMY).await;
    scene.store(0, 0).await;
    scene.until("it is taken in", || scene.is_exact(0)).await;
    let (fleet, mut tasks) = (
        Fleet::new(&[spec(&scene.engines.engines()[0], true)], liveness::Options::default(), &DecisionSettings::default())
            .unwrap(),
        JoinSet::new(),
    );
    let again = fleet.watch(&scene.laned, &scene.client, &mut tasks);
    assert!(timeout(Duration::from_millis(50), again).await.is_err(), "the first feed is still there");
    scene.tasks.abort_all();
    timeout(Duration::from_secs(5), fleet.watch(&scene.laned, &scene.client, &mut tasks)).await.expect("it has ended").unwrap();
    scene.fleet = fleet;
    scene.until("it is learned by the second", || scene.is_exact(0)).await;
    tasks.shutdown().await;
    scene.stop().await;
}
