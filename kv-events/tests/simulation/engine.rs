//! An engine's rank: its cache, what it publishes of it, and the batches that it keeps for replays. It is the truth.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::num::NonZeroU32;

use kv_index::{BlockName, ContentHash, Digest, Namespace, Scheme};
use rmp::encode as msgpack;

use crate::random::Random;

/// A rank of an engine, over all its lives.
#[derive(Debug)]
pub(crate) struct Engine {
    rank: u32,
    /// Announces a clear first of all in each life, as SGLang does.
    clears_at_start: bool,
    /// Batches kept for replays.
    window: usize,
    /// Copies of each block, by its path.
    held: BTreeMap<Vec<u8>, u32>,
    pub(crate) kept: VecDeque<Published>,
    next: u64,
    published: u32,
    life: u32,
    /// How it stood after each batch, by the batch's number over all lives.
    history: HashMap<u32, Past>,
    contents: Vec<ContentHash>,
}

/// What was held after a batch, and in which life.
#[derive(Debug)]
struct Past {
    digest: Digest,
    names: BTreeSet<BlockName>,
    life: u32,
}

/// A published batch.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) sequence: u64,
    pub(crate) payload: Vec<u8>,
    pub(crate) clears: bool,
    /// A part of it cannot be read.
    pub(crate) corrupt: bool,
}

enum Told {
    Stored { path: Vec<u8>, from: usize },
    Removed(Vec<u8>),
    Cleared,
}

impl Engine {
    pub(crate) fn new(rank: u32, clears_at_start: bool, window: usize) -> Self {
        let scheme = Scheme::plain(NonZeroU32::new(BLOCK_TOKENS).expect("not 0"));
        let contents = (0..WORDS).flat_map(|word| {
            let mut hashed = Vec::new();
            scheme.hash_prompt(Namespace::default(), &tokens_of(word), &mut hashed);
            hashed
        });
        let contents = contents.collect();
        let (held, kept, history) = (BTreeMap::new(), VecDeque::new(), HashMap::new());
        Self { rank, clears_at_start, window, held, kept, next: 0, published: 0, life: 0, history, contents }
    }

    /// Another life begins, with an empty cache.
    pub(crate) fn restart(&mut self) -> Option<Published> {
        self.held.clear();
        self.kept.clear();
        self.next = 0;
        self.life += 1;
        self.clears_at_start.then(|| self.publish(&[Told::Cleared]))
    }

    /// Some work: blocks are stored, copied and evicted, and one batch tells of it.
    pub(crate) fn work(&mut self, random: &mut Random) -> Published {
        let mut told = Vec::new();
        for _ in 0..=random.below(3) {
            if random.below(5) < 3 { self.serve(random, &mut told) } else { self.evict(random, &mut told) }
        }
        self.publish(&told)
    }

    /// The whole cache is emptied.
    pub(crate) fn clear(&mut self) -> Published {
        self.held.clear();
        self.publish(&[Told::Cleared])
    }

    /// A number is used for a batch that is never sent, as for one that could not be encoded.
    pub(crate) fn skip_numbers(&mut self, count: u64) {
        self.next += count;
    }

    /// Some work of which the batch cannot be read to its end.
    pub(crate) fn corrupt_work(&mut self, random: &mut Random) -> Published {
        let mut batch = self.work(random);
        batch.payload.truncate(1 + random.index(batch.payload.len() - 2));
        batch.corrupt = true;
        if let Some(kept) = self.kept.back_mut() {
            kept.clone_from(&batch);
        }
        batch
    }

    /// Whether it has used a number in this life.
    pub(crate) fn has_published(&self) -> bool {
        self.next > 0
    }

