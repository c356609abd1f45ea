//! What must hold of every single lookup, because it is so all the time: checked at once, and so of millions of them.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use kv_index::{Block, BlockName, ChainIndex, ChainWorker, ContentHash, Index, Matches, Runs, View, Worker};

use crate::{READERS, WRITERS, chain, seeds};

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

/// Runs `write` on so many threads, and `read` again and again beside them, each with the number of its thread and its turn.
fn beside(writers: usize, write: impl Fn(usize) + Sync, read: impl Fn(usize, u64) + Sync) {
    let (done, lookups) = (AtomicBool::new(false), AtomicU64::new(0));
    let read = |nth: usize| {
        for turn in (0..).take_while(|_| !done.load(Ordering::Relaxed)) {
            read(nth, turn);
            lookups.fetch_add(1, Ordering::Relaxed);
        }
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
    assert!(lookups.into_inner() > 0);
}

/// Everybody holds the head. Each writer's tail is its own, and all of them meet in the places behind the head: cut off by one,
/// written over by the next. A tail must never be taken for another worker's.
#[test]
fn a_tail_is_only_ever_its_owners() {
    const HEAD: u32 = 5;
    const TAIL: u64 = 40;
    let head = blocks(0..u64::from(HEAD));
    let tail = |writer: usize| blocks(1_000 * (writer as u64 + 1)..1_000 * (writer as u64 + 1) + TAIL);
    for _ in seeds() {
        let index = chain();
        let mut all: Vec<ChainWorker> = (0..=WRITERS).map(|_| index.add_worker().unwrap()).collect();
        all.iter_mut().for_each(|worker| store(worker, None, &head));
        let ids: Vec<_> = all.iter().map(Worker::id).collect();
        let workers: Vec<_> = all.into_iter().map(|worker| std::sync::Mutex::new(Some(worker))).collect();
        let write = |nth: usize| {
            let mut worker = workers[nth].lock().unwrap().take().unwrap();
            let tail = tail(nth);
            for round in 0..1_500 {
                let len = 1 + (round * 7 + nth) % tail.len();
                store(&mut worker, head.last().unwrap().name, &tail[..len]);
                if round % 3 == 0 { remove(&mut worker, &tail) } else { remove(&mut worker, tail.iter().rev()) }
            }
            *workers[nth].lock().unwrap() = Some(worker);
        };
        let read = |nth: usize, turn: u64| {
            let owner = (nth + usize::try_from(turn).unwrap() * 5) % WRITERS;
            let request = contents(&[&head[..], &tail(owner)].concat());
            let (mut matches, mut runs) = (Matches::new(), Runs::new());
            index.find(&request, &mut matches);
            for &id in &ids {
                let depth = matches.depth(id, View::MAIN);
                assert!(depth == HEAD || (id == ids[owner] && depth > HEAD), "{id} at {depth}, asked for {}", ids[owner]);
            }
            assert_eq!(matches.iter().count(), ids.len());
            let other = ids[(owner + 1) % ids.len()];
            index.coverage(other, View::MAIN, &request, &mut runs);
            assert_eq!((runs.as_slice(), index.depth(other, View::MAIN, &request)), (&[0..HEAD][..], HEAD));
        };
        beside(WRITERS, write, read);
    }
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
        let mut steady: Vec<ChainWorker> = (0..4).map(|_| index.add_worker().unwrap()).collect();
        steady.iter_mut().for_each(|worker| store(worker, None, &prompt));
        steady[2..].iter_mut().for_each(|worker| remove(worker, &prompt[HOLE as usize..=HOLE as usize]));
        let write = |nth: usize| {
            for round in 0..25 {
                come_and_go(&index, &prompt, 20 + (nth + round * 13) % 80);
            }
        };
        let read = |nth: usize, turn: u64| {
            let (mut matches, mut runs) = (Matches::new(), Runs::new());
            index.find(&request, &mut matches);
            let which = (nth + usize::try_from(turn).unwrap()) % 4;
            let id = steady[which].id();
            index.coverage(id, View::MAIN, &request, &mut runs);
            let (depth, covered) = if which < 2 { (LEN, vec![0..LEN]) } else { (HOLE, vec![0..HOLE, HOLE + 1..LEN]) };
            assert_eq!((matches.depth(id, View::MAIN), runs.as_slice()), (depth, &covered[..]), "{id}");
            assert_eq!(matches.iter().filter(|row| row.worker == id).count(), 1);
        };
        beside(2, write, read);
    }
}

/// So many workers hold the prompt, some in a further view and some with a hole, and leave again.
fn come_and_go(index: &ChainIndex, prompt: &[Block], count: usize) {
    let mut crowd: Vec<ChainWorker> = (0..count).map(|_| index.add_worker().unwrap()).collect();
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
        let read = |nth: usize, turn: u64| {
            let block = steady[(nth + usize::try_from(turn).unwrap() * 7) % steady.len()];
            let mut matches = Matches::new();
            index.find(&[block.content], &mut matches);
            assert_eq!(matches.depth(holder.id(), View::MAIN), 1, "{block:?}");
            assert_eq!(index.depth(holder.id(), View::MAIN, &[block.content]), 1);
        };
        beside(4, write, read);
    }
}
