//! The order in which a state is told: shelf by shelf, every block after the block above it.
//!
//! Blocks come in the order of their slots, which is mostly the order in which they were stored, and before each come those
//! above it that were not told yet. A block's parent is the nearest block above it that the reader knows by name by then; what
//! lies between is told as steps, since the reader has no name for it: nobody holds it, or only on a slower tier, which the
//! reader may not serve. So nothing waits at the reader, except what waits at the relay too: stores whose parent was never told
//! come last, as they came.
//!
//! A group's blocks may be several units long. A parent that does not lie a whole number of blocks above is passed by, and
//! where none does, the block is told in units: its reader holds it where it stands, and labels the stream as one of mixed schemes.

use std::sync::Arc;

use kv_index::BlockName;

use super::chunk::Filling;
use super::cut::Cut;
use super::run::Run;
use crate::EngineHash;
use crate::limits::CHUNK_UNITS_A_BLOCK;
use crate::namespace::OwnedNamespace;
use crate::relay::live::block::{LiveBlock, ROOT, Shelf};
use crate::relay::live::pages::Slot;

/// How a cut is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) chunks: u64,
    /// Copies, and units, after which a chunk is full.
    pub(super) limits: (u64, u64),
    /// Copies that no event can tell.
    pub(super) untold: u64,
}

/// A walk over a cut.
#[derive(Debug)]
pub(super) struct Listing {
    cut: Arc<Cut>,
    /// Which of the cut's shelves is told.
    shelf: usize,
    next: Slot,
    /// Blocks that the reader knows by name.
    known: Bits,
    /// Blocks told on this shelf.
    told: Bits,
    /// Blocks to be told next, the last one first.
    ahead: Vec<Slot>,
    /// A block that was told, and how many copies of it were not.
    further: Option<(Slot, u16)>,
    /// Which waiting store, from which unit on.
    waiting: (usize, usize),
    untold: u64,
}

/// The way from what the reader knows to a block.
struct Path {
    /// Upwards, the block itself first.
    slots: Vec<Slot>,
    parent: Slot,
    block_units: usize,
}

impl Listing {
    pub(super) fn new(cut: Arc<Cut>) -> Self {
        let (known, told) = (Bits::new(cut.slots()), Bits::new(cut.slots()));
        Self { cut, shelf: 0, next: 0, known, told, ahead: Vec::new(), further: None, waiting: (0, 0), untold: 0 }
    }

    /// Fills a chunk. Whether anything is left to tell.
    pub(super) fn fill(&mut self, chunk: &mut Filling<'_>) -> bool {
        let cut = Arc::clone(&self.cut);
        loop {
            if !self.has_more(&cut) {
                return false;
            }
            if chunk.is_full() {
                return true;
            }
            self.advance(&cut, chunk);
        }
    }

    /// Finds the next block to be told, and whether there is one.
    fn has_more(&mut self, cut: &Cut) -> bool {
        if self.further.is_some() || !self.ahead.is_empty() {
            return true;
        }
        while let Some(&shelf) = cut.shelves.get(self.shelf) {
            while self.next < cut.slots() {
                let slot = self.next;
                self.next += 1;
                if self.is_untold(cut, slot, shelf) {
                    self.look_up(cut, slot, shelf);
                    return true;
                }
            }
            (self.shelf, self.next) = (self.shelf + 1, 0);
            self.told.clear();
        }
        self.find_waiting(cut)
    }

    fn is_untold(&self, cut: &Cut, slot: Slot, shelf: Shelf) -> bool {
        !self.told.has(slot) && cut.block(slot).is_some_and(|block| block.copies.on(shelf) > 0)
    }

    /// Puts `slot` ahead, and above it what is to be told before.
    fn look_up(&mut self, cut: &Cut, slot: Slot, shelf: Shelf) {
        let block_units = cut.language.block_units(shelf.group());
        self.ahead.push(slot);
        let (mut at, mut distance) = (parent_of(cut, slot), 1);
        while at != ROOT && !(self.known.has(at) && usize::is_multiple_of(distance, block_units)) {
            if usize::is_multiple_of(distance, block_units) && self.is_untold(cut, at, shelf) {
                self.ahead.push(at);
                distance = 0;
            }
            (at, distance) = (parent_of(cut, at), distance + 1);
        }
    }

    fn advance(&mut self, cut: &Cut, chunk: &mut Filling<'_>) {
        if let Some((slot, left)) = self.further.take() {
            return self.tell_further(cut, slot, left, chunk);
        }
        let Some(slot) = self.ahead.pop() else { return self.tell_waiting(cut, chunk) };
        let (shelf, Some(block)) = (cut.shelves[self.shelf], cut.block(slot)) else { return };
        self.told.set(slot);
        let copies = block.copies.on(shelf);
        if self.tell(cut, slot, shelf, chunk) {
            self.known.set(slot);
            self.further = (copies > 1).then_some((slot, copies - 1));
        } else {
            self.untold += u64::from(copies);
        }
    }

