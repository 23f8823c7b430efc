//! The time from a commit to a tail that has read its journal entry: a watch of the head key, then a read from the
//! cursor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use borough_kv::{AtomicOp, Database, Idempotency, KvError, RangeRequest, Transaction};
use parking_lot::Mutex;
use serde_json::json;

use super::{Bench, key, value};
use crate::result::{Stats, StatsSet as _};

/// Key kinds.
const ENTRY: u64 = 30;
const HEAD: u64 = 31;
/// Between two entries of one producer.
const INTERVAL: Duration = Duration::from_millis(10);
/// Entries appended one after the other by all producers.
const PRODUCERS: u64 = 4;
/// How long a tail waits for its watch before it reads anyway.
const LOOK: Duration = Duration::from_secs(1);

/// When each entry was sent, and when its commit was answered.
type EntryTimes = Arc<Mutex<std::collections::BTreeMap<u64, (Instant, Option<Instant>)>>>;

/// Runs the load.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(super) async fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let times = EntryTimes::default();
    let until = Instant::now() + bench.time;
    let mut producers = tokio::task::JoinSet::new();
    for producer in 0..PRODUCERS {
        producers.spawn(produce(bench.db.clone(), producer, until, Arc::clone(&times)));
    }
    let seen = tokio::spawn(follow(bench.db.clone(), until + Duration::from_secs(2)));
    while let Some(done) = producers.join_next().await {
        done??;
    }
    let seen = seen.await??;
    let times = times.lock();
    let (mut from_start, mut from_commit) = (Vec::new(), Vec::new());
    for (number, at) in seen {
        let (sent, answered) = times.get(&number).context("an entry nobody appended")?;
        let micros = |since: Instant| u64::try_from(at.saturating_duration_since(since).as_micros());
        from_start.push(micros(*sent)?);
        from_commit.push(micros((*answered).context("an entry that was never answered")?)?);
    }
    anyhow::ensure!(
        from_start.len() == times.len(),
        "{} of {} entries were seen",
        from_start.len(),
        times.len()
    );
    let mut stats = Stats::new();
    stats.set("entries", json!(times.len()));
    crate::result::percentiles(&mut stats, "start_to_seen", &from_start)?;
    crate::result::percentiles(&mut stats, "commit_to_seen", &from_commit)?;
    bench.results.line("kv", "tail", stats);
    Ok(())
}

/// Appends numbered entries at a steady rate.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn produce(db: Database, producer: u64, until: Instant, times: EntryTimes) -> anyhow::Result<()> {
    let mut number = producer << 32;
    while Instant::now() < until {
        times.lock().insert(number, (Instant::now(), None));
        let append = |tx: Transaction, _| async move {
            let mut stamped = key(ENTRY, 0);
            let offset = u32::try_from(stamped.len()).unwrap_or(u32::MAX).to_le_bytes();
            stamped.extend_from_slice(&[[0; 10].as_slice(), &offset].concat());
            let entry = [number.to_be_bytes().to_vec(), value(number, 200)].concat();
            tx.atomic(AtomicOp::SetVersionstampedKey, &stamped, &entry)?;
            tx.atomic(AtomicOp::SetVersionstampedValue, &key(HEAD, 0), &[0; 14])
        };
        db.run::<_, KvError, _, _>("loadtest_append", Idempotency::Natural, append).await?;
        if let Some((_, answered)) = times.lock().get_mut(&number) {
            *answered = Some(Instant::now());
        }
        number += 1;
        tokio::time::sleep(INTERVAL).await;
    }
    Ok(())
}

/// Follows the journal. Returns every entry's number, with the time at which it was seen.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn follow(db: Database, until: Instant) -> anyhow::Result<Vec<(u64, Instant)>> {
    let mut seen = Vec::new();
    let mut cursor = key(ENTRY, 0);
    let end = key(ENTRY, u64::MAX);
    while Instant::now() < until {
        let (from, to) = (&cursor, &end);
        let read = |tx: Transaction, _| async move {
            let watch = tx.watch(&key(HEAD, 0)).await?;
            let rows = tx.range_all(RangeRequest::between(from.clone(), to.clone()).snapshot()).await?;
            Ok::<_, KvError>((rows, watch))
        };
        let (rows, watch) = db.run("loadtest_tail", Idempotency::Natural, read).await?;
        let now = Instant::now();
        for (row_key, row) in rows {
            let number = row.get(..8).and_then(|bytes| bytes.try_into().ok()).context("a strange entry")?;
            seen.push((u64::from_be_bytes(number), now));
            cursor = borough_kv::database::key_after(&row_key);
        }
        // A read also follows a watch that ends with an error, or not at all.
        tokio::time::timeout(LOOK.min(until.saturating_duration_since(Instant::now())), watch).await.ok();
    }
    Ok(seen)
}
