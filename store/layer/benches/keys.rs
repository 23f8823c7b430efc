//! What a key costs to pack and to unpack. The unit of work is one key.

#![expect(clippy::expect_used, reason = "a bench says what it expected")]

use std::hint::black_box;

use borough_model::{JobId, Name, NodeId};
use borough_store::keys::{CellSpace, Key, NodeTaskKey, TaskKey};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn key<K: Key>(criterion: &mut Criterion, name: &str, key: &K) {
    let space = CellSpace::new(Name::new("alpha").expect("a name"));
    let bytes = key.encode(&space);
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    group.bench_function("pack", |bencher| bencher.iter(|| black_box(key).encode(&space)));
    group.bench_function("unpack", |bencher| {
        bencher.iter(|| K::decode(&space, black_box(&bytes)).expect("a key"));
    });
    group.finish();
}

fn keys(criterion: &mut Criterion) {
    let (job, index) = (JobId(0x9e37_79b9_7f4a_7c15), 70_000);
    key(criterion, "task_key", &TaskKey { job, index });
    key(criterion, "node_task_key", &NodeTaskKey { node: NodeId(0xd134_2543_de82_ef95), job, index });
}

criterion_group!(benches, keys);
criterion_main!(benches);
