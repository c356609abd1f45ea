//! What any sequence of calls makes of the chain index.

use std::collections::HashMap;

use kv_index::testing::{Driver, Op, assert_same};
use kv_index::{Block, BlockName, ChainIndex, ChainOptions, ContentHash, Index, ReferenceIndex, Sharded};
use xxhash_rust::xxh3::xxh3_64;

/// The chain index answers every call as the reference does, and holds the same after it; and so do two shards of each.
pub fn index_vs_reference(data: &[u8]) {
    let Some((&first, calls)) = data.split_first() else { return };
    if first % 4 == 3 {
        let shards = [ReferenceIndex::new(), ReferenceIndex::new()];
        let ours = Sharded::new(vec![chain(), chain()]).expect("two shards are few");
        compare(calls, ours, Sharded::new(shards.into()).expect("two shards are few"));
    } else {
        compare(calls, chain(), ReferenceIndex::new());
    }
}

fn chain() -> ChainIndex {
    ChainIndex::with_options(&ChainOptions { seed: Some([1, 2]), ..ChainOptions::default() })
}

fn compare(calls: &[u8], ours: impl Index, theirs: impl Index) {
    let (mut ours, mut theirs) = (Driver::new(ours), Driver::new(theirs));
    let mut caller = Caller::new(calls);
    let ops = std::iter::from_fn(|| caller.op()).take(OPS_MAX);
    for (nth, op) in ops.enumerate() {
        assert_eq!(ours.apply(&op), theirs.apply(&op), "call {nth}: {op:?}");
        if !matches!(op, Op::Find { .. }) {
            assert_same(ours.index(), theirs.index());
        }
    }
}

/// Calls of one run: what is held grows with them, and all of it is compared after each.
const OPS_MAX: usize = 100;
/// Workers at a time.
const SEATS: u8 = 4;
/// Views of a worker.
const VIEWS: u8 = 3;
/// Blocks of a stretch, enough for the third segment.
const STRETCH: u8 = 140;

/// Turns bytes into calls that have to do with each other.
struct Caller<'a> {
    bytes: std::slice::Iter<'a, u8>,
    /// Names in the order in which they were first stored.
    names: Vec<BlockName>,
    /// Each name's path as it was last stored.
    paths: HashMap<BlockName, Vec<ContentHash>>,
}