    /// Tells one copy of the block at `slot`, and the steps to it. Not if no event can.
    fn tell(&self, cut: &Cut, slot: Slot, shelf: Shelf, chunk: &mut Filling<'_>) -> bool {
        let Some(path) = self.path(cut, slot, shelf) else { return false };
        chunk.count(1, path.slots.len() as u64);
        if chunk.writes() {
            Self::write(cut, &path, shelf, chunk);
        }
        true
    }

    fn write(cut: &Cut, path: &Path, shelf: Shelf, chunk: &mut Filling<'_>) {
        let lookahead = cut.language.scheme().map_or(0, |scheme| scheme.lookahead_tokens as usize);
        let blocks: Vec<(Slot, &LiveBlock)> =
            path.slots.iter().rev().filter_map(|&slot| Some((slot, cut.block(slot)?))).collect();
        let (Some(&(first, _)), Some(&(_, last))) = (blocks.first(), blocks.last()) else { return };
        let follows = path.slots.len() == path.block_units
            && chunk.run().as_ref().is_some_and(|run| {
                (run.shelf, run.block_units, run.last) == (shelf, path.block_units, path.parent)
                    && run.namespace.as_ref() == last.namespace()
                    && run.fits(cut.tokens(first), lookahead)
            });
        let run = match chunk.run() {
            Some(_) if follows => chunk.run().as_mut(),
            _ => {
                let parent = cut.block(path.parent).map(|parent| parent.name);
                Some(chunk.open(Run::new(shelf, path.block_units, parent, last.namespace().cloned())))
            }
        };
        let Some(run) = run else { return };
        blocks.iter().for_each(|&(slot, block)| run.push_unit(cut.tokens(slot), block.keys(), lookahead));
        run.list(last.name, path.slots[0]);
    }

    /// The way to the block at `slot`: in blocks of its group if the reader knows a block at their distance, else in units.
    fn path(&self, cut: &Cut, slot: Slot, shelf: Shelf) -> Option<Path> {
        let block_units = cut.language.block_units(shelf.group());
        let in_blocks = self.climb(cut, slot, block_units).filter(|path| path.keys_end_blocks(cut));
        in_blocks.or_else(|| if block_units > 1 { self.climb(cut, slot, 1) } else { None })
    }

    fn climb(&self, cut: &Cut, slot: Slot, block_units: usize) -> Option<Path> {
        let namespace = cut.block(slot)?.namespace();
        let mut path = Path { slots: vec![slot], parent: parent_of(cut, slot), block_units };
        let is_whole = |path: &Path| path.slots.len().is_multiple_of(block_units);
        while let Some(above) = cut.block(path.parent) {
            if self.known.has(path.parent) && is_whole(&path) && !inherits(namespace, above.namespace()) {
                break;
            }
            // One event has one namespace, and its windows overlap.
            if above.namespace() != namespace || !overlap(cut, path.parent, *path.slots.last()?) {
                return None;
            }
            path.slots.push(path.parent);
            path.parent = above.parent;
        }
        is_whole(&path).then_some(path)
    }

    /// Further copies by name, where the reader can know whose they are; else the block once more.
    fn tell_further(&mut self, cut: &Cut, slot: Slot, left: u16, chunk: &mut Filling<'_>) {
        let (shelf, Some(block)) = (cut.shelves[self.shelf], cut.block(slot)) else { return };
        let told = if cut.language.can_announce(shelf.group()) {
            let told = u64::from(left).min(chunk.room());
            chunk.count(told, 0);
            if chunk.writes() {
                chunk.further(shelf, EngineHash::Word(block.name.0), usize::try_from(told).unwrap_or_default());
            }
            u16::try_from(told).unwrap_or(left)
        } else {
            // The way leads from the same parent: the reader knows the block by now, and does not count it as above itself.
            self.tell(cut, slot, shelf, chunk);
            1
        };
        self.further = (left > told).then(|| (slot, left - told));
    }

    /// Moves to the next waiting store with a name that was not told.
    fn find_waiting(&mut self, cut: &Cut) -> bool {
        while let Some(store) = cut.waiting.get(self.waiting.0) {
            if store.blocks[self.waiting.1..].iter().any(|block| block.name.is_some()) {
                return true;
            }
            self.waiting = (self.waiting.0 + 1, 0);
        }
        false
    }

