//! Fetching where an event's names are, or would be, before they are looked at.

use super::own::Key;
use super::state::Writer;
use crate::{Block, BlockName};

/// Names that are fetched at a time. A tight loop of them: where a page has to be looked up first, a processor gets on with as many
/// as it sees at once.
pub(super) const BURST: usize = 16;

/// Names of a short event, all of which are fetched before anything else is done. Those of a long one are fetched when it is known
/// that they are looked for: its misses wait for each other little.
const SHORT: usize = BURST;

/// How far the names of a store's blocks were fetched. Lines come while others are written, also of those places that the next
/// segment will have.
#[derive(Debug)]
pub(crate) struct NamesAhead {
    /// Blocks, from the first.
    fetched: usize,
    /// Of the last of them, what the tables take for their names: that of a block in the slot of its number, around. Right as long as
    /// blocks are asked for in order, all of one store, and the worker's naming does not change meanwhile.
    hashes: [u64; 2 * BURST],
}

impl NamesAhead {
    /// Of a store of `blocks`, or of more behind them that have no names. If there are few, fetches them all.
    #[inline]
    pub(crate) fn of(writer: &Writer<'_>, blocks: &[Block]) -> Self {
        let mut ahead = Self { fetched: 0, hashes: [0; 2 * BURST] };
        if blocks.len() <= SHORT {
            // One by one, a name that is in the next line would be waited for.
            ahead.fetch_to::<2>(writer, blocks, blocks.len());
        }
        ahead
    }

    /// What the tables take for the name of the block `at`; it is fetched, and so are those after it.
    #[inline]
    pub(super) fn hash(&mut self, writer: &Writer<'_>, blocks: &[Block], at: usize) -> u64 {
        self.fetch(writer, blocks, at);
        let hash = self.hashes[at % (2 * BURST)];
        debug_assert_eq!(blocks[at].name.map(|name| writer.name_word(name)), Some(hash), "blocks are asked for in order");
        hash
    }

    /// Fetches the lines of the names of the block `at` and of those after it, if it is time to.
    #[inline]
    pub(super) fn fetch(&mut self, writer: &Writer<'_>, blocks: &[Block], at: usize) {
        if self.fetched <= at + BURST / 2 && self.fetched < blocks.len() {
            self.fetch_burst(writer, blocks, at);
        }
    }

    fn fetch_burst(&mut self, writer: &Writer<'_>, blocks: &[Block], at: usize) {
        self.fetched = self.fetched.max(at);
        self.fetch_to::<1>(writer, blocks, (self.fetched + BURST).min(at + 2 * BURST).min(blocks.len()));
    }

    /// Fetches the lines of a short event's names from the block `at` on once more, right before they are looked at. What was fetched
    /// first may have come to nothing, as where its page had to be looked up; without this, a store of a few blocks takes a tenth longer
    /// on the machine of the records.
    #[inline]
    pub(super) fn fetch_again(&self, writer: &Writer<'_>, blocks: &[Block], at: usize) {
        if blocks.len() > SHORT {
            return;
        }
        let naming = &writer.state.naming;
        let fetched = at..self.fetched.min(blocks.len()).max(at);
        for (block, &hash) in blocks[fetched.clone()].iter().zip(&self.hashes[fetched]) {
            match block.name {
                None => {}
                Some(_) if naming.private => naming.own.prefetch(Key::of_word(hash)),
                Some(_) => writer.core.names.prefetch::<1>(hash),
            }
        }
    }

    #[inline]
    fn fetch_to<const LINES: usize>(&mut self, writer: &Writer<'_>, blocks: &[Block], end: usize) {
        let begun = self.fetched.min(end);
        for (nth, block) in (begun..).zip(&blocks[begun..end]) {
            if let Some(name) = block.name {
                self.hashes[nth % (2 * BURST)] = writer.fetch_name::<LINES>(name);
            }
        }
        self.fetched = self.fetched.max(end);
    }
}

impl Writer<'_> {
    /// Fetches the names that an event takes out, if it is short.
    #[inline]
    pub(crate) fn fetch_names(&self, names: &[BlockName]) {
        if names.len() <= SHORT {
            names.iter().for_each(|&name| _ = self.fetch_name::<2>(name));
        }
    }

    /// Fetches where a name is, or would be, in the table that it belongs to: so many lines of a shared one. What that table takes
    /// for it.
    #[inline]
    pub(super) fn fetch_name<const LINES: usize>(&self, name: BlockName) -> u64 {
        let word = self.name_word(name);
        if self.state.naming.private {
            self.state.naming.own.prefetch(Key::of_word(word));
        } else {
            self.core.names.prefetch::<LINES>(word);
        }
        word
    }

    /// What the table that a name belongs to takes for it.
    #[inline]
    fn name_word(&self, BlockName(name): BlockName) -> u64 {
        let naming = &self.state.naming;
        if naming.private { naming.own.key(name).word() } else { self.core.names.hash(name) }
    }
}