impl<'a> Caller<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.iter(), names: Vec::new(), paths: HashMap::new() }
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes.next().copied()
    }

    fn op(&mut self) -> Option<Op> {
        let call = self.byte()?;
        let (seat, view) = (usize::from(call >> 4 & (SEATS - 1)), (call >> 6) % VIEWS);
        Some(match call & 0xf {
            0 | 1 => Op::Add { views: 1 + view },
            2 => Op::Drop { seat },
            3 => Op::Clear { seat, view: (view > 0).then(|| view - 1) },
            4..9 => self.store(seat, view)?,
            9..13 => Op::Remove { seat, view, names: self.removal()? },
            _ => Op::Find { request: self.request()? },
        })
    }

    fn store(&mut self, seat: usize, view: u8) -> Option<Op> {
        let parent = match self.byte()? {
            0..40 => None,
            // Nobody's, so far.
            40 => Some(BlockName(40)),
            nth => self.name(nth),
        };
        let contents = self.contents()?;
        let naming = self.byte()?;
        let mut path = parent.and_then(|parent| self.paths.get(&parent).cloned()).unwrap_or_default();
        let mut blocks = Vec::new();
        for content in contents {
            path.push(content);
            let name = self.new_name(naming, seat, parent, &path)?;
            if let Some(name) = name {
                self.note(name, &path);
            }
            blocks.push(Block { name, content });
        }
        Some(Op::Store { seat, view, parent, blocks })
    }

    /// What a block is called, if it is: as everybody does, as the worker does, or anything. None when the bytes end.
    #[expect(clippy::option_option, reason = "bytes may end, and a block may have no name")]
    fn new_name(
        &mut self,
        naming: u8,
        seat: usize,
        parent: Option<BlockName>,
        path: &[ContentHash],
    ) -> Option<Option<BlockName>> {
        let bytes = || path.iter().flat_map(|content| content.0.to_le_bytes());
        let agreed = |own: &[u8]| Some(BlockName(xxh3_64(&bytes().chain(own.iter().copied()).collect::<Vec<_>>())));
        Some(match naming % 8 {
            0..4 => agreed(&[]),
            4 => agreed(&[naming]),
            5 => agreed(&[u8::try_from(seat).expect("few seats")]),
            _ => match self.byte()? {
                0..32 => None,
                32..48 => parent,
                48..96 => agreed(&[]),
                nth @ 96..160 => self.name(nth),
                name => Some(BlockName(u64::from(name % 16))),
            },
        })
    }

    fn note(&mut self, name: BlockName, path: &[ContentHash]) {
        if self.paths.insert(name, path.to_vec()).is_none() {
            self.names.push(name);
        }
    }

    /// One of the names that were stored.
    fn name(&self, nth: u8) -> Option<BlockName> {
        let at = self.position(nth)?;
        self.names.get(at).copied()
    }

    /// Where such a name is among them: any of the first, or far behind.
    fn position(&self, nth: u8) -> Option<usize> {
        (usize::from(nth) * 7).checked_rem(self.names.len())
    }

    /// A few contents that occur everywhere, or a stretch.
    fn contents(&mut self) -> Option<Vec<ContentHash>> {
        let count = self.byte()?;
        if count >= 0xc0 {
            let length = self.byte()? % STRETCH;
            return Some((0..length).map(|nth| ContentHash(u64::from(count) << 8 | u64::from(nth))).collect());
        }
        (0..count % 8).map(|_| self.byte().map(|content| ContentHash(u64::from(content % 4)))).collect()
    }

    /// Names one by one, or those of a stretch from either end.
    fn removal(&mut self) -> Option<Vec<BlockName>> {
        let count = self.byte()?;
        if count < 0x80 {
            return (0..count % 8).map(|_| self.byte().map(|nth| self.name(nth).unwrap_or(BlockName(nth.into())))).collect();
        }
        let (from, length) = (self.position(self.bytes.as_slice().first().copied()?), self.bytes.nth(1).copied()?);
        let stretch = self.names.iter().skip(from.unwrap_or(0)).take(usize::from(length)).copied();
        let mut names: Vec<_> =
            if count & 1 == 0 { stretch.collect() } else { stretch.step_by(2 + usize::from(count & 2)).collect() };
        if count & 4 == 0 {
            names.reverse();
        }
        Some(names)
    }

    /// Some name's path, cut or gone on from, or any contents.
    fn request(&mut self) -> Option<Vec<ContentHash>> {
        let nth = self.byte()?;
        let path = self.name(nth).and_then(|name| self.paths.get(&name)).cloned().unwrap_or_default();
        let kept = path.len() - path.len().min(usize::from(nth % 4));
        Some(path[..kept].iter().copied().chain(self.contents()?).collect())
    }
}

#[cfg(test)]
mod tests {
    use kv_index::testing::Answer;
    use kv_index::{Removed, Stored};

    use super::*;

    /// So that the replay does not only replay refusals.
    #[test]
    fn calls_of_the_corpus_meet_every_outcome() {
        let (mut stored, mut removed, mut refused, mut deepest) = (Vec::new(), Vec::new(), 0, 0);
        for entry in std::fs::read_dir("corpus/index_vs_reference").unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            let mut index = Driver::new(ReferenceIndex::new());
            let mut caller = Caller::new(bytes.get(1..).unwrap_or_default());
            while let Some(op) = caller.op() {
                match index.apply(&op) {
                    Answer::Stored(Ok(outcomes)) => stored.extend(outcomes),
                    Answer::Stored(Err(_)) => refused += 1,
                    Answer::Removed(outcomes) => removed.extend(outcomes),
                    Answer::Found(matches, _) => deepest = matches.iter().map(|row| row.depth).max().unwrap_or(0).max(deepest),
                    _ => {}
                }
            }
        }
        for outcome in [Stored::New, Stored::AlreadyHeld, Stored::Moved, Stored::Step] {
            assert!(stored.contains(&outcome), "{outcome:?}");
        }
        for outcome in [Removed::Removed, Removed::Unknown] {
            assert!(removed.contains(&outcome), "{outcome:?}");
        }
        assert!(refused > 0 && deepest > 128, "{refused} refused, {deepest} deep");
    }
}
