//! One request on its way through the scheduler.

use super::chain::BlockChain;
use super::splitmix::{mix30, mix64};

/// A tokenized prompt with the names of its blocks.
#[derive(Debug, Clone)]
pub struct Prompt {
    tokens: Vec<u32>,
    chain: BlockChain,
}

impl Prompt {
    /// Names the blocks of `tokens`. `block_size` is in tokens.
    pub fn new(tokens: Vec<u32>, block_size: usize) -> Self {
        let chain = BlockChain::of(&tokens, block_size);
        Self { tokens, chain }
    }

    /// The token ids.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Names of the blocks that a cache can serve to this prompt.
    pub fn servable(&self) -> &[u64] {
        self.chain.servable()
    }
}

/// What the scheduler is asked to run.
#[derive(Debug, Clone)]
pub struct Request {
    /// Chosen by the caller, unique within the scheduler; also the seed of the output.
    pub id: u64,
    /// At least one token.
    pub prompt: Prompt,
    /// Tokens to produce, at least 1.
    pub max_tokens: usize,
}

/// The state of one request. `tokens` grows by the output, so a preempted sequence simply starts over with its output
/// as part of the prompt.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: u64,
    tokens: Vec<u32>,
    chain: BlockChain,
    block_size: usize,
    max_tokens: usize,
    emitted: usize,
    /// Tokens whose keys and values are in blocks that this sequence holds.
    computed: usize,
    /// Full blocks held, by name.
    named: usize,
    /// Blocks held that are not full.
    anonymous: usize,
    /// Whether the whole prompt has been computed since the last admission.
    pub(super) decoding: bool,
    /// Whether it was admitted before; a preempted sequence does not report its cached tokens again.
    pub(super) admitted_before: bool,
}

impl Sequence {
    pub(super) fn new(request: Request, block_size: usize) -> Self {
        let Prompt { tokens, chain } = request.prompt;
        Self {
            id: request.id,
            tokens,
            chain,
            block_size,
            max_tokens: request.max_tokens.max(1),
            emitted: 0,
            computed: 0,
            named: 0,
            anonymous: 0,
            decoding: false,
            admitted_before: false,
        }
    }

    /// Tokens that the next step can compute under `budget`: a prompt chunk, or the one token that decoding left.
    pub(super) fn chunk(&self, budget: usize) -> usize {
        self.remaining().min(budget)
    }

    pub(super) fn remaining(&self) -> usize {
        self.tokens.len() - self.computed
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn computed(&self) -> usize {
        self.computed
    }

    pub(super) fn finished(&self) -> bool {
        self.emitted == self.max_tokens
    }

    /// Blocks to allocate before the context can be `tokens` long.
    pub(super) fn missing_blocks(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.block_size).saturating_sub(self.named + self.anonymous)
    }

    pub(super) fn add_anonymous(&mut self, blocks: usize) {
        self.anonymous += blocks;
    }

    pub(super) fn anonymous(&self) -> usize {
        self.anonymous
    }

    /// Names of the full blocks held, first block first.
    pub(super) fn held(&self) -> &[u64] {
        &self.chain.names()[..self.named]
    }

    pub(super) fn servable(&self) -> &[u64] {
        self.chain.servable()
    }

    /// Starts behind `blocks` cached blocks, on which the caller took references.
    pub(super) fn start_behind(&mut self, blocks: usize) {
        self.named = blocks;
        self.computed = blocks * self.block_size;
    }

    /// Computes `tokens` more. Returns the blocks that are full now, as a range of the chain; the caller seals them.
    pub(super) fn compute(&mut self, tokens: usize) -> std::ops::Range<usize> {
        self.computed += tokens;
        let full = self.computed / self.block_size;
        let filled = self.named..full;
        self.anonymous -= filled.len();
        self.named = full;
        filled
    }

    pub(super) fn name(&self, block: usize) -> u64 {
        self.chain.names()[block]
    }

    pub(super) fn parent(&self, block: usize) -> Option<u64> {
        block.checked_sub(1).map(|parent| self.name(parent))
    }

    pub(super) fn block_tokens(&self, blocks: std::ops::Range<usize>) -> &[u32] {
        &self.tokens[blocks.start * self.block_size..blocks.end * self.block_size]
    }

    /// Produces the next output token.
    pub(super) fn emit(&mut self) -> u32 {
        let token = output_token(self.id, self.emitted);
        self.decoding = true;
        self.emitted += 1;
        self.tokens.push(token);
        self.chain.push(token);
        token
    }

    /// Forgets what was computed; the caller released the blocks.
    pub(super) fn start_over(&mut self) {
        (self.computed, self.named, self.anonymous, self.decoding) = (0, 0, 0, false);
    }
}

/// The `position`-th output token of request `id`: a word of the output vocabulary that follows from both, so that the
/// outputs of two requests share no block.
pub fn output_token(id: u64, position: usize) -> u32 {
    OUTPUT_TOKENS_START + mix30(mix64(id) ^ position as u64)
}

/// First id of the output vocabulary. Words of prompts have lower ids, see [`tokenizer`](super::tokenizer).
pub(super) const OUTPUT_TOKENS_START: u32 = 1 << 30;
/// Ids stay below this, where those of engines with signed ids end.
pub(super) const OUTPUT_TOKENS_END: u32 = 1 << 31;
