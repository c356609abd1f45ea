//! What must hold of every single lookup, because it is so all the time: checked at once, and so of millions of them.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use kv_index::{Block, BlockName, ChainIndex, ChainWorker, ContentHash, Index, Matches, Runs, View, Worker, WorkerId};

use crate::{READERS, chain, seeds};

/// Blocks whose content is their name.
fn blocks(names: Range<u64>) -> Vec<Block> {
    names.map(|name| Block::named(BlockName(name), ContentHash(name))).collect()
}

fn contents(blocks: &[Block]) -> Vec<ContentHash> {
    blocks.iter().map(|block| block.content).collect()
}

fn store(worker: &mut impl Worker, parent: Option<BlockName>, blocks: &[Block]) {
    worker.store(View::MAIN, parent, blocks, &mut Vec::new()).unwrap();
}

fn remove<'a>(worker: &mut impl Worker, blocks: impl IntoIterator<Item = &'a Block>) {
    let names: Vec<BlockName> = blocks.into_iter().filter_map(|block| block.name).collect();
    worker.remove(View::MAIN, &names, &mut Vec::new());
}

/// What a reader looks things up with, again and again.
#[derive(Default)]
struct Reader {
    matches: Matches,
    runs: Runs,
}

impl Reader {
    fn find(&mut self, index: &ChainIndex, request: &[ContentHash]) -> &Matches {
        index.find(request, &mut self.matches);
        &self.matches
    }

    fn coverage(&mut self, index: &ChainIndex, worker: WorkerId, request: &[ContentHash]) -> &[Range<u32>] {
        index.coverage(worker, View::MAIN, request, &mut self.runs);
        self.runs.as_slice()
    }
}

/// Runs `write` on so many threads, and `read` again and again beside them, with the number of its turn.
fn beside(writers: usize, write: impl Fn(usize) + Sync, read: impl Fn(&mut Reader, usize) + Sync) {
    let (done, lookups) = (AtomicBool::new(false), AtomicUsize::new(0));
    let read = |nth: usize| {
        let mut reader = Reader::default();
        let turns = (nth..).take_while(|_| !done.load(Ordering::Relaxed));
        lookups.fetch_add(turns.map(|turn| read(&mut reader, turn)).count(), Ordering::Relaxed);
    };
    thread::scope(|scope| {
        let (read, write) = (&read, &write);
        let readers: Vec<_> = (0..READERS).map(|nth| scope.spawn(move || read(nth))).collect();
        let writers: Vec<_> = (0..writers).map(|nth| scope.spawn(move || write(nth))).collect();
        let ended: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        ended.into_iter().for_each(|writer| writer.unwrap());
    });
    println!("{} lookups", lookups.into_inner());
}

/// A prompt's first segment, full: what follows stands in another.
const FULL: u64 = 64;

fn workers(index: &ChainIndex, count: usize) -> Vec<ChainWorker> {
    (0..count).map(|_| index.add_worker().unwrap()).collect()
}

/// Blocks on two segments, or on one and behind it.
fn joined(head: &[Block], tail: &[Block]) -> Vec<Block> {
    [head, tail].concat()
}

/// What one of a few writers does again and again, independent of the others.
trait Scene: Send + Sync + Sized {
    /// What it writes with.
    type Writer: Send;
    /// How many there are.
    const WRITERS: u64;
    /// So that a run takes a second or so, in a release build.
    const ROUNDS: usize;

    /// The `nth` of them.
    fn new(index: &ChainIndex, nth: u64) -> (Self, Self::Writer);
    fn write(&self, index: &ChainIndex, writer: &mut Self::Writer, round: usize);
    /// Looks up and asserts.
    fn read(&self, index: &ChainIndex, reader: &mut Reader, turn: usize);
}

fn play<S: Scene>() {
    let rounds = if cfg!(debug_assertions) { S::ROUNDS / 20 } else { S::ROUNDS };
    for _ in seeds() {
        let index = chain();
        let (scenes, writers): (Vec<S>, Vec<S::Writer>) = (0..S::WRITERS).map(|nth| S::new(&index, nth)).unzip();
        let writers: Vec<_> = writers.into_iter().map(Mutex::new).collect();
        let write = |nth: usize| {
            let mut writer = writers[nth].lock().unwrap();
            (0..rounds).for_each(|round| scenes[nth].write(&index, &mut writer, round));
        };
        beside(writers.len(), write, |reader, turn| scenes[turn % scenes.len()].read(&index, reader, turn / scenes.len()));
    }
}

/// Many workers hold a head, and two of them in turn a tail behind it that is all its owner's: cut off by one, and written over by
/// the other. A tail must never be taken for the other's.
struct Tails {
    head: Vec<Block>,
    tails: [Vec<Block>; 2],
    /// The head with each tail.
    requests: [Vec<ContentHash>; 2],
    owners: [WorkerId; 2],
}

