//! Dynamo's selection path: its index, its estimates of cache hits, and its selector with its published cost function.
//!
//! `dynamo-kv-router` 1.6.1 without its optional features gives out the index, the request, the workers' loads and the selector
//! (`WorkerSelectionPolicy`), which takes scorers and a picker; the ones it uses by default it does not give out. So the scorer here
//! is rebuilt from its documentation: (active prefill tokens + uncached prompt tokens) in blocks, and active decode blocks; the picker
//! takes the lowest. What its host computes anew for each request, a projection of every worker's load, is kept up to date
//! here and not charged.
#![expect(clippy::zero_sized_map_values, reason = "what the peer's function takes")]

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use contest::runner::block_on;
use dynamo_kv_router::ConcurrentRadixTreeCompressed;
use dynamo_kv_router::indexer::{MatchDetails, SyncIndexer, ThreadPoolIndexer, TieredMatchDetails};
use dynamo_kv_router::plugins::worker_selection::{
    WorkerCandidates, WorkerInputView, WorkerInputs, WorkerPicker, WorkerScorer, WorkerSelectionContext,
};
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheStoreData, KvCacheStoredBlockData, LocalBlockHash,
    RouterEvent, RoutingConstraints, WorkerConfigLike, WorkerId, WorkerWithDpRank,
};
use dynamo_kv_router::scheduling::config::KvRouterConfig;
use dynamo_kv_router::scheduling::overlap::{
    OverlapSignals, cache_hit_estimates_from_tiered_matches, tier_overlap_blocks_from_tiered_matches,
};
use dynamo_kv_router::scheduling::selector::{WorkerSelectionInput, WorkerSelectionPolicy, WorkerSelector};
use dynamo_kv_router::scheduling::{ScheduleMode, SchedulingRequest, WorkerSelectionPolicyError};
use dynamo_kv_router::sequences::WorkerLoadProjection;
use kv_index::{Block, ContentHash};
use kv_routing::Load;

/// Dynamo's router over the same fleet.
pub struct Dynamo {
    pool: ThreadPoolIndexer<ConcurrentRadixTreeCompressed>,
    tree: Arc<ConcurrentRadixTreeCompressed>,
    config: KvRouterConfig,
    policy: WorkerSelectionPolicy,
    workers: HashMap<WorkerId, Plain>,
    /// The loads stay in it; the rest is of the last request.
    request: SchedulingRequest,
    prompt: Vec<LocalBlockHash>,
    events: u64,
}

impl Dynamo {
    pub fn new() -> Self {
        let config = KvRouterConfig::default();
        let pool = ThreadPoolIndexer::new(ConcurrentRadixTreeCompressed::new(), 1, BLOCK_TOKENS);
        Self {
            tree: pool.backend_arc(),
            pool,
            policy: WorkerSelectionPolicy::new(config.clone(), "bench", vec![Box::new(FewestBlocks)], Box::new(Lowest)),
            config,
            workers: HashMap::default(),
            request: request(),
            prompt: Vec::new(),
            events: 0,
        }
    }

    /// The same event that our index takes.
    pub fn store(&mut self, worker: u32, blocks: &[Block]) {
        let stored = blocks.iter().map(|block| KvCacheStoredBlockData {
            block_hash: ExternalSequenceBlockHash(block.name.expect("it has one").0),
            tokens_hash: LocalBlockHash(block.content.0),
            mm_extra_info: None,
        });
        let data = KvCacheStoreData { parent_hash: None, start_position: None, blocks: stored.collect() };
        let event = KvCacheEvent { event_id: self.events, data: KvCacheEventData::Stored(data), dp_rank: 0 };
        self.events += 1;
        self.pool.enqueue_event(RouterEvent::new(worker.into(), event)).expect("the lane lives as long as the pool");
    }

    /// Waits until all events are applied.
    pub fn flush(&self) {
        block_on(self.pool.flush_and_wait()).expect("the lane lives as long as the pool");
    }

    /// The same load that our pool has.
    pub fn set_load(&mut self, worker: u32, load: &Load) {
        self.workers.insert(worker.into(), Plain);
        let projection = WorkerLoadProjection {
            active_prefill_tokens: load.queued_tokens as usize,
            active_decode_blocks: (load.kept_tokens / u64::from(BLOCK_TOKENS)) as usize,
            active_requests: load.in_flight as usize,
            additional_active_blocks: 0,
        };
        self.request.worker_loads.insert(WorkerWithDpRank::from_worker_id(worker.into()), projection);
    }

