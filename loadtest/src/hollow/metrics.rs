//! The counters that a control process shows at `/metrics`, and how fast they rise.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::result::{Stats, StatsSet as _};

/// Counters of the embedded engine: their names in the output, and at `/metrics`.
const COUNTERS: [(&str, &str); 3] = [
    ("commits_per_s", TRANSACTIONS),
    ("mutations_per_s", "store_embedded_mutations_total"),
    ("batches_per_s", "store_embedded_batches_total"),
];
const TRANSACTIONS: &str = "store_embedded_transactions_total";
/// The lock of the gateway's mirror: its longest hold and its long ones since the start, for each use.
const LOCK: &str = "borough_mirror_lock_";
/// Attempts of transactions, with their names.
const ATTEMPTS: &str = "store_attempts_total{";

/// The samples of one look, by their names with labels.
pub(crate) struct Samples(BTreeMap<String, f64>);

impl Samples {
    /// Reads the samples of the process that answers HTTP at `address` (`http://HOST:PORT`) to the holder of `token`.
    ///
    /// # Errors
    /// It does not answer, refuses, or lacks a counter: a rate of 0 must mean that nothing happened.
    pub(crate) async fn read(address: &str, token: &str) -> anyhow::Result<Self> {
        let host = address.trim_start_matches("http://");
        let mut stream =
            TcpStream::connect(host).await.with_context(|| format!("no metrics at {address}"))?;
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let status = answer.lines().next().unwrap_or_default();
        ensure!(status.split(' ').nth(1) == Some("200"), "no metrics at {address}: {status}");
        let samples: BTreeMap<_, _> = answer.lines().filter_map(sample_of).collect();
        let missing = COUNTERS.iter().find(|(_, name)| !samples.contains_key(*name));
        ensure!(missing.is_none(), "{address} shows no {missing:?}");
        Ok(Self(samples))
    }

    /// How far the transactions of the embedded engine have risen since `before`, also those without an entry in the
    /// journal.
    pub(crate) fn transactions_since(&self, before: &Self) -> f64 {
        let count = |samples: &Self| samples.0.get(TRANSACTIONS).copied().unwrap_or_default();
        count(self) - count(before)
    }

    /// Adds to `stats` how fast the counters have risen since `before`, which was `time` ago. Transactions that were
    /// attempted are listed by name.
    pub(crate) fn rates(&self, before: &Self, time: Duration, stats: &mut Stats) {
        let seconds = time.as_secs_f64().max(0.001);
        let rise = |name: &str| {
            let now = self.0.get(name).copied().unwrap_or_default();
            (now - before.0.get(name).copied().unwrap_or_default()) / seconds
        };
        let rounded = |rate: f64| json!((rate * 100.0).round() / 100.0);
        for (shown, name) in COUNTERS {
            stats.set(shown, rounded(rise(name)));
        }
        for (name, value) in self.0.range(LOCK.to_owned()..).take_while(|(name, _)| name.starts_with(LOCK)) {
            let by = name.rsplit("by=\"").next().unwrap_or_default().trim_end_matches("\"}");
            let what = if name.contains("longest") { "lock_longest_us" } else { "lock_long_holds" };
            stats.set(format!("{what}_{by}"), rounded(*value));
        }
        let journal = self.0.keys().filter(|name| name.starts_with("borough_journal_bytes{"));
        stats.set("journal_bytes_per_s", rounded(journal.map(|name| rise(name)).sum()));
        let attempts = self.0.keys().filter(|name| name.starts_with(ATTEMPTS)).filter_map(|name| {
            let rate = rise(name);
            (rate > 0.0).then(|| (name[ATTEMPTS.len()..].trim_end_matches('}').to_owned(), rounded(rate)))
        });
        stats.set("attempts_per_s", Value::Object(attempts.collect()));
    }
}

/// A line `NAME{LABELS} VALUE`.
fn sample_of(line: &str) -> Option<(String, f64)> {
    let (name, value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    Some((name.to_owned(), value.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_over_time() {
        let samples = |commits: u32, attempts: u32| {
            let text = format!(
                "# HELP x y\nstore_embedded_transactions_total {commits}\n\
                 store_attempts_total{{name=\"a\"}} {attempts}\nHTTP/1.1 200 OK\n"
            );
            Samples(text.lines().filter_map(sample_of).collect())
        };
        let mut stats = Stats::new();
        samples(30, 9).rates(&samples(10, 4), Duration::from_secs(4), &mut stats);
        let stats = json!(stats);
        assert!((samples(30, 9).transactions_since(&samples(10, 4)) - 20.0).abs() < 0.1);
        assert_eq!(stats["commits_per_s"], 5.0);
        assert_eq!(stats["attempts_per_s"]["name=\"a\""], 1.25);
    }
}