    /// Tells the next names of a waiting store that stand in a row, below the parent for which it waits.
    fn tell_waiting(&mut self, cut: &Cut, chunk: &mut Filling<'_>) {
        let Some(store) = cut.waiting.get(self.waiting.0) else { return };
        let shelf = Shelf::new(store.group, store.tier);
        let lookahead = cut.language.scheme().map_or(0, |scheme| scheme.lookahead_tokens as usize);
        let group_units = cut.language.block_units(store.group);
        let named = |unit: usize| store.blocks[unit].name;
        let units = store.blocks.len();
        let all_aligned = (0..units).all(|unit| named(unit).is_none() || (unit + 1) % group_units == 0);
        let keys_aligned = (0..units).all(|unit| store.detail.keys(unit).is_empty() || (unit + 1) % group_units == 0);
        let block_units = if all_aligned && keys_aligned { group_units } else { 1 };
        let ends = || (0..units).skip(block_units - 1).step_by(block_units);
        let Some(first) = ends().find(|&end| end >= self.waiting.1 && named(end).is_some()) else { return };
        let room = usize::try_from(chunk.room().max(1)).unwrap_or(usize::MAX);
        let listed: Vec<(usize, BlockName)> =
            ends().skip_while(|&end| end < first).map_while(|end| Some((end, named(end)?))).take(room).collect();
        let end = listed.last().map_or(first, |listed| listed.0) + 1;
        chunk.count(listed.len() as u64, end as u64);
        if chunk.writes() {
            let run = chunk.open(Run::new(shelf, block_units, store.parent, store.namespace.clone()));
            (0..end).for_each(|unit| run.push_unit(store.detail.tokens(unit), store.detail.keys(unit), lookahead));
            listed.iter().for_each(|&(_, name)| run.list(name, ROOT));
        }
        self.waiting.1 = end;
    }
}

impl Plan {
    /// Walks the cut once without writing. A snapshot has numbers of its own up to the last batch's, so it must not have more
    /// chunks than there are such numbers.
    pub(super) fn of(cut: &Arc<Cut>) -> Self {
        let copies = cut.chunk_blocks.max(1);
        let mut limits = (copies, copies.saturating_mul(CHUNK_UNITS_A_BLOCK));
        loop {
            let mut listing = Listing::new(Arc::clone(cut));
            let mut chunks = 1 + u64::from(cut.language.is_long());
            while listing.fill(&mut Filling::new(None, limits)) {
                chunks += 1;
            }
            if chunks <= cut.standing().through.saturating_add(1) {
                return Self { chunks, limits, untold: listing.untold };
            }
            limits = (limits.0.saturating_mul(2), limits.1.saturating_mul(2));
        }
    }
}

impl Path {
    /// Whether only the last unit of a block has keys: no other can be told.
    fn keys_end_blocks(&self, cut: &Cut) -> bool {
        let mut units = self.slots.iter().enumerate();
        units.all(|(below, &slot)| below % self.block_units == 0 || cut.block(slot).is_none_or(|block| block.keys().is_empty()))
    }
}

fn parent_of(cut: &Cut, slot: Slot) -> Slot {
    cut.block(slot).map_or(ROOT, |block| block.parent)
}

/// Whether a block below a parent of namespace `parent` would be read as one of another namespace than `own`.
fn inherits(own: Option<&Arc<OwnedNamespace>>, parent: Option<&Arc<OwnedNamespace>>) -> bool {
    let Some(parent) = parent else { return false };
    let lacks = |own: Option<&Box<str>>, parent: Option<&Box<str>>| own.is_none() && parent.is_some();
    lacks(own.and_then(|own| own.lora.as_ref()), parent.lora.as_ref())
        || lacks(own.and_then(|own| own.salt.as_ref()), parent.salt.as_ref())
}

/// Whether the windows of two blocks, one below the other, are of one row.
fn overlap(cut: &Cut, above: Slot, below: Slot) -> bool {
    let lookahead = cut.language.scheme().map_or(0, |scheme| scheme.lookahead_tokens as usize);
    let (above, below) = (cut.tokens(above), cut.tokens(below));
    lookahead == 0 || above.ends_with(&below[..lookahead.min(below.len())])
}

/// A set of slots.
#[derive(Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(slots: Slot) -> Self {
        Self(vec![0; slots.div_ceil(u64::BITS) as usize])
    }

    fn has(&self, slot: Slot) -> bool {
        self.0.get((slot / u64::BITS) as usize).is_some_and(|word| word >> (slot % u64::BITS) & 1 == 1)
    }

    fn set(&mut self, slot: Slot) {
        if let Some(word) = self.0.get_mut((slot / u64::BITS) as usize) {
            *word |= 1 << (slot % u64::BITS);
        }
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }
}
