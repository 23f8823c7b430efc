//! 10,000 watches at once, and the time from a commit until they fire.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use borough_kv::{Idempotency, KvError, Transaction};
use serde_json::json;
use tokio::task::JoinSet;

use super::{Bench, key, value};
use crate::result::{Stats, StatsSet as _};

/// Number of watches: what FoundationDB allows one client by default.
const WATCHES: u64 = 10_000;
/// Watches opened in one transaction.
const WATCHES_PER_COMMIT: u64 = 100;
/// Key kind.
const WATCHED: u64 = 20;
/// A watch that has not fired by then is lost.
const FIRE_WAIT: Duration = Duration::from_secs(60);

/// Runs the load.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(super) async fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let mut fired = JoinSet::new();
    let began = Instant::now();
    for first in (0..WATCHES).step_by(usize::try_from(WATCHES_PER_COMMIT)?) {
        let open = |tx: Transaction, _| async move {
            let mut watches = Vec::new();
            for number in first..first + WATCHES_PER_COMMIT {
                watches.push((number, tx.watch(&key(WATCHED, number)).await?));
            }
            Ok::<_, KvError>(watches)
        };
        for (number, watch) in bench.db.run("loadtest_watch", Idempotency::Natural, open).await? {
            fired.spawn(async move {
                let ended = tokio::time::timeout(FIRE_WAIT, watch).await;
                (number, Instant::now(), ended)
            });
        }
    }
    let opened = began.elapsed();
    let mut committed = std::collections::BTreeMap::new();
    let began = Instant::now();
    for number in 0..WATCHES {
        let write = |tx: Transaction, _| async move { tx.set(&key(WATCHED, number), &value(number, 16)) };
        bench.db.run::<_, KvError, _, _>("loadtest_fire", Idempotency::Natural, write).await?;
        committed.insert(number, Instant::now());
    }
    let written = began.elapsed();
    let mut samples = Vec::new();
    while let Some(done) = fired.join_next().await {
        let (number, at, ended) = done?;
        ended.context("a watch did not fire")??;
        let since = committed.get(&number).context("a watch fired that nobody wrote to")?;
        samples.push(u64::try_from(at.saturating_duration_since(*since).as_micros())?);
    }
    let mut stats = Stats::new();
    stats.set("watches", json!(WATCHES));
    stats.set("opened_ms", json!(u64::try_from(opened.as_millis())?));
    stats.set("written_ms", json!(u64::try_from(written.as_millis())?));
    crate::result::percentiles(&mut stats, "commit_to_fire", &samples)?;
    bench.results.line("kv", "watch", stats);
    Ok(())
}
