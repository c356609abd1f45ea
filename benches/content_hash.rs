//! Hashing a whole prompt, as every request does before its lookup.

use std::hint::black_box;
use std::num::NonZeroU32;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kv_index::{Namespace, Scheme};

fn prompts(c: &mut Criterion) {
    let mut group = c.benchmark_group("content_hash");
    for block_tokens in [1, 16, 64, 256] {
        let scheme = Scheme::plain(NonZeroU32::new(block_tokens).unwrap());
        for prompt_tokens in [1_024_u32, 32_768] {
            let tokens: Vec<u32> = (0..prompt_tokens).map(|i| i.wrapping_mul(2_654_435_761) % 150_000).collect();
            let mut hashes = Vec::new();
            group.throughput(Throughput::Elements(tokens.len() as u64));
            let id = BenchmarkId::new(format!("block_{block_tokens}"), prompt_tokens);
            group.bench_function(id, |b| {
                b.iter(|| scheme.hash_prompt(Namespace::default(), black_box(&tokens), &mut hashes));
            });
            assert_eq!(hashes.len(), tokens.len() / block_tokens as usize);
        }
    }
    group.finish();
}

criterion_group!(benches, prompts);
criterion_main!(benches);
