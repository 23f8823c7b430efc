//! Reads: points, ten per transaction, and ranges of 100 rows.

use borough_kv::{Idempotency, KvError, RangeRequest};
use serde_json::json;

use super::{Bench, key, load, scatter, value};
use crate::result::StatsSet as _;

const ROWS: u64 = 100_000;
/// Rows written in one transaction.
const ROWS_PER_COMMIT: u64 = 1_000;
/// Bytes of a value.
const VALUE_BYTES: usize = 100;
/// Reads of one transaction.
const POINTS: u64 = 10;
/// Rows of a range.
const RANGE_ROWS: u64 = 100;
/// Clients at once.
const CLIENTS: [u64; 3] = [1, 16, 64];

/// Runs the loads.
pub(super) async fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    fill(bench).await?;
    for clients in CLIENTS {
        points(bench, clients).await?;
    }
    for clients in CLIENTS {
        ranges(bench, clients).await?;
    }
    Ok(())
}

async fn fill(bench: &Bench<'_>) -> anyhow::Result<()> {
    for first in (0..ROWS).step_by(usize::try_from(ROWS_PER_COMMIT)?) {
        let write = |tx: borough_kv::Transaction, _| async move {
            for number in first..first + ROWS_PER_COMMIT {
                tx.set(&key(2, number), &value(number, VALUE_BYTES))?;
            }
            Ok(())
        };
        bench.db.run::<_, KvError, _, _>("loadtest_fill", Idempotency::Natural, write).await?;
    }
    Ok(())
}

async fn points(bench: &mut Bench<'_>, clients: u64) -> anyhow::Result<()> {
    let db = bench.db.clone();
    let done = load(clients, bench.time, move |client, number| {
        let db = db.clone();
        async move {
            let first = scatter((client << 32) | number);
            let read = |tx: borough_kv::Transaction, _| async move {
                for offset in 0..POINTS {
                    let number = scatter(first.wrapping_add(offset)) % ROWS;
                    if tx.get(&key(2, number)).await?.is_none() {
                        return Err(borough_kv::ErrorCode::ClientInvalidOperation.into());
                    }
                }
                Ok(())
            };
            db.run::<_, KvError, _, _>("loadtest_read", Idempotency::ReadOnly, read).await
        }
    });
    let done = done.await?;
    let mut stats = done.stats("transaction", clients)?;
    let reads = done.samples_us.len().saturating_mul(usize::try_from(POINTS)?);
    stats.set("reads_per_s", json!(done.per_second(reads)));
    bench.results.line("kv", "read-10-points", stats);
    Ok(())
}

async fn ranges(bench: &mut Bench<'_>, clients: u64) -> anyhow::Result<()> {
    let db = bench.db.clone();
    let done = load(clients, bench.time, move |client, number| {
        let db = db.clone();
        async move {
            let first = scatter((client << 32) | number) % (ROWS - RANGE_ROWS);
            let read = |tx: borough_kv::Transaction, _| async move {
                let range = RangeRequest::between(key(2, first), key(2, first + RANGE_ROWS));
                let rows = tx.range_all(range).await?;
                match u64::try_from(rows.len()) {
                    Ok(RANGE_ROWS) => Ok(()),
                    _ => Err(borough_kv::ErrorCode::ClientInvalidOperation.into()),
                }
            };
            db.run::<_, KvError, _, _>("loadtest_range", Idempotency::ReadOnly, read).await
        }
    });
    let done = done.await?;
    let mut stats = done.stats("range", clients)?;
    let rows = done.samples_us.len().saturating_mul(usize::try_from(RANGE_ROWS)?);
    stats.set("rows_per_s", json!(done.per_second(rows)));
    bench.results.line("kv", "range-100-rows", stats);
    Ok(())
}
