//! Recomputing an engine's own chain over 1,024 tokens: the price of checking a stream's hashes.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kv_events::engine_hash::sglang::Chain;
use kv_events::engine_hash::vllm::{Algorithm, Block};

const PAGE: usize = 16;

fn chains(c: &mut Criterion) {
    let tokens: Vec<u32> = (0..1_024).map(|i| 3 * i).collect();
    let mut group = c.benchmark_group("engine_hash");
    group.throughput(Throughput::Elements(tokens.len() as u64));
    for algorithm in [Algorithm::Sha256, Algorithm::Sha256Cbor, Algorithm::Xxhash, Algorithm::XxhashCbor] {
        group.bench_function(format!("vllm_{algorithm:?}").to_lowercase(), |b| {
            b.iter(|| vllm_chain(algorithm, black_box(&tokens)));
        });
    }
    group.bench_function("sglang", |b| b.iter(|| sglang_chain(black_box(&tokens))));
    group.finish();
}

fn vllm_chain(algorithm: Algorithm, tokens: &[u32]) -> u64 {
    let root = algorithm.root("0").unwrap();
    let step = |parent, page| algorithm.block(&parent, &Block::of(page)).unwrap();
    tokens.chunks_exact(PAGE).fold(root, step).event_word()
}

fn sglang_chain(tokens: &[u32]) -> u64 {
    let mut chain = Chain::root(None);
    tokens.chunks_exact(PAGE).fold(0, |_, page| chain.next(page).event_word())
}

criterion_group!(benches, chains);
criterion_main!(benches);
