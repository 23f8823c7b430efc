//! `store bench`: a quick measurement of a store while it is in use. The load test measures exactly.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use borough_kv::{Idempotency, RangeRequest};
use borough_store::scratch::{Scratch, scratch_sweep};
use borough_store::{StoreError, StoreResult};
use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::{OpenedStore, opened, store_failure};
use crate::args::{StoreArgument, StoreBenchArguments, StoreLocation};
use crate::exit::{Code, Failure};
use crate::output::{OperationStats, Printer, Progress, StoreBenchView};
use crate::role::store::StoreMissing;

/// Keys that are read and written.
const KEYS: u64 = 10_000;
/// Bytes of a value.
const VALUE_BYTES: usize = 100;
/// Keys of a transaction over several keys, and rows of a range.
const SEVERAL: u64 = 100;
/// Milliseconds after which the keys of another measurement are removed: none takes so long.
const LEFT_MS: i64 = 3_600_000;

pub(super) async fn run(arguments: &StoreBenchArguments, printer: &Printer) -> Result<Code, Failure> {
    let opened = opened(&arguments.store, StoreMissing::Refuse)?;
    let outcome = bench(&opened, arguments, printer).await;
    opened.store.close().await;
    printer.one(&outcome?, StoreBenchView::text)?;
    Ok(Code::Done)
}

async fn bench(
    opened: &OpenedStore,
    arguments: &StoreBenchArguments,
    printer: &Printer,
) -> Result<StoreBenchView, Failure> {
    let failed = |error| store_failure("cannot measure the store", &error);
    let now_ms = opened.clock.wall_ms();
    let scratch = Scratch::new(now_ms, opened.rng.next_u64());
    let sweep = opened.db.run("bench_sweep", Idempotency::Natural, |tx, _| async move {
        scratch_sweep(&tx, now_ms.saturating_sub(LEFT_MS)).await
    });
    sweep.await.map_err(failed)?;
    let measured = stats(opened, arguments, &scratch, printer).await;
    // The keys are removed even if the measurement failed.
    let scratch = &scratch;
    let clear = opened.db.run("bench_clear", Idempotency::Natural, |tx, _| async move { scratch.clear(&tx) });
    let cleared: StoreResult<()> = clear.await;
    let stats = measured.map_err(failed)?;
    cleared.map_err(failed)?;
    Ok(StoreBenchView {
        store: arguments.store.store.to_string(),
        engine: opened.db.info().name.to_owned(),
        clients: arguments.clients,
        time_ms: u64::try_from(arguments.time.as_millis()).unwrap_or(u64::MAX),
        stats,
    })
}

async fn stats(
    opened: &OpenedStore,
    arguments: &StoreBenchArguments,
    scratch: &Scratch,
    printer: &Printer,
) -> StoreResult<Vec<OperationStats>> {
    let mut progress = Progress::new(printer);
    let mut stats = Vec::new();
    progress.show("filling");
    for first in (0..KEYS).step_by(usize::try_from(SEVERAL).unwrap_or(usize::MAX)) {
        write(opened, scratch, first..first.saturating_add(SEVERAL)).await?;
    }
    let clients = arguments.clients;
    let plan = [
        ("commit of 1 key", 1, Operation::Write(1)),
        ("commit of 1 key", clients, Operation::Write(1)),
        ("commit of 100 keys", clients, Operation::Write(SEVERAL)),
        ("read of 1 key", clients, Operation::Read),
        ("range of 100 rows", clients, Operation::Range),
    ];
    for (what, at_a_time, operation) in plan {
        progress.show(&format!("{what}, {at_a_time} at a time"));
        let measure = Measure { opened, scratch, operation, next: AtomicU64::new(0) };
        stats.push(measure.run(what, at_a_time, arguments.time).await);
    }
    progress.show("fsync of the disk");
    stats.extend(fsync_stat(&arguments.store, opened, arguments.time));
    Ok(stats)
}

#[derive(Clone, Copy)]
enum Operation {
    Write(u64),
    Read,
    Range,
}

async fn write(opened: &OpenedStore, scratch: &Scratch, keys: std::ops::Range<u64>) -> StoreResult<()> {
    let value = [b'v'; VALUE_BYTES];
    let keys = &keys;
    let run = opened.db.run("bench_write", Idempotency::Natural, |tx, _| async move {
        for number in keys.clone() {
            tx.set(&scratch.key(number), &value)?;
        }
        Ok::<_, StoreError>(())
    });
    run.await
}

