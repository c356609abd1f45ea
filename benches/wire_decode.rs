//! Decoding payloads that engines and their publishers put on the wire.

use std::fs;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kv_events::wire::decode_batch;

/// From the fuzzer's corpus: a hybrid model's step as a real vLLM sent it, and pages of a salted SGLang tree.
const PAYLOADS: [&str; 3] = ["vllm-cpu-real-0.32.0-hybrid-swa", "vllm-0.17.0-extra-keys", "sglang-0.5.23-tree-lora-default"];

fn payloads(c: &mut Criterion) {
    let mut group = c.benchmark_group("wire_decode");
    for name in PAYLOADS {
        let path = format!("{}/../fuzz/corpus/wire_batch/{name}", env!("CARGO_MANIFEST_DIR"));
        let payload = fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let batch = decode_batch(&payload);
        assert!(!batch.events.is_empty() && batch.losses.total() == 0, "{name}: {batch:?}");
        group.throughput(Throughput::Bytes(payload.len() as u64));
        group.bench_function(name, |b| b.iter(|| decode_batch(black_box(&payload))));
    }
    group.finish();
}

criterion_group!(benches, payloads);
criterion_main!(benches);
