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
pub(crate) struct Ahead {
    /// Blocks, from the first.
    fetched: usize,
    /// Of the last of them, what the tables take for their names.
    hashes: [u64; 2 * BURST],
}

impl Ahead {
    /// Of a store of `blocks`.
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
        if self.fetched <= at + BURST / 2 && self.fetched < blocks.len() {
            self.fetch(writer, blocks, at);
        }
        self.hashes[at % (2 * BURST)]
    }

    /// Fetches the lines of the names of the block `at` and of those after it.
    pub(super) fn fetch(&mut self, writer: &Writer<'_>, blocks: &[Block], at: usize) {
        self.fetched = self.fetched.max(at);
        self.fetch_to::<1>(writer, blocks, (self.fetched + BURST).min(at + 2 * BURST).min(blocks.len()));
    }

    /// Fetches the lines of a short event's names from the block `at` on once more, right before they are looked at. What was fetched
    /// first may have come to nothing, as where its page had to be looked up; without this, a store of a few blocks takes a tenth longer
    /// on the machine of the records.
    #[inline]
    pub(super) fn fetch_again(&self, writer: &Writer<'_>, blocks: &[Block], at: usize) {
        if blocks.len() <= SHORT {
            let naming = &writer.state.naming;
            for &hash in &self.hashes[at..blocks.len()] {
                if naming.private {
                    naming.own.prefetch(Key::of_word(hash));
                } else {
                    writer.core.names.prefetch::<1>(hash);
                }
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
    pub(super) fn fetch_name<const LINES: usize>(&self, BlockName(name): BlockName) -> u64 {
        let naming = &self.state.naming;
        if naming.private {
            let key = naming.own.key(name);
            naming.own.prefetch(key);
            return key.word();
        }
        let hash = self.core.names.hash(name);
        self.core.names.prefetch::<LINES>(hash);
        hash
    }
}
