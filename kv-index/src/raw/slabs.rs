//! Blocks of whole cache lines out of one [`Memory`], by size class.
//!
//! A *slab* is 256 lines (16 KiB) of one class. A slab whose blocks are all free goes back to the pool, and from there,
//! beyond a small reserve, to the system. Blocks are taken from the lowest slab with room, so that high slabs run empty
//! when content goes. Sizes beyond half a slab are spans of whole slabs.
//!
//! Blocks are handed out for some 40 places of a chain at a time, so a lock for each class is cheap enough, and there is no
//! lock-free list with an ABA problem to prove.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::memory::Memory;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// A block's first line in the memory. 0 stands for no block: the first line is never handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Line(pub(crate) u32);

/// Words of a cache line.
pub(crate) const LINE_WORDS: usize = 8;

/// Lines that may ever be used: 64 GiB, which a process has addresses for.
const LINES_MAX: usize = 1 << 30;

/// Lines of a slab. The largest record takes 20, so at most a thirteenth of a slab is lost at its end.
#[cfg(not(any(kv_loom, kv_shuttle)))]
const SLAB_LINES: usize = 256;
#[cfg(any(kv_loom, kv_shuttle))]
const SLAB_LINES: usize = 8;

/// Blocks of up to so many lines have a class for each size: the largest record with all its inline holders.
#[cfg(not(any(kv_loom, kv_shuttle)))]
const EXACT_LINES: usize = 20;
#[cfg(any(kv_loom, kv_shuttle))]
const EXACT_LINES: usize = 4;

/// Power-of-two classes between the exact ones and half a slab.
const POWER_CLASSES: usize = if cfg!(any(kv_loom, kv_shuttle)) { 1 } else { 3 };

/// Free slabs kept with their memory, so that a fleet that breathes does not call the system for every breath: at least
/// so many, and one for 32 in use.
const RESERVE_MIN: usize = 16;

/// Slabs that may be sparse whatever the index holds: some classes' last, and the reserve.
const SPARSE_MIN: usize = 24;

#[derive(Debug)]
pub(crate) struct Slabs {
    memory: Memory,
    classes: [Mutex<Class>; EXACT_LINES + POWER_CLASSES],
    /// The lowest slab with room of each class; none is the highest number. A hint.
    lowest: [AtomicU32; EXACT_LINES + POWER_CLASSES],
    pool: Mutex<Pool>,
    /// Slabs that have memory: of the classes, of spans, and in reserve.
    resident: AtomicUsize,
    /// Lines of blocks that are in use.
    used_lines: AtomicUsize,
}

/// Slabs of one block size.
#[derive(Debug, Default)]
struct Class {
    slabs: HashMap<u32, Free>,
    /// Slabs with room.
    open: BTreeSet<u32>,
    blocks_in_use: usize,
}

/// Which blocks of a slab are free, as bits.
#[derive(Clone, Copy, Debug)]
struct Free {
    bits: [u64; SLAB_LINES.div_ceil(64)],
    count: u32,
}

#[derive(Debug, Default)]
struct Pool {
    /// Free slabs that still have memory.
    reserve: BTreeSet<u32>,
    /// Free slabs without.
    bare: BTreeSet<u32>,
    /// Slabs that were ever handed out; the first is never.
    end: u32,
}

impl Slabs {
    pub(crate) fn new() -> Self {
        Self {
            memory: Memory::new(LINES_MAX * LINE_WORDS),
            classes: std::array::from_fn(|_| Mutex::new(Class::default())),
            lowest: std::array::from_fn(|_| AtomicU32::new(u32::MAX)),
            pool: Mutex::new(Pool::default()),
            resident: AtomicUsize::new(0),
            used_lines: AtomicUsize::new(0),
        }
    }

    /// Bytes of memory in use or in reserve.
    pub(crate) fn bytes(&self) -> usize {
        self.resident.load(Ordering::Relaxed) * SLAB_LINES * LINE_WORDS * 8
    }

    /// `count` words from a block's start; shorter where an outdated size runs out of the memory.
    #[inline]
    pub(crate) fn words(&self, block: Line, count: usize) -> &[AtomicU64] {
        self.memory.words(block.0 as usize * LINE_WORDS, count)
    }

    /// Where a block begins, to prefetch from.
    #[inline]
    pub(crate) fn address(&self, block: Line) -> *const u8 {
        self.memory.address(block.0 as usize * LINE_WORDS)
    }

    /// A block of at least `lines` lines with whatever was in it. Give it back with the same `lines`.
    pub(crate) fn allocate(&self, lines: usize) -> Line {
        self.used_lines.fetch_add(lines, Ordering::Relaxed);
        let block = match class_of(lines) {
            Some(class) => self.allocate_in(class),
            None => Line(self.take_slabs(span_slabs(lines)) * SLAB_LINES as u32),
        };
        // What is written into the block from here on comes after everything that made it free: a reader that still
        // looks at the block's former content, and loads a word written after this fence, finds by its own acquire
        // fence that the descriptor which led it here has changed.
        fence(Ordering::Release);
        block
    }

