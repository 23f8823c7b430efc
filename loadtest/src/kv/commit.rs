//! Durable commits: blind writes to scattered keys.

use borough_kv::{Idempotency, KvError};
use serde_json::json;

use super::{Bench, key, load, scatter, value};
use crate::result::StatsSet as _;

/// Keys of one transaction.
const KEYS: [u64; 3] = [1, 10, 200];
/// Clients at once.
const CLIENTS: [u64; 4] = [1, 16, 64, 256];
/// Number of keys, which are overwritten again and again.
const KEY_COUNT: u64 = 200_000;
/// Bytes of a value.
const VALUE_BYTES: usize = 100;

/// Runs the loads.
pub(super) async fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    for keys in KEYS {
        for clients in CLIENTS {
            let db = bench.db.clone();
            let done = load(clients, bench.time, move |client, number| {
                let db = db.clone();
                async move {
                    let first = scatter((client << 32) | number).wrapping_mul(keys);
                    let write = |tx: borough_kv::Transaction, _| async move {
                        for offset in 0..keys {
                            let number = scatter(first.wrapping_add(offset)) % KEY_COUNT;
                            tx.set(&key(1, number), &value(first, VALUE_BYTES))?;
                        }
                        Ok(())
                    };
                    db.run::<_, KvError, _, _>("loadtest_commit", Idempotency::Natural, write).await
                }
            });
            let done = done.await?;
            let mut stats = done.stats("commit", clients)?;
            let written = done.samples_us.len().saturating_mul(usize::try_from(keys)?);
            stats.set("keys_per_s", json!(done.per_second(written)));
            bench.results.line("kv", &format!("commit-{keys}-keys"), stats);
        }
    }
    Ok(())
}
