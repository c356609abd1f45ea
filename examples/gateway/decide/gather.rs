//! What each rank would reuse of a prompt, and how busy it is.

use std::time::Duration;

use kv_events::{Predictor, Profile};
use kv_index::{ContentHash, Index, Matches, Namespace, Scheme};
use kv_routing::accounting::{Predicted, Predictions, PrefixKeys};
use kv_routing::audit::State;
use kv_routing::{Candidate, Overlap};

use super::{Question, Seat};
use crate::gateway::fleet::{Rank, StreamState};
use crate::gateway::limits::BLOCK_TOKENS;
use crate::gateway::request::Inbound;

/// The candidates, ascending by their workers, and what their overlaps were made of.
pub(super) struct Gathered {
    pub(super) prompt_tokens: u64,
    pub(super) candidates: Vec<Candidate>,
    /// For each candidate, how its prompt was cut, and what its siblings leave behind beyond what it has announced.
    shares: Vec<Share>,
    cuts: Vec<Cut>,
}

#[derive(Clone, Copy)]
struct Share {
    cut: usize,
    booked_tokens: u64,
}

/// The prompt in blocks of one kind.
struct Cut {
    key: Key,
    hashes: Vec<ContentHash>,
    keys: PrefixKeys,
    /// Where siblings were sent.
    found: Vec<Predicted>,
    /// Who holds how much of it, once somebody has asked: one lookup for all ranks.
    matches: Option<Matches>,
}

#[derive(Clone, Copy, PartialEq)]
struct Key {
    scheme: Scheme,
    is_adapter: bool,
}

impl Gathered {
    /// What siblings leave behind at the candidate, beyond what it has announced.
    pub(super) fn booked_tokens(&self, candidate: usize) -> u64 {
        self.shares[candidate].booked_tokens
    }

    /// The names of the prompt's prefixes, as the candidate cuts it.
    pub(super) fn take_keys(&mut self, candidate: usize) -> PrefixKeys {
        std::mem::take(&mut self.cuts[self.shares[candidate].cut].keys)
    }

    /// The most that anyone who may be chosen would reuse, and the prompt's length, in blocks.
    pub(super) fn best_and_length(&self) -> (u64, u64) {
        let blocks = |tokens: u64, share: &Share| tokens / u64::from(self.cuts[share.cut].key.scheme.block_tokens.get());
        let eligible = || self.candidates.iter().zip(&self.shares).filter(|(candidate, _)| candidate.is_eligible());
        let best = eligible().map(|(candidate, share)| blocks(candidate.overlap.tokens(), share)).max();
        let length = eligible().map(|(_, share)| blocks(self.prompt_tokens, share)).max();
        (best.unwrap_or(0), length.unwrap_or(0))
    }

    /// The candidate of this worker's number.
    pub(super) fn candidate(&self, worker: u32) -> Option<&Candidate> {
        let place = self.candidates.binary_search_by_key(&worker, |candidate| candidate.worker).ok()?;
        Some(&self.candidates[place])
    }
}

/// What each of `seats`, ascending by their workers, would have to do for the request.
pub(super) fn gather<I: Index>(
    index: &I,
    now: Duration,
    predictions: Option<&Predictions>,
    question: &Question<'_>,
    seats: &[Seat<'_>],
) -> Gathered {
    let tokens = question.tokens.unwrap_or_default();
    let known = seats.iter().find_map(|(server, rank)| server.engine.ranks()[*rank].stream().profile.scheme);
    let mut lookup = Lookup {
        index,
        predictor: Predictor::new(),
        predictions,
        tokens,
        inbound: question.inbound,
        now,
        cuts: Vec::new(),
        otherwise: known.unwrap_or(Scheme::plain(BLOCK_TOKENS)),
    };
    let (candidates, shares) =
        seats.iter().map(|(server, rank)| lookup.candidate(server.is_adapter, &server.engine.ranks()[*rank])).unzip();
    Gathered { prompt_tokens: tokens.len() as u64, candidates, shares, cuts: lookup.cuts }
}

/// One prompt's lookups. Its blocks are hashed once for each way in which the candidates cut and tell them apart, which
/// is one in most fleets.
struct Lookup<'a, I> {
    index: &'a I,
    predictor: Predictor,
    predictions: Option<&'a Predictions>,
    tokens: &'a [u32],
    inbound: &'a Inbound,
    cuts: Vec<Cut>,
    now: Duration,
    /// How a rank is taken to cut that has announced nothing yet: as the others, so that a burst before the first event finds its siblings.
    otherwise: Scheme,
}

