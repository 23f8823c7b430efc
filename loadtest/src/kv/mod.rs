//! `kv`: the store's engine alone, as every role uses it: through the runner, with durable commits.
//!
//! The layer is not involved, so the results show what the engine allows. Keys lie below one prefix, which is cleared
//! at the beginning and at the end.

mod commit;
mod placement;
mod read;
mod tail;
mod watch;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use borough_kv::embedded::{EmbeddedEngine, OpenOptions};
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::{Database, Engine, Idempotency, KvError};
use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::task::JoinSet;

use crate::result::{Results, Stats, StatsSet as _};

/// The prefix of every key of the benchmark.
const PREFIX: &[u8] = b"borough-loadtest/";

/// Which engine is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineKind {
    /// The embedded engine, in a directory of its own.
    Embedded,
    /// A FoundationDB cluster (needs a build with the feature `fdb`).
    Fdb,
}

impl EngineKind {
    /// The engine's name in result lines.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Fdb => "fdb",
        }
    }
}

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KvWorkload {
    /// Durable commits of 1, 10 and 200 keys with 1 to 256 clients
    Commit,
    /// Point reads and ranges of 100 rows
    Read,
    /// The scheduler's placement commit
    Placement,
    /// 10,000 watches
    Watch,
    /// From a commit to a tail that has seen it
    Tail,
}

/// Arguments of `kv`.
#[derive(Debug, Args)]
pub(crate) struct KvArguments {
    /// The engine
    #[arg(long, value_enum, default_value = "embedded")]
    pub engine: EngineKind,
    /// The cluster file, or connection string, of a FoundationDB cluster
    #[arg(long, value_name = "FILE", required_if_eq("engine", "fdb"))]
    cluster: Option<String>,
    /// Only these loads
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAMES")]
    workload: Vec<KvWorkload>,
    /// Seconds of each line
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

/// An engine under load.
struct Bench<'a> {
    db: Database,
    time: Duration,
    results: &'a mut Results,
}

/// Runs the benchmark.
pub(crate) async fn run(
    scratch: PathBuf,
    arguments: &KvArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let (engine, embedded) = engine_open(&scratch, arguments)?;
    let mut bench =
        Bench { db: Database::new(engine), time: Duration::from_secs(arguments.seconds), results };
    prefix_clear(&bench.db).await?;
    let wanted = |workload| arguments.workload.is_empty() || arguments.workload.contains(&workload);
    if wanted(KvWorkload::Commit) {
        commit::run(&mut bench).await?;
    }
    if wanted(KvWorkload::Placement) {
        placement::run(&mut bench).await?;
    }
    if wanted(KvWorkload::Read) {
        read::run(&mut bench).await?;
    }
    if wanted(KvWorkload::Watch) {
        watch::run(&mut bench).await?;
    }
    if wanted(KvWorkload::Tail) {
        tail::run(&mut bench).await?;
    }
    prefix_clear(&bench.db).await?;
    if let Some(embedded) = embedded {
        embedded.close().await;
    }
    std::fs::remove_dir_all(&scratch).ok();
    Ok(())
}

fn engine_open(
    scratch: &std::path::Path,
    arguments: &KvArguments,
) -> anyhow::Result<(Arc<dyn Engine>, Option<EmbeddedEngine>)> {
    match arguments.engine {
        EngineKind::Embedded => {
            let (rng, _) = SeededRng::from_kernel();
            let options = OpenOptions::new(scratch.join("store"), SystemClock::shared(), rng);
            let engine = EmbeddedEngine::open(options)?;
            Ok((Arc::new(engine.clone()), Some(engine)))
        }
        EngineKind::Fdb => {
            let cluster = arguments.cluster.as_deref().context("give --cluster")?;
            Ok((borough_fdb::open(cluster)?, None))
        }
    }
}

async fn prefix_clear(db: &Database) -> anyhow::Result<()> {
    let mut end = PREFIX.to_vec();
    end.push(0xff);
    let end = &end;
    let clear = |tx: borough_kv::Transaction, _| async move { tx.clear_range(PREFIX, end) };
    db.run::<_, KvError, _, _>("loadtest_clear", Idempotency::Natural, clear).await?;
    Ok(())
}

/// A key below the prefix: `kind` and a number, 16 bytes after the prefix.
fn key(kind: u64, number: u64) -> Vec<u8> {
    [PREFIX, &kind.to_be_bytes(), &number.to_be_bytes()].concat()
}

/// The result of a load.
struct LoadOutcome {
    /// The duration of each operation of all clients, in microseconds.
    samples_us: Vec<u64>,
    /// The duration of the load.
    elapsed: Duration,
}

impl LoadOutcome {
    fn per_second(&self, count: usize) -> u64 {
        let count = u128::try_from(count).unwrap_or(u128::MAX);
        let per_second = count.saturating_mul(1_000_000) / self.elapsed.as_micros().max(1);
        u64::try_from(per_second).unwrap_or(u64::MAX)
    }

    /// The results of a load whose operations are `noun`s of `items` `item`s each.
    fn stats(&self, noun: &str, clients: u64) -> anyhow::Result<Stats> {
        let mut stats = Stats::new();
        stats.set("clients", json!(clients));
        stats.set(format!("{noun}s_per_s"), json!(self.per_second(self.samples_us.len())));
        crate::result::percentiles(&mut stats, noun, &self.samples_us)?;
        Ok(stats)
    }
}

/// Lets `clients` clients repeat an operation for `time`. The operation gets the client's number and its own.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn load<F, Fut>(clients: u64, time: Duration, operation: F) -> anyhow::Result<LoadOutcome>
where
    F: Fn(u64, u64) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<(), KvError>> + Send,
{
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let operation = operation.clone();
        tasks.spawn(async move {
            let mut samples = Vec::new();
            let mut number = 0;
            while began.elapsed() < time {
                let start = Instant::now();
                operation(client, number).await?;
                samples.push(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX));
                number += 1;
                // Reads of an engine in memory never wait, so they must yield to other tasks.
                tokio::task::coop::consume_budget().await;
            }
            Ok::<_, KvError>(samples)
        });
    }
    let mut samples_us = Vec::new();
    while let Some(done) = tasks.join_next().await {
        samples_us.extend(done??);
    }
    let elapsed = began.elapsed();
    if samples_us.is_empty() {
        bail!("no operation ended within {time:?}");
    }
    Ok(LoadOutcome { samples_us, elapsed })
}

/// A value of `bytes` bytes that cannot be compressed, different for every number.
fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut value = Vec::with_capacity(bytes + 8);
    while value.len() < bytes {
        // xorshift64 (Marsaglia, "Xorshift RNGs", 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value.extend_from_slice(&state.to_le_bytes());
    }
    value.truncate(bytes);
    value
}

/// Spreads numbers over keys, the same way in every run.
fn scatter(number: u64) -> u64 {
    // The finaliser of MurmurHash3.
    let mut hash = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
