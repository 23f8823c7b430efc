//! What a stored row costs to encode and to decode. The unit of work is one row, with most fields set, as the golden
//! file has it.

#![expect(clippy::expect_used, reason = "a bench says what it expected")]

use std::hint::black_box;

use borough_model::{JobRow, TaskRow};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use minicbor::{Decode, Encode};

/// The bytes of every stored type.
const GOLDEN: &str = include_str!("../tests/model/golden/encoding.txt");

/// The newest bytes of a sample.
fn golden(sample: &str) -> Vec<u8> {
    let line = GOLDEN.lines().rfind(|line| line.split(' ').next() == Some(sample)).expect("a sample");
    let (_, digits) = line.split_once(' ').expect("a sample and its bytes");
    let digits = digits.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16).expect("hex"));
    bytes.collect()
}

fn row<T: Encode<()> + for<'bytes> Decode<'bytes, ()>>(criterion: &mut Criterion, name: &str, sample: &str) {
    let bytes = golden(sample);
    let row: T = minicbor::decode(&bytes).expect("a row");
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("encode", |bencher| {
        let mut written = Vec::with_capacity(bytes.len());
        bencher.iter(|| {
            written.clear();
            minicbor::encode(black_box(&row), &mut written).expect("it is encodable");
        });
        assert_eq!(written, bytes);
    });
    group.bench_function("decode", |bencher| {
        bencher.iter(|| minicbor::decode::<T>(black_box(&bytes)).expect("a row"));
    });
    group.finish();
}

fn rows(criterion: &mut Criterion) {
    row::<TaskRow>(criterion, "task_row", "task_row.full");
    row::<JobRow>(criterion, "job_row", "job_row.running");
}

criterion_group!(benches, rows);
criterion_main!(benches);