impl<I: Index> Lookup<'_, I> {
    fn candidate(&mut self, is_adapter: bool, rank: &Rank) -> (Candidate, Share) {
        let stream = rank.stream();
        let cut = self.cut(Key { scheme: stream.profile.scheme.unwrap_or(self.otherwise), is_adapter });
        let (device_tokens, host_tokens) = self.indexed(&stream, cut);
        let indexed_tokens = device_tokens + host_tokens;
        let booked_tokens = self.booked(rank.worker, &stream.profile, cut, indexed_tokens);
        let prompt_tokens = self.tokens.len() as u64;
        let unannounced = rank.books.credit_tokens(prompt_tokens, indexed_tokens);
        let room = self.most(&stream.profile, cut).saturating_sub(indexed_tokens);
        let predicted_tokens = booked_tokens.max(unannounced).min(room);
        let (view, drift) = (rank.books.view(), rank.books.drift());
        let candidate = Candidate {
            worker: rank.worker,
            overlap: Overlap { host_tokens, predicted_tokens, ..Overlap::device(device_tokens) },
            // A stream that lacks blocks is degraded too, and what it has of them is true.
            degraded: stream.may_overstate() || drift == State::HoldsLess,
            vetoed: rank.pulse.veto().is_some(),
            overloaded: rank.books.is_overloaded(&view),
            load: rank.books.load(&view),
            ..Candidate::default()
        };
        (candidate, Share { cut, booked_tokens })
    }

    /// What the index says that the rank will reuse, in tokens: from the device, and from elsewhere where that is told apart.
    fn indexed(&mut self, stream: &StreamState, cut: usize) -> (u64, u64) {
        let (Some(worker), Some(scheme)) = (stream.worker, stream.profile.scheme) else { return (0, 0) };
        let profile = &stream.profile;
        let views = match profile.groups.as_slice() {
            [only] if only.group.kind.is_main() && only.group.block_tokens == scheme.block_tokens => *only,
            // The cache groups of a hybrid model are asked rank by rank, for what they can reuse together.
            _ => {
                return (
                    self.predictor.predict(self.index, worker, profile, &self.cuts[cut].hashes, self.tokens.len()).tokens as u64,
                    0,
                );
            }
        };
        let matches = self.matches(cut, scheme);
        let any = matches.depth(worker, views.any);
        let device = views.device.map_or(any, |device| matches.depth(worker, device).min(any));
        let tokens = |blocks: u32| {
            u64::from(blocks.saturating_sub(u32::from(profile.drops_last_block))) * u64::from(scheme.block_tokens.get())
        };
        (tokens(device), tokens(any) - tokens(device))
    }

    /// Who holds how much of the prompt as it is cut there, without what is always computed.
    fn matches(&mut self, cut: usize, scheme: Scheme) -> &Matches {
        let Cut { hashes, matches, .. } = &mut self.cuts[cut];
        matches.get_or_insert_with(|| {
            let mut matches = Matches::new();
            let reusable = hashes.len().min(scheme.reusable_in(self.tokens.len()));
            self.index.find(&hashes[..reusable], &mut matches);
            matches
        })
    }

    /// What siblings under way will leave behind at `worker` beyond `indexed_tokens`. What the index shows is predicted no longer.
    fn booked(&self, worker: u32, profile: &Profile, cut: usize, indexed_tokens: u64) -> u64 {
        let (Some(predictions), Cut { key, keys, found, .. }) = (self.predictions, &self.cuts[cut]) else { return 0 };
        let Some(expected) = found.iter().find(|found| found.worker == worker) else { return 0 };
        let block_tokens = u64::from(key.scheme.block_tokens.get());
        let shown = indexed_tokens / block_tokens;
        if u64::from(expected.blocks) <= shown {
            predictions.confirm(worker, keys, u32::try_from(shown).unwrap_or(u32::MAX));
            return 0;
        }
        let expected = (u64::from(expected.blocks) * block_tokens).min(self.most(profile, cut));
        expected.saturating_sub(indexed_tokens)
    }

    /// The most that can be reused of the prompt, in tokens: the last one is always computed.
    fn most(&self, profile: &Profile, cut: usize) -> u64 {
        let scheme = self.cuts[cut].key.scheme;
        let blocks = scheme.reusable_in(self.tokens.len()).saturating_sub(usize::from(profile.drops_last_block));
        blocks as u64 * u64::from(scheme.block_tokens.get())
    }

    /// The place of the prompt's blocks under `key`.
    fn cut(&mut self, key: Key) -> usize {
        if let Some(place) = self.cuts.iter().position(|cut| cut.key == key) {
            return place;
        }
        let (mut hashes, mut found) = (Vec::new(), Vec::new());
        key.scheme.hash_prompt(namespace(self.inbound, key.is_adapter), self.tokens, &mut hashes);
        let mut keys = PrefixKeys::default();
        if let Some(predictions) = self.predictions {
            keys.fill(&hashes);
            predictions.find_shared(self.now, &keys, &mut found);
        }
        self.cuts.push(Cut { key, hashes, keys, found, matches: None });
        self.cuts.len() - 1
    }
}

/// What makes equal tokens other content for this request. An adapter enters by the name it is served under.
pub(super) fn namespace(inbound: &Inbound, is_adapter: bool) -> Namespace<'_> {
    Namespace { lora: is_adapter.then_some(inbound.model.as_str()), salt: inbound.salt.as_deref() }
}