    /// What it holds now.
    pub(crate) fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        for path in self.held.keys() {
            let position = u32::try_from(path.len() - 1).expect("paths are short");
            digest.add(position, self.contents[usize::from(path[path.len() - 1])], name(path));
        }
        digest
    }

    /// What was held after the batch `number` of all lives.
    pub(crate) fn digest_after(&self, number: u32) -> Digest {
        self.history[&number].digest
    }

    /// Whether `name` was held after the batch `number` of all lives.
    pub(crate) fn held_after(&self, number: u32, name: BlockName) -> bool {
        self.history[&number].names.contains(&name)
    }

    /// Whether the batch `number` of all lives is of this life.
    pub(crate) fn is_of_this_life(&self, number: u32) -> bool {
        self.history[&number].life == self.life
    }

    /// Whether there is anything that it could replay.
    pub(crate) fn keeps_some(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Whether what it keeps tells all that it holds: from its first batch, or from a clear, legibly and without a hole.
    pub(crate) fn keeps_all(&self) -> bool {
        let starts = |batch: &Published| batch.sequence == 0 || batch.clears;
        let Some(start) = self.kept.iter().rposition(starts) else { return self.next == 0 };
        let told = self.kept.iter().skip(start).filter(|batch| !batch.corrupt);
        self.next - self.kept[start].sequence == told.count() as u64
    }

    fn serve(&mut self, random: &mut Random, told: &mut Vec<Told>) {
        let path: Vec<u8> = (0..=random.below(3)).map(|_| u8::try_from(random.below(u64::from(WORDS))).expect("few")).collect();
        let present = (1..=path.len()).take_while(|&len| self.held.contains_key(&path[..len])).count();
        // Now and then a block that is there is computed again: a second physical copy.
        let from = if random.once_in(4) { present.saturating_sub(1) } else { present };
        if from < path.len() {
            (from + 1..=path.len()).for_each(|len| *self.held.entry(path[..len].to_vec()).or_default() += 1);
            told.push(Told::Stored { path, from });
        }
    }

    fn evict(&mut self, random: &mut Random, told: &mut Vec<Told>) {
        if self.held.is_empty() {
            return;
        }
        let path = self.held.keys().nth(random.index(self.held.len())).expect("within").clone();
        let copies = self.held.get_mut(&path).expect("just found");
        *copies -= 1;
        if *copies == 0 {
            self.held.remove(&path);
        }
        told.push(Told::Removed(path));
    }

    fn publish(&mut self, told: &[Told]) -> Published {
        self.published += 1;
        let names = self.held.keys().map(|path| name(path)).collect();
        self.history.insert(self.published, Past { digest: self.digest(), names, life: self.life });
        let clears = told.iter().any(|event| matches!(event, Told::Cleared));
        let published = Published { sequence: self.next, payload: self.encode(told), clears, corrupt: false };
        self.next += 1;
        self.kept.push_back(published.clone());
        if self.kept.len() > self.window {
            self.kept.pop_front();
        }
        published
    }

    /// As vLLM 0.14 does: tag-first arrays. The time of publication is the batch's number over all lives: one knows it again.
    fn encode(&self, told: &[Told]) -> Vec<u8> {
        let mut out = Vec::new();
        array(&mut out, 3);
        msgpack::write_f64(&mut out, f64::from(self.published)).expect("to memory");
        array(&mut out, told.len());
        told.iter().for_each(|event| encode_event(&mut out, event));
        number(&mut out, u64::from(self.rank));
        out
    }
}

fn encode_event(out: &mut Vec<u8>, event: &Told) {
    match event {
        Told::Stored { path, from } => {
            array(out, 8);
            text(out, "BlockStored");
            array(out, path.len() - from);
            (from + 1..=path.len()).for_each(|len| number(out, name(&path[..len]).0));
            if *from > 0 {
                number(out, name(&path[..*from]).0);
            } else {
                nil(out);
            }
            let tokens: Vec<u32> = path[*from..].iter().flat_map(|&word| tokens_of(word)).collect();
            array(out, tokens.len());
            tokens.iter().for_each(|&token| number(out, u64::from(token)));
            number(out, u64::from(BLOCK_TOKENS));
            nil(out);
            text(out, "GPU");
            nil(out);
        }
        Told::Removed(path) => {
            array(out, 3);
            text(out, "BlockRemoved");
            array(out, 1);
            number(out, name(path).0);
            text(out, "GPU");
        }
        Told::Cleared => {
            array(out, 1);
            text(out, "AllBlocksCleared");
        }
    }
}

fn array(out: &mut Vec<u8>, len: usize) {
    msgpack::write_array_len(out, u32::try_from(len).expect("short")).expect("to memory");
}

fn number(out: &mut Vec<u8>, value: u64) {
    msgpack::write_uint(out, value).expect("to memory");
}

fn text(out: &mut Vec<u8>, value: &str) {
    msgpack::write_str(out, value).expect("to memory");
}

fn nil(out: &mut Vec<u8>) {
    msgpack::write_nil(out).expect("to memory");
}

/// An engine's hash of a block: of its whole path. FNV-1a.
fn name(path: &[u8]) -> BlockName {
    BlockName(
        path.iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &word| (hash ^ u64::from(word) ^ 0x100).wrapping_mul(0x100_0000_01b3)),
    )
}

fn tokens_of(word: u8) -> [u32; BLOCK_TOKENS as usize] {
    [u32::from(word) * 10, u32::from(word) * 10 + 1]
}

const BLOCK_TOKENS: u32 = 2;
/// Different blocks of tokens.
const WORDS: u8 = 3;