/// One operation, repeated by several tasks at once.
struct Measure<'a> {
    opened: &'a OpenedStore,
    scratch: &'a Scratch,
    operation: Operation,
    next: AtomicU64,
}

/// The times of one operation.
struct OperationTimes {
    histogram: Histogram<u64>,
    failed: u64,
}

impl Measure<'_> {
    async fn run(&self, what: &str, at_a_time: u32, time: Duration) -> OperationStats {
        // Microseconds up to an hour, to three digits: the bounds are valid, so this never fails.
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3).or_else(|_| Histogram::new(3));
        let Ok(histogram) = histogram else { return stat(what, at_a_time, Duration::ZERO, None) };
        let times = Mutex::new(OperationTimes { histogram, failed: 0 });
        let clock = &self.opened.clock;
        let began = clock.monotonic();
        let client = async || {
            while clock.monotonic().saturating_sub(began) < time {
                let before = clock.monotonic();
                let done = self.once().await;
                let took = clock.monotonic().saturating_sub(before);
                let mut times = times.lock();
                match done {
                    Ok(()) => times.histogram.saturating_record(micros(took)),
                    Err(_) => times.failed = times.failed.saturating_add(1),
                }
            }
        };
        futures::future::join_all((0..at_a_time).map(|_| client())).await;
        let took = clock.monotonic().saturating_sub(began);
        stat(what, at_a_time, took, Some(times.into_inner()))
    }

    async fn once(&self) -> StoreResult<()> {
        // A step that visits every key once before it visits one twice, and never two neighbours in a row.
        let number = self.next.fetch_add(1, Ordering::Relaxed).wrapping_mul(7_919) % KEYS;
        let (db, scratch) = (&self.opened.db, self.scratch);
        match self.operation {
            Operation::Write(keys) => write(self.opened, scratch, number..number.saturating_add(keys)).await,
            Operation::Read => {
                let run = db.run("bench_read", Idempotency::ReadOnly, |tx, _| async move {
                    Ok(tx.get(&scratch.key(number)).await.map(drop)?)
                });
                run.await
            }
            Operation::Range => {
                let run = db.run("bench_range", Idempotency::ReadOnly, |tx, _| async move {
                    let range = scratch.range(number..number.saturating_add(SEVERAL));
                    Ok(tx.range_all(RangeRequest::between(range.start, range.end)).await.map(drop)?)
                });
                run.await
            }
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn stat(what: &str, at_a_time: u32, took: Duration, times: Option<OperationTimes>) -> OperationStats {
    let (histogram, failed) = times.map_or((None, 0), |times| (Some(times.histogram), times.failed));
    let of = |read: fn(&Histogram<u64>) -> u64| histogram.as_ref().map_or(0, read);
    let operations = of(Histogram::len);
    let seconds = took.as_secs_f64().max(f64::EPSILON);
    let whole = f64::from(u32::try_from(operations).unwrap_or(u32::MAX));
    OperationStats {
        what: what.to_owned(),
        at_a_time,
        operations,
        operations_per_s: (whole / seconds).round(),
        p50_us: of(|histogram| histogram.value_at_quantile(0.5)),
        p99_us: of(|histogram| histogram.value_at_quantile(0.99)),
        max_us: of(Histogram::max),
        failed,
    }
}

/// Measures the disk under an embedded store, which limits its commits one at a time.
fn fsync_stat(store: &StoreArgument, opened: &OpenedStore, time: Duration) -> Option<OperationStats> {
    let StoreLocation::Embedded(directory) = &store.store else { return None };
    // Next to the store, not in it: a foreign file there would count as damage.
    let probe_file = directory.join("..").join(format!(".borough-bench-{:016x}", opened.rng.next_u64()));
    let measured = fsync_measure(&probe_file, opened, time);
    std::fs::remove_file(&probe_file).ok();
    measured.ok()
}

fn fsync_measure(file: &Path, opened: &OpenedStore, time: Duration) -> io::Result<OperationStats> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).open(file)?;
    let histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3).map_err(io::Error::other)?;
    let mut times = OperationTimes { histogram, failed: 0 };
    let block = [0x5a_u8; 4096];
    let began = opened.clock.monotonic();
    let mut took = Duration::ZERO;
    while took < time {
        let before = opened.clock.monotonic();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&block)?;
        file.sync_data()?;
        let after = opened.clock.monotonic();
        times.histogram.saturating_record(micros(after.saturating_sub(before)));
        took = after.saturating_sub(began);
    }
    Ok(stat("fdatasync of 4 KiB", 1, took, Some(times)))
}