    /// Looks the prompt up. Its hashes are in dynamo's own form before the clock runs.
    pub fn prepare(&mut self, reusable: &[ContentHash]) {
        self.prompt.clear();
        self.prompt.extend(reusable.iter().map(|hash| LocalBlockHash(hash.0)));
    }

    pub fn find(&self) -> TieredMatchDetails {
        let overlap_scores = self.tree.find_matches(&self.prompt, false);
        TieredMatchDetails { device: MatchDetails { overlap_scores, ..MatchDetails::new() }, lower_tier: HashMap::new() }
    }

    /// The deepest that anybody holds, in blocks.
    pub fn deepest(found: &TieredMatchDetails) -> u32 {
        found.device.overlap_scores.scores.values().copied().max().unwrap_or(0)
    }

    /// From what was found to a worker.
    pub fn choose(&mut self, found: &TieredMatchDetails, prompt_tokens: usize) -> u32 {
        let estimates = cache_hit_estimates_from_tiered_matches(&self.config, BLOCK_TOKENS, found);
        self.request.isl_tokens = prompt_tokens;
        self.request.overlap = OverlapSignals {
            tier_overlap_blocks: tier_overlap_blocks_from_tiered_matches(found),
            effective_overlap_blocks: estimates.effective_overlap_blocks,
            effective_cached_tokens: estimates.cached_tokens,
        };
        let input = WorkerSelectionInput::configured(&self.workers, &self.request, self.request.eligibility(), BLOCK_TOKENS);
        let chosen = WorkerSelector::<Plain>::select_worker(&self.policy, input).expect("the fleet is up");
        chosen.worker.worker_id as u32
    }
}

fn request() -> SchedulingRequest {
    SchedulingRequest {
        mode: ScheduleMode::QueryOnly { request_id: None },
        token_seq: None,
        isl_tokens: 0,
        lora_name: None,
        expected_output_tokens: None,
        affinity_target: None,
        pinned_worker: None,
        allowed_worker_ids: None,
        routing_constraints: RoutingConstraints::default(),
        router_config_override: None,
        track_prefill_tokens: true,
        priority_jump: 0.0,
        strict_priority: 0,
        policy_class: None,
        session_context: None,
        overlap: OverlapSignals::default(),
        kv_transfer_candidates: None,
        retain_kv_transfer_chain: false,
        shared_cache_hits: None,
        worker_loads: HashMap::default(),
        resp_tx: None,
    }
}

/// A worker without anything special.
struct Plain;

impl WorkerConfigLike for Plain {
    fn data_parallel_start_rank(&self) -> u32 {
        0
    }

    fn data_parallel_size(&self) -> u32 {
        1
    }

    fn max_num_batched_tokens(&self) -> Option<u64> {
        None
    }

    fn total_kv_blocks(&self) -> Option<u64> {
        None
    }

    fn taints(&self) -> &HashSet<String> {
        static NONE: LazyLock<HashSet<String>> = LazyLock::new(HashSet::new);
        &NONE
    }
}

/// The published cost function, at its default weights.
struct FewestBlocks;

impl WorkerScorer for FewestBlocks {
    fn score(
        &mut self,
        context: &WorkerSelectionContext<'_>,
        candidates: WorkerCandidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), WorkerSelectionPolicyError> {
        let (prompt, block) = (context.prompt_tokens() as f64, f64::from(context.block_size()));
        for (candidate, cost) in candidates.iter().zip(costs) {
            let cached = candidate.cache().map_or(0.0, |cache| cache.device_overlap_blocks());
            let (pending, decode) =
                candidate.load().map_or((0.0, 0.0), |load| (load.active_prefill_tokens() as f64, load.decode_cost_blocks()));
            *cost = ((pending + prompt) / block - cached).max(0.0) + decode;
        }
        Ok(())
    }

    fn required_worker_inputs(&self) -> WorkerInputs {
        WorkerInputs::CACHE | WorkerInputs::LOAD
    }
}

/// The lowest cost, as at a temperature of 0.
struct Lowest;

impl WorkerPicker for Lowest {
    fn pick(&mut self, _: &WorkerSelectionContext<'_>, input: WorkerInputView<'_>) -> Result<usize, WorkerSelectionPolicyError> {
        let costs = input.candidates().iter().map(dynamo_kv_router::plugins::worker_selection::ScoredWorkerCandidate::cost);
        let lowest = costs.enumerate().min_by(|left, right| left.1.total_cmp(&right.1));
        lowest.map(|(row, _)| row).ok_or_else(|| WorkerSelectionPolicyError::failed("nobody is there"))
    }
}

const BLOCK_TOKENS: u32 = 16;