    /// Gives back a block of [`allocate`](Self::allocate). Readers may look at it for a while yet.
    pub(crate) fn free(&self, block: Line, lines: usize) {
        self.used_lines.fetch_sub(lines, Ordering::Relaxed);
        let slab = block.0 / SLAB_LINES as u32;
        match class_of(lines) {
            Some(class) => {
                let block_lines = class_lines(class);
                let nth = (block.0 as usize % SLAB_LINES) / block_lines;
                let mut state = self.classes[class].lock();
                let is_empty = state.free(slab, nth, SLAB_LINES / block_lines);
                self.lowest[class].store(state.lowest(), Ordering::Relaxed);
                drop(state);
                if is_empty {
                    self.return_slabs(slab, 1);
                }
            }
            None => self.return_slabs(slab, span_slabs(lines)),
        }
    }

    /// Slabs that would be enough if no room were lost.
    fn needed(&self) -> usize {
        self.used_lines.load(Ordering::Relaxed).div_ceil(SLAB_LINES)
    }

    /// Whether a ninth of the memory and more lies in holes between blocks.
    pub(crate) fn is_sparse(&self) -> bool {
        let (resident, needed) = (self.resident.load(Ordering::Relaxed), self.needed());
        resident > needed + needed / 8 + SPARSE_MIN
    }

    /// Whether so little lies in holes that closing them is not worth while.
    pub(crate) fn is_compact(&self) -> bool {
        let (resident, needed) = (self.resident.load(Ordering::Relaxed), self.needed());
        resident <= needed + needed / 20 + SPARSE_MIN * 3 / 4
    }

    /// Whether a block of this size in a lower slab is free, so that moving there would help to empty a slab.
    pub(crate) fn has_room_below(&self, block: Line, lines: usize) -> bool {
        // A record's shape may be nonsense here: the caller looked at it without a lock.
        let class = class_of(lines.max(1)).filter(|_| lines <= EXACT_LINES);
        class.is_some_and(|class| self.lowest[class].load(Ordering::Relaxed) < block.0 / SLAB_LINES as u32)
    }

    fn allocate_in(&self, class: usize) -> Line {
        let block_lines = class_lines(class);
        let mut state = self.classes[class].lock();
        if state.open.is_empty() {
            let slab = self.take_slabs(1);
            state.add(slab, SLAB_LINES / block_lines);
        }
        let (slab, nth) = state.take();
        self.lowest[class].store(state.lowest(), Ordering::Relaxed);
        Line(slab * SLAB_LINES as u32 + (nth * block_lines) as u32)
    }

    fn take_slabs(&self, count: usize) -> u32 {
        let slab = self.pool.lock().take(count as u32, &self.resident);
        // One slab more than there is: whoever looks at a record asks for as many words as the largest takes.
        let end = (slab as usize + count + 1) * SLAB_LINES * LINE_WORDS;
        assert!(self.memory.reserve(end), "no addresses are left for the index");
        slab
    }

