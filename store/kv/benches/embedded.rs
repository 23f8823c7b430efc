//! What small transactions cost on the embedded engine, one after another.
//!
//! | benchmark | unit of work |
//! |---|---|
//! | `commit/memory` | one transaction that reads one key and writes three, of an engine without a disk |
//! | `commit/durable` | the same with a log, but without waiting for the disk: the machine's disk is not measured |
//! | `range` | one row of a range of 100 rows, of 10,000 rows in the store |

#![expect(clippy::expect_used, reason = "a bench says what it expected")]

use std::hint::black_box;
use std::sync::Arc;

use borough_kv::embedded::OpenOptions;
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::{Database, EmbeddedEngine, Idempotency, KvError, RangeRequest};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tokio::runtime::{Builder, Runtime};

/// Bytes of a value, as a small row has them.
const VALUE: [u8; 120] = [7; 120];
/// Rows of the store that ranges are read from.
const ROWS: u64 = 10_000;
/// Rows of a range.
const RANGE: u64 = 100;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn key(number: u64) -> Vec<u8> {
    [b"row/".as_slice(), &number.to_be_bytes()].concat()
}

/// Reads a row and writes it with its two neighbours.
async fn commit(database: &Database, number: u64) {
    let run = database.run("bench", Idempotency::Natural, |transaction, _| async move {
        transaction.get(&key(number)).await?;
        (0..3).try_for_each(|next| transaction.set(&key(number + next), &VALUE))?;
        Ok::<(), KvError>(())
    });
    run.await.expect("it commits");
}

fn commits_of(criterion: &mut Criterion, name: &str, engine: EmbeddedEngine) {
    let (runtime, database) = (runtime(), Database::new(Arc::new(engine)));
    let mut number = 0;
    criterion.benchmark_group("commit").throughput(Throughput::Elements(1)).bench_function(name, |bencher| {
        bencher.iter(|| {
            number = (number + 3) % ROWS;
            runtime.block_on(commit(&database, number));
        });
    });
}

fn commits(criterion: &mut Criterion) {
    let (clock, rng) = (SystemClock::shared(), SeededRng::shared(1));
    commits_of(criterion, "memory", EmbeddedEngine::ephemeral(Arc::clone(&clock), Arc::clone(&rng)));
    let directory = tempfile::tempdir().expect("a directory");
    let options = OpenOptions { fsync: false, ..OpenOptions::new(directory.path(), clock, rng) };
    commits_of(criterion, "durable", EmbeddedEngine::open(options).expect("an engine"));
}

fn ranges(criterion: &mut Criterion) {
    let engine = EmbeddedEngine::ephemeral(SystemClock::shared(), SeededRng::shared(1));
    let (runtime, database) = (runtime(), Database::new(Arc::new(engine)));
    (0..ROWS).step_by(3).for_each(|number| runtime.block_on(commit(&database, number)));
    let mut first = 0;
    let mut read = || {
        first = (first + RANGE) % (ROWS - RANGE);
        let range = RangeRequest::between(key(first), key(first + RANGE));
        let read = database.run("bench", Idempotency::ReadOnly, |transaction, _| {
            let range = range.clone();
            async move { transaction.range_all(range).await }
        });
        let rows = runtime.block_on(read).expect("rows");
        assert_eq!(rows.len() as u64, RANGE);
        black_box(rows)
    };
    let mut group = criterion.benchmark_group("range");
    group.throughput(Throughput::Elements(RANGE));
    group.bench_function("memory", |bencher| bencher.iter(&mut read));
    group.finish();
}

criterion_group!(benches, commits, ranges);
criterion_main!(benches);