const HEAD: u64 = 5;
const HOLDERS: usize = 36;

impl Scene for Tails {
    type Writer = Vec<ChainWorker>;
    const WRITERS: u64 = 3;
    const ROUNDS: usize = 60_000;

    fn new(index: &ChainIndex, nth: u64) -> (Self, Vec<ChainWorker>) {
        let head = blocks(1_000 * nth..1_000 * nth + HEAD);
        let tails = [100, 200].map(|tail| blocks(1_000 * nth + tail..1_000 * nth + tail + 40));
        let requests = [0, 1].map(|tail: usize| contents(&joined(&head, &tails[tail])));
        // The owners come last, so that it takes a reader a while to get to them.
        let mut all = workers(index, HOLDERS);
        all.iter_mut().for_each(|worker| store(worker, None, &head));
        let owners = [2, 1].map(|from_last: usize| all[HOLDERS - from_last].id());
        (Self { head, tails, requests, owners }, all)
    }

    fn write(&self, _: &ChainIndex, all: &mut Vec<ChainWorker>, round: usize) {
        let tail = &self.tails[round % 2][..40 - round % 7];
        let owner = &mut all[HOLDERS - 2 + round % 2];
        store(owner, self.head.last().unwrap().name, tail);
        if round.is_multiple_of(3) { remove(owner, tail) } else { remove(owner, tail.iter().rev()) }
    }

    fn read(&self, index: &ChainIndex, reader: &mut Reader, turn: usize) {
        let (request, owner) = (&self.requests[turn % 2], self.owners[turn % 2]);
        let matches = reader.find(index, request);
        let strangers = matches.iter().filter(|row| u64::from(row.depth) > HEAD && row.worker != owner);
        assert_eq!(strangers.collect::<Vec<_>>(), [], "the tail is of {owner}");
        assert_eq!(matches.iter().count(), HOLDERS);
        if turn.is_multiple_of(8) {
            let other = self.owners[(turn + 1) % 2];
            assert_eq!(reader.coverage(index, other, request), [0..HEAD as u32]);
            assert_eq!(u64::from(index.depth(other, View::MAIN, request)), HEAD);
        }
    }
}

#[test]
fn a_tail_is_only_ever_its_owners() {
    play::<Tails>();
}

/// Two chains with one tail of content follow each other in the same memory under the same ids. One worker holds all of the first
/// chain; the other the first segment only, and then all of the second chain. It must never be found behind the first segment of
/// the first.
struct Recycled {
    first: Vec<Block>,
    second: Vec<Block>,
    tail: Vec<Block>,
    /// The first chain and the tail.
    request: Vec<ContentHash>,
    id: WorkerId,
}

impl Scene for Recycled {
    type Writer = [ChainWorker; 2];
    // One: what it frees is what it is given next.
    const WRITERS: u64 = 1;
    const ROUNDS: usize = 20_000;

    fn new(index: &ChainIndex, nth: u64) -> (Self, [ChainWorker; 2]) {
        let chain = |first: u64, len: u64| blocks(10_000 * nth + first..10_000 * nth + first + len);
        let (first, second, tail) = (chain(0, FULL), chain(1_000, FULL), chain(2_000, 10));
        let pair = [index.add_worker().unwrap(), index.add_worker().unwrap()];
        (Self { request: contents(&joined(&first, &tail)), first, second, tail, id: pair[1].id() }, pair)
    }

    fn write(&self, _: &ChainIndex, pair: &mut [ChainWorker; 2], _: usize) {
        store(&mut pair[0], None, &joined(&self.first, &self.tail));
        store(&mut pair[1], None, &self.first);
        remove(&mut pair[0], self.tail.iter().rev().chain(self.first.iter().rev()));
        remove(&mut pair[1], self.first.iter().rev());
        store(&mut pair[1], None, &joined(&self.second, &self.tail));
        pair[1].clear();
    }

    fn read(&self, index: &ChainIndex, reader: &mut Reader, turn: usize) {
        let depth = if turn.is_multiple_of(2) {
            reader.find(index, &self.request).depth(self.id, View::MAIN)
        } else {
            index.depth(self.id, View::MAIN, &self.request)
        };
        assert!(u64::from(depth) <= FULL, "{depth}");
    }
}

#[test]
fn a_recycled_segment_is_never_taken_for_what_it_was() {
    play::<Recycled>();
}

/// A worker covers a chain's first segment, its heir under the same id only what follows. Nobody but a third, steady one ever covers both.
struct Heirs {
    head: Vec<Block>,
    /// Steps along the head, and a tail that is held.
    behind: Vec<Block>,
    request: Vec<ContentHash>,
}