    fn return_slabs(&self, slab: u32, count: usize) {
        let mut pool = self.pool.lock();
        pool.reserve.extend(slab..slab + count as u32);
        let keep = RESERVE_MIN.max(self.resident.load(Ordering::Relaxed) / 32);
        while pool.reserve.len() > keep {
            let Some(slab) = pool.reserve.pop_last() else { break };
            self.memory.give_back(slab as usize * SLAB_LINES * LINE_WORDS, SLAB_LINES * LINE_WORDS);
            pool.bare.insert(slab);
            self.resident.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Class {
    fn add(&mut self, slab: u32, blocks: usize) {
        self.slabs.insert(slab, Free::all(blocks));
        self.open.insert(slab);
    }

    fn lowest(&self) -> u32 {
        self.open.first().copied().unwrap_or(u32::MAX)
    }

    fn take(&mut self) -> (u32, usize) {
        let slab = *self.open.first().expect("the caller made room");
        let free = self.slabs.get_mut(&slab).expect("open slabs are of this class");
        let nth = free.take();
        if free.count == 0 {
            self.open.remove(&slab);
        }
        self.blocks_in_use += 1;
        (slab, nth)
    }

    /// Whether the slab is wholly free now, and no longer of this class.
    fn free(&mut self, slab: u32, nth: usize, blocks: usize) -> bool {
        self.blocks_in_use -= 1;
        let free = self.slabs.get_mut(&slab).expect("blocks come back to their class");
        free.put(nth);
        if free.count as usize == blocks {
            self.slabs.remove(&slab);
            self.open.remove(&slab);
            return true;
        }
        if free.count == 1 {
            self.open.insert(slab);
        }
        false
    }
}

impl Free {
    fn all(blocks: usize) -> Self {
        let bits = std::array::from_fn(|word| match blocks.saturating_sub(word * 64) {
            0 => 0,
            left @ 1..64 => (1 << left) - 1,
            _ => u64::MAX,
        });
        Self { bits, count: blocks as u32 }
    }

    fn take(&mut self) -> usize {
        let word = self.bits.iter().position(|&bits| bits != 0).expect("the count says that one is free");
        let bit = self.bits[word].trailing_zeros() as usize;
        self.bits[word] &= self.bits[word] - 1;
        self.count -= 1;
        word * 64 + bit
    }

    fn put(&mut self, nth: usize) {
        debug_assert!(self.bits[nth / 64] >> (nth % 64) & 1 == 0, "freed twice");
        self.bits[nth / 64] |= 1 << (nth % 64);
        self.count += 1;
    }
}

impl Pool {
    /// The first of `count` neighbouring slabs: a reserved one, a bare one, or new ones.
    fn take(&mut self, count: u32, resident: &AtomicUsize) -> u32 {
        if count == 1
            && let Some(slab) = self.reserve.pop_first()
        {
            return slab;
        }
        if let Some(slab) = self.neighbours(count) {
            let reserved = (slab..slab + count).filter(|slab| self.reserve.remove(slab)).count();
            (slab..slab + count).for_each(|slab| _ = self.bare.remove(&slab));
            resident.fetch_add(count as usize - reserved, Ordering::Relaxed);
            return slab;
        }
        resident.fetch_add(count as usize, Ordering::Relaxed);
        self.bump(count)
    }

    /// The lowest run of free slabs.
    fn neighbours(&self, count: u32) -> Option<u32> {
        let mut start = None;
        let mut length = 0;
        // Few slabs are free at a time and spans are rare; one is the common count.
        let free: Box<dyn Iterator<Item = u32>> = if count == 1 {
            Box::new(self.bare.first().copied().into_iter())
        } else {
            Box::new(merged(&self.reserve, &self.bare))
        };
        for slab in free {
            match start {
                Some(first) if slab == first + length => length += 1,
                _ => (start, length) = (Some(slab), 1),
            }
            if length == count {
                return start;
            }
        }
        None
    }

    fn bump(&mut self, count: u32) -> u32 {
        let slab = self.end.max(1);
        self.end = slab + count;
        slab
    }
}

fn merged<'a>(left: &'a BTreeSet<u32>, right: &'a BTreeSet<u32>) -> impl Iterator<Item = u32> + 'a {
    left.union(right).copied()
}

/// The class of blocks of `lines` lines; none where they take slabs of their own.
fn class_of(lines: usize) -> Option<usize> {
    match lines {
        0 => unreachable!("a block has a line"),
        1..=EXACT_LINES => Some(lines - 1),
        _ if lines.next_power_of_two() <= SLAB_LINES / 2 => {
            let first = (EXACT_LINES + 1).next_power_of_two();
            Some(EXACT_LINES + (lines.next_power_of_two() / first).trailing_zeros() as usize)
        }
        _ => None,
    }
}

fn class_lines(class: usize) -> usize {
    if class < EXACT_LINES { class + 1 } else { (EXACT_LINES + 1).next_power_of_two() << (class - EXACT_LINES) }
}

fn span_slabs(lines: usize) -> usize {
    lines.next_power_of_two().max(SLAB_LINES) / SLAB_LINES
}

#[cfg(all(test, not(any(kv_loom, kv_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_asked_for() {
        for lines in 1..=SLAB_LINES / 2 {
            let class = class_of(lines).unwrap();
            assert!(class < EXACT_LINES + POWER_CLASSES && class_lines(class) >= lines, "{lines}");
            assert!(class == 0 || class_lines(class - 1) < lines, "{lines}");
        }
        assert_eq!((class_of(SLAB_LINES / 2 + 1), span_slabs(SLAB_LINES / 2 + 1), span_slabs(SLAB_LINES + 1)), (None, 1, 2));
    }

    #[test]
    fn blocks_in_use_never_overlap_and_all_memory_comes_back() {
        let slabs = Slabs::new();
        let mut blocks: Vec<(Line, usize)> = Vec::new();
        let mut state = 1u64;
        for round in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let lines = [1, 2, 5, 17, 20, 33, 128, 129, 700][(state >> 33) as usize % 9];
            if round < 10_000 && (state >> 60) < 9 {
                let block = slabs.allocate(lines);
                let words = slabs.words(block, lines * LINE_WORDS);
                assert_eq!(words.len(), lines * LINE_WORDS);
                words.iter().for_each(|word| word.store(u64::from(block.0), Ordering::Relaxed));
                blocks.push((block, lines));
            } else if !blocks.is_empty() {
                let (block, lines) = blocks.swap_remove((state >> 33) as usize % blocks.len());
                let words = slabs.words(block, lines * LINE_WORDS);
                assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == u64::from(block.0)), "somebody wrote here");
                slabs.free(block, lines);
            }
        }
        for (block, lines) in blocks {
            slabs.free(block, lines);
        }
        assert_eq!(slabs.bytes(), RESERVE_MIN * SLAB_LINES * LINE_WORDS * 8);
    }
}
