//! A contender and the events on their way to it.

use crate::contender::Contender;
use crate::measure::alloc::live_bytes;
use crate::measure::rss::resident_bytes;
use crate::workload::Batch;

/// Blocks that are prepared and then applied together: enough that reading the clock and waking a peer's lane cost
/// below a nanosecond a block, few enough that an event is still in the second-level cache, as it is after decoding.
const BATCH_BLOCKS: usize = 4_096;
/// The same for events of one block.
const BATCH_EVENTS: usize = 4_096;

/// Feeds a contender batch by batch and adds up what it took.
pub struct Lane<C> {
    contender: C,
    batch: Batch,
    lap: Lap,
    empty: Held,
}

/// What was applied since the last lap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lap {
    /// CPU time.
    pub ns: u64,
    /// Blocks stored and names removed.
    pub blocks: usize,
}

/// What a contender holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// By the global allocator and what the contender maps itself.
    pub bytes: i64,
    /// By the system's account of the process; a check.
    pub resident_bytes: i64,
}

impl Lap {
    pub fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.blocks += other.blocks;
    }

    pub fn ns_per_block(self) -> f64 {
        self.ns as f64 / self.blocks as f64
    }
}

impl<C: Contender> Lane<C> {
    /// An empty contender. What the process holds by now is not counted as its bytes.
    pub fn open(workers: u32) -> Self {
        let empty = Held { bytes: live_bytes(), resident_bytes: resident_bytes() as i64 };
        Self { contender: C::with_workers(workers), batch: Batch::default(), lap: Lap::default(), empty }
    }

    /// Adds events; they are applied when enough have come together.
    pub fn feed(&mut self, add: impl FnOnce(&mut Batch)) {
        add(&mut self.batch);
        if is_full(&self.batch) {
            self.flush();
        }
    }

    /// Applies what has been added.
    pub fn flush(&mut self) {
        if !self.batch.is_empty() {
            let mut prepared = self.contender.prepare(&self.batch);
            self.lap.ns += self.contender.apply(&mut prepared);
            self.lap.blocks += self.batch.len();
            self.batch.reset();
        }
    }

    /// Puts events into the contender's form, batch by batch, without applying them.
    pub fn prepare_all(&mut self, events: impl IntoIterator<Item = impl FnOnce(&mut Batch)>) -> Vec<(C::Prepared, usize)> {
        let (mut batch, mut all) = (Batch::default(), Vec::new());
        let mut finish = |batch: &mut Batch| {
            all.push((self.contender.prepare(batch), batch.len()));
            batch.reset();
        };
        for add in events {
            add(&mut batch);
            if is_full(&batch) {
                finish(&mut batch);
            }
        }
        finish(&mut batch);
        all
    }

    /// Applies events that were prepared before.
    pub fn apply(&mut self, (prepared, blocks): &mut (C::Prepared, usize)) {
        self.lap.ns += self.contender.apply(prepared);
        self.lap.blocks += *blocks;
    }

    /// Applies what has been added, and says what was applied since the last lap.
    pub fn lap(&mut self) -> Lap {
        self.flush();
        std::mem::take(&mut self.lap)
    }

    /// What the contender holds, all events applied.
    pub fn held(&mut self) -> Held {
        self.flush();
        self.batch = Batch::default();
        Held {
            bytes: live_bytes() - self.empty.bytes + self.contender.extra_bytes(),
            resident_bytes: resident_bytes() as i64 - self.empty.resident_bytes,
        }
    }

    pub fn reader(&self) -> C::Reader {
        self.contender.reader()
    }
}

fn is_full(batch: &Batch) -> bool {
    batch.len() >= BATCH_BLOCKS || batch.events.len() >= BATCH_EVENTS
}