impl Scene for Heirs {
    type Writer = ChainWorker;
    // One: the id that it gives back is the one that it gets.
    const WRITERS: u64 = 1;
    const ROUNDS: usize = 400_000;

    fn new(index: &ChainIndex, nth: u64) -> (Self, ChainWorker) {
        let (head, tail) = (blocks(1_000 * nth..1_000 * nth + FULL), blocks(1_000 * nth + 500..1_000 * nth + 530));
        let mut steady = index.add_worker().unwrap();
        let all = joined(&head, &tail);
        store(&mut steady, None, &all);
        let steps: Vec<Block> = head.iter().map(|block| Block::step(block.content)).collect();
        (Self { behind: joined(&steps, &tail), head, request: contents(&all) }, steady)
    }

    fn write(&self, index: &ChainIndex, _: &mut ChainWorker, _: usize) {
        store(&mut index.add_worker().unwrap(), None, &self.head);
        store(&mut index.add_worker().unwrap(), None, &self.behind);
    }

    fn read(&self, index: &ChainIndex, reader: &mut Reader, _: usize) {
        let matches = reader.find(index, &self.request);
        let whole = matches.iter().filter(|row| u64::from(row.depth) > FULL).count();
        assert_eq!(whole, 1, "{:?}", matches.iter().collect::<Vec<_>>());
        let covered = reader.coverage(index, WorkerId(1), &self.request);
        assert!(covered.iter().all(|run| *run != (0..self.request.len() as u32)), "{covered:?}");
    }
}

#[test]
fn an_heir_is_never_mixed_with_its_former_owner() {
    play::<Heirs>();
}

/// A few hold a prompt all the time, with and without a hole. Crowds of others come and go beside them, so that the holders' words
/// move from the record into lists and tables and back.
#[test]
fn steady_holders_are_found_whatever_moves_around_them() {
    const LEN: u32 = 20;
    const HOLE: u32 = 7;
    let prompt = blocks(0..u64::from(LEN));
    let request = contents(&prompt);
    for _ in seeds() {
        let index = chain();
        let mut steady = workers(&index, 4);
        steady.iter_mut().for_each(|worker| store(worker, None, &prompt));
        steady[2..].iter_mut().for_each(|worker| remove(worker, &prompt[HOLE as usize..=HOLE as usize]));
        let write = |nth: usize| {
            for round in 0..25 {
                come_and_go(&index, &prompt, 20 + (nth + round * 13) % 80);
            }
        };
        let read = |reader: &mut Reader, turn: usize| {
            let id = steady[turn % 4].id();
            let (depth, covered): (_, &[_]) = if turn % 4 < 2 { (LEN, &[0..LEN]) } else { (HOLE, &[0..HOLE, HOLE + 1..LEN]) };
            let found = reader.find(&index, &request);
            assert_eq!(found.iter().filter(|row| row.worker == id).map(|row| row.depth).collect::<Vec<_>>(), [depth], "{id}");
            assert_eq!(reader.coverage(&index, id, &request), covered, "{id}");
        };
        beside(2, write, read);
    }
}

/// So many workers hold the prompt, some in a further view and some with a hole, and leave again.
fn come_and_go(index: &ChainIndex, prompt: &[Block], count: usize) {
    let mut crowd = workers(index, count);
    for (nth, worker) in crowd.iter_mut().enumerate() {
        store(worker, None, prompt);
        if nth % 5 == 0 {
            let view = worker.add_view().unwrap();
            worker.store(view, None, prompt, &mut Vec::new()).unwrap();
        }
        if nth % 7 == 0 {
            remove(worker, &prompt[nth % prompt.len()..]);
        }
    }
}

/// First blocks by the thousand come and go, so that the tables that lead to them grow and shrink. Those that stay are found.
#[test]
fn first_blocks_are_found_while_tables_grow_and_shrink() {
    let steady = blocks(0..500);
    for _ in seeds() {
        let index = chain();
        let mut holder = index.add_worker().unwrap();
        steady.iter().for_each(|block| store(&mut holder, None, std::slice::from_ref(block)));
        let write = |nth: usize| {
            let mut worker = index.add_worker().unwrap();
            for round in 0..3 {
                let first = 1_000_000 * (nth as u64 + 1) + round * 10_000;
                let crowd = blocks(first..first + 6_000);
                crowd.iter().for_each(|block| store(&mut worker, None, std::slice::from_ref(block)));
                remove(&mut worker, &crowd);
            }
        };
        let read = |reader: &mut Reader, turn: usize| {
            let block = steady[turn % steady.len()];
            assert_eq!(reader.find(&index, &[block.content]).depth(holder.id(), View::MAIN), 1, "{block:?}");
            assert_eq!(index.depth(holder.id(), View::MAIN, &[block.content]), 1);
        };
        beside(4, write, read);
    }
}
