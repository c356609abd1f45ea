//! An engine that can be wrong in many ways, and a router that sees of it what comes by wire.

use std::time::Duration;

use kv_events::admission::Change;
use kv_events::doctor::{Cause, Chart, Doctor, Filling, Requests};
use kv_events::engine_hash::vllm::{Algorithm, Block, DEFAULT_SEED, ExtraKey as Key, KeyForm};
use kv_events::wire::frame;
use kv_events::{
    Delivery, EngineHash, Event, ExtraKey, Follower, Predictor, Removed, Source, Stored, Stream, StreamOptions, Tokens,
};
use kv_index::{Index, Namespace, ReferenceIndex, ReferenceWorker, View};

use crate::encode::payload;

pub(crate) const BLOCK: u32 = 4;

/// A router's view of one rank.
pub(crate) struct Scene {
    index: ReferenceIndex,
    stream: Stream<ReferenceWorker>,
    follower: Follower,
    doctor: Doctor,
    options: StreamOptions,
    sequence: u64,
    pub(crate) now: Duration,
    pub(crate) requests: Requests,
    pub(crate) pool_blocks: Option<u64>,
}

/// A prompt as an engine stores it.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub(crate) tokens: Vec<u32>,
    pub(crate) salt: Option<&'static str>,
}

impl Scene {
    pub(crate) fn new(options: StreamOptions) -> Self {
        let index = ReferenceIndex::new();
        let stream = Stream::new(index.add_worker().unwrap(), options);
        let mut follower = Follower::new(Source::Engine, 1);
        follower.handle_connected(Duration::ZERO);
        let (doctor, requests, now) = (Doctor::new(), Requests::default(), Duration::ZERO);
        Self { index, stream, follower, doctor, options, sequence: 0, now, requests, pool_blocks: None }
    }

    /// A batch comes by wire.
    pub(crate) fn hear(&mut self, events: &[Event]) {
        self.hear_bytes(&payload(1.5, events));
    }

    /// A payload comes by wire, whatever it is.
    pub(crate) fn hear_bytes(&mut self, payload: &[u8]) {
        let number = self.sequence.to_be_bytes();
        self.sequence += 1;
        let frames = [&b""[..], &number, payload];
        let message = frame::live(&frames).unwrap();
        self.follower.handle_live(self.now, Delivery::decode(&message));
        while let Some(step) = self.follower.poll_step() {
            if let Change::Apply { batch, .. } = step.change {
                self.stream.apply(&batch);
            }
        }
        self.follower.handle_findings(self.now, self.stream.findings());
    }

    /// A batch is lost on its way.
    pub(crate) fn miss(&mut self) {
        self.sequence += 1;
    }

    /// A request is answered, of which the engine found so many tokens in its cache.
    pub(crate) fn answer(&mut self, prompt: &Prompt, cached_tokens: u64) {
        let predicted = self.predict(prompt);
        let requests = &mut self.requests;
        requests.sent += 1;
        requests.salted += u64::from(prompt.salt.is_some());
        requests.compared += 1;
        requests.prompt_tokens += prompt.tokens.len() as u64;
        requests.predicted_tokens += predicted;
        requests.cached_tokens += cached_tokens;
    }

    /// What is predicted to be cached of a prompt.
    pub(crate) fn predict(&self, prompt: &Prompt) -> u64 {
        let Some(scheme) = self.stream.profile().scheme else { return 0 };
        let (mut request, namespace) = (Vec::new(), Namespace { lora: None, salt: prompt.salt });
        scheme.hash_prompt(namespace, &prompt.tokens, &mut request);
        let (worker, profile) = (self.stream.worker(), self.stream.profile());
        Predictor::new().predict(&self.index, worker, profile, &request, prompt.tokens.len()).tokens as u64
    }

    /// What the doctor says.
    pub(crate) fn causes(&mut self) -> Vec<Cause> {
        let held_blocks = self.index.digest(self.stream.worker(), View::MAIN).count;
        let chart = Chart {
            subscribed: self.follower.is_connected(),
            counts: self.stream.counts(),
            findings: self.stream.findings(),
            profile: self.stream.profile(),
            hashes: self.stream.hashes(),
            filling: self.pool_blocks.map(|pool_blocks| Filling { held_blocks, pool_blocks }),
            request_block_tokens: self.options.block_tokens,
            requests: self.requests,
        };
        let found = self.doctor.examine(self.now, &chart);
        found.iter().for_each(|diagnosis| println!("{diagnosis}"));
        found.into_iter().map(|diagnosis| diagnosis.cause).collect()
    }
}

impl Prompt {
    /// Of so many whole blocks, unlike any of another family.
    pub(crate) fn new(family: u32, blocks: u32) -> Self {
        Self { tokens: (0..blocks * BLOCK).map(|at| family * 1000 + at).collect(), salt: None }
    }

    pub(crate) fn salted(self, salt: &'static str) -> Self {
        Self { salt: Some(salt), ..self }
    }

    /// As an engine stores it that hashes with vLLM's `sha256_cbor` and this seed, and shows its salt.
    pub(crate) fn stored_by(&self, seed: &str) -> Stored {
        let algorithm = Algorithm::Sha256Cbor;
        let mut parent = algorithm.root(seed).unwrap();
        let mut hashes = Vec::new();
        for (at, tokens) in self.tokens.chunks(BLOCK as usize).enumerate() {
            let salt = self.salt.filter(|_| at == 0).map(Key::CacheSalt);
            let block = Block { keys: salt.as_slice(), form: KeyForm::Tagged, ..Block::of(tokens) };
            parent = algorithm.block(&parent, &block).unwrap();
            hashes.push(EngineHash::Word(parent.event_word()));
        }
        let keys = |salt: &str| {
            let first = vec![ExtraKey::Text(salt.into())];
            std::iter::once(first).chain(std::iter::repeat_n(Vec::new(), hashes.len() - 1)).collect()
        };
        Stored {
            extra_keys: self.salt.map(keys),
            hashes,
            tokens: Tokens::Ids(self.tokens.clone()),
            block_size: BLOCK,
            medium: Some("GPU".into()),
            // So that the stream is known for vLLM's.
            group: Some(0),
            kind: Some("full_attention".into()),
            ..Stored::default()
        }
    }

    pub(crate) fn stored(&self) -> Stored {
        self.stored_by(DEFAULT_SEED)
    }

    pub(crate) fn removed(&self) -> Removed {
        Removed { hashes: self.stored().hashes, medium: Some("GPU".into()), group: Some(0), ..Removed::default() }
    }
}
