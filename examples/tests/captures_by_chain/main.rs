//! Recordings of real engines through decoding, admission, normalization and copy counting into the chain index and the reference
//! at once: equal after every batch.

mod pair;

use std::fs;
use std::path::{Path, PathBuf};

use kv_events::StreamOptions;
use kv_examples::capture::file::Recording;
use kv_examples::capture::replayer::Replayer;
use kv_index::limits::VIEWS_MAX;
use kv_index::testing::assert_same;
use kv_index::{ContentHash, Index, Matches, Runs, View};

use self::pair::Pair;

/// Older chains that are looked up after each batch beside the batch's own: all, in nearly every recording, and of very long ones
/// another part each time.
const OLD_CHAINS: usize = 200;

/// What a recording put to the test.
#[derive(Debug, Default)]
struct Tally {
    batches: usize,
    lookups: usize,
    /// Rows that lookups found.
    rows: usize,
}

fn recordings(folder: &str) -> Option<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "bin"));
    files.sort();
    Some(files)
}

/// What is asked about a chain: the whole, its first half, with its middle block replaced, with its tail replaced and extended.
fn questions(chain: &[ContentHash]) -> [Vec<ContentHash>; 4] {
    let half = chain.len() / 2;
    let (mut middle, mut tail) = (chain.to_vec(), chain[..chain.len() - chain.len().div_ceil(4)].to_vec());
    if let Some(block) = middle.get_mut(half) {
        block.0 ^= 0x5a5a;
    }
    tail.extend((0..chain.len().div_ceil(4) as u64 + 3).map(|block| ContentHash(!block)));
    [chain.to_vec(), chain[..half].to_vec(), middle, tail]
}

impl Tally {
    /// Asks both indexes about `request` and compares the answers.
    fn ask(&mut self, pair: &Pair, request: &[ContentHash], views: u8) {
        let (mut chain, mut reference) = (Matches::new(), Matches::new());
        pair.chain.find(request, &mut chain);
        pair.reference.find(request, &mut reference);
        let rows = |matches: &Matches| {
            let mut rows: Vec<_> = matches.iter().map(|row| (row.depth, row.worker, row.view)).collect();
            rows.sort_unstable();
            rows
        };
        assert_eq!(rows(&chain), rows(&reference));
        self.lookups += 1;
        self.rows += rows(&chain).len();
        let (mut runs, mut expected) = (Runs::new(), Runs::new());
        for worker in pair.reference.workers() {
            for view in (0..views).map(View) {
                pair.chain.coverage(worker, view, request, &mut runs);
                pair.reference.coverage(worker, view, request, &mut expected);
                assert_eq!(runs.as_slice(), expected.as_slice());
                assert_eq!(pair.chain.depth(worker, view, request), expected.depth());
            }
        }
    }

    /// Asks about the chains from number `fresh` on, and about `OLD_CHAINS` of those before.
    fn ask_all(&mut self, pair: &Pair, fresh: usize) {
        let views = pair.reference.workers().iter().map(|&worker| views(pair, worker)).max().unwrap_or(0);
        let first = self.batches * OLD_CHAINS;
        let old = (0..fresh.min(OLD_CHAINS)).map(|nth| (first + nth) % fresh);
        for number in old.chain(fresh..pair.chains.len()) {
            for request in questions(&pair.chains.at(number)) {
                self.ask(pair, &request, views);
            }
        }
    }
}

/// One more than the last view that holds something.
fn views(pair: &Pair, worker: kv_index::WorkerId) -> u8 {
    let holds = |view: &u8| pair.reference.digest(worker, View(*view)).count > 0;
    (0..VIEWS_MAX).rev().find(holds).map_or(1, |view| view + 1)
}

fn replay(file: &Path) -> Tally {
    let recording = Recording::read(file).unwrap();
    let options = StreamOptions { device_views: true, ..StreamOptions::default() };
    let mut replayer = Replayer::over(Pair::default(), &recording.messages, options).unwrap();
    let mut tally = Tally::default();
    for message in &recording.messages {
        let fresh = replayer.index().chains.len();
        replayer.apply(message);
        tally.batches += 1;
        tally.ask_all(replayer.index(), fresh);
    }
    if let Some(text) = &recording.trtllm {
        let fresh = replayer.index().chains.len();
        replayer.apply_drain(text, options).unwrap();
        tally.ask_all(replayer.index(), fresh);
    }
    assert_same(&replayer.index().chain, &replayer.index().reference);
    tally
}

fn replay_all(files: &[PathBuf]) -> Tally {
    let mut all = Tally::default();
    for file in files {
        println!("{}", file.display());
        let tally = replay(file);
        all.batches += tally.batches;
        all.lookups += tally.lookups;
        all.rows += tally.rows;
    }
    all
}

#[test]
fn the_repositorys_recordings_leave_both_indexes_alike_after_every_batch() {
    let tally = replay_all(&recordings("kv-events/tests/data/captures").expect("they stand in the repository"));
    println!("{tally:?}");
    assert!(tally.batches > 300 && tally.lookups > 10_000 && tally.rows > 5_000, "{tally:?}");
}

#[test]
fn all_recordings_leave_both_indexes_alike_after_every_batch() {
    match recordings("../shared/data/captures") {
        Some(files) => println!("{} recordings: {:?}", files.len(), replay_all(&files)),
        None => println!("skipped: ../shared/data/captures is not here"),
    }
}
