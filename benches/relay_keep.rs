//! A relay at work: a step of 100 new blocks, from its bytes to the state that late readers are told, in a pool that is full.

use std::time::Duration;

use contest::measure::clock::{reading_ns, thread_ns};
use contest::workload::steps::{Form, Steps};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use kv_events::relay::{Options, Relay};

const NOW: Duration = Duration::ZERO;
const STEP_BLOCKS: u64 = 100;

/// A relay whose engine holds `blocks` blocks, and evicts as many as it stores.
struct Pool {
    relay: Relay,
    steps: Steps,
    sequence: u64,
    oldest: u64,
}

impl Pool {
    fn filled(blocks: u64) -> Self {
        let relay = Relay::new(NOW, 1, Options { replays: false, ..Options::default() });
        let mut pool = Self { relay, steps: Steps::new(Form::Maps, STEP_BLOCKS), sequence: 0, oldest: 0 };
        while pool.steps.stored() < blocks {
            let payload = pool.steps.store();
            pool.take(&payload);
        }
        pool
    }

    /// CPU time of `count` steps, in ns. The evictions before each are not timed, nor is reading the clock.
    fn keep(&mut self, count: u64) -> u64 {
        let reading = reading_ns();
        (0..count).map(|_| self.keep_one().saturating_sub(reading)).sum()
    }

    fn keep_one(&mut self) -> u64 {
        let (evict, store) = (self.steps.evict(self.oldest), self.steps.store());
        self.oldest += STEP_BLOCKS;
        self.take(&evict);
        let began = thread_ns();
        self.take(&store);
        thread_ns() - began
    }

    fn take(&mut self, payload: &[u8]) {
        self.relay.handle_live(NOW, 0, self.sequence, payload);
        self.sequence += 1;
    }
}

fn keep(c: &mut Criterion) {
    let mut group = c.benchmark_group("relay_keep");
    for blocks in [20_000, 200_000, 1_000_000] {
        let mut pool = Pool::filled(blocks);
        assert_eq!(pool.relay.status(0).map(|status| status.live_blocks as u64), Some(blocks));
        group.bench_function(BenchmarkId::from_parameter(blocks), |b| {
            b.iter_custom(|count| Duration::from_nanos(pool.keep(count)));
        });
        let status = pool.relay.status(0).expect("a rank");
        assert_eq!((status.live_blocks as u64, status.live_counts.losses.total()), (blocks, 0));
    }
    group.finish();
}

criterion_group!(benches, keep);
criterion_main!(benches);
