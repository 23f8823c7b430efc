//! `conflicts`: one to twelve workers over one cell of 10,000 nodes in simulated time. It shows the cost of conflicts
//! without as many cores.
//!
//! Each worker has a processor of its own, which takes as long as the production code takes here (of one thread's
//! processor time). Commits take as long as those of the embedded engine on this machine. The guards decide whether a
//! commit succeeds, as in the store.

mod store;
mod worker;

use std::path::Path;
use std::sync::Arc;

use borough_kv::embedded::{EmbeddedEngine, OpenOptions};
use borough_kv::env::{Clock, SeededRng, SystemClock};
use borough_kv::{Database, Idempotency, KvError};
use clap::Args;
use serde_json::json;

use crate::decide::workload::shared_out;
use crate::resident::allocated_bytes;
use crate::result::{Results, Stats, StatsSet as _};
use store::ModelStore;
use worker::{ModelPool, NodesSearched};

/// Arguments of the benchmark.
#[derive(Debug, Args)]
pub(crate) struct ConflictsArguments {
    /// Numbers of workers
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 6, 8, 12])]
    workers: Vec<u32>,
    /// Tasks to place
    #[arg(long, default_value_t = 100_000)]
    tasks: u32,
    /// Seed of nodes, tasks, and of the order of commits
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// For comparison: every worker looks at the whole cell, as if it had no part of the nodes of its own
    #[arg(long)]
    whole: bool,
}

/// The durations of commits.
pub(crate) struct Latencies {
    /// Seconds of the smallest batches, measured one after the other.
    fixed_s: Vec<f64>,
    /// Seconds that each placement adds. The store does nothing else in this time.
    placement_s: f64,
}

impl Latencies {
    /// One of the measured durations.
    fn fixed(&self, number: u64) -> f64 {
        let count = self.fixed_s.len().max(1) as u64;
        self.fixed_s.get(usize::try_from(number % count).unwrap_or(0)).copied().unwrap_or_default()
    }
}

/// Placements of the two measured sizes of batches, and how many of each.
const SIZES: (u64, u64) = (16, 512);
const COMMITS: u64 = 150;
/// Keys and bytes of a value that a placement writes, for its rows and its part of the journal's entry.
const PLACEMENT_KEYS: u64 = 4;
const VALUE_BYTES: usize = 130;

/// Measures commits of the embedded engine in a directory, one after the other.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(crate) async fn latencies_measured(directory: &Path) -> anyhow::Result<Latencies> {
    let clock = SystemClock::shared();
    let clock: Arc<dyn Clock> = clock;
    let engine =
        EmbeddedEngine::open(OpenOptions::new(directory.join("store"), clock, SeededRng::shared(1)))?;
    let db = Database::new(Arc::new(engine.clone()));
    let mut seconds: [Vec<f64>; 2] = Default::default();
    for (size, taken) in [SIZES.0, SIZES.1].into_iter().zip(&mut seconds) {
        for commit in 0..COMMITS {
            let began = std::time::Instant::now();
            let write = |tx: borough_kv::Transaction, _| async move {
                for key in 0..size * PLACEMENT_KEYS {
                    let key = (commit * size * PLACEMENT_KEYS + key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    tx.set(format!("loadtest/{key:016x}").as_bytes(), &[7; VALUE_BYTES])?;
                }
                Ok(())
            };
            db.run::<_, KvError, _, _>("loadtest_commit", Idempotency::Natural, write).await?;
            taken.push(began.elapsed().as_secs_f64());
        }
    }
    engine.close().await;
    let median = |taken: &[f64]| {
        let mut sorted = taken.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    };
    let [small, large] = &seconds;
    let placement_s = (median(large) - median(small)).max(0.0) / (SIZES.1 - SIZES.0) as f64;
    Ok(Latencies { fixed_s: small.clone(), placement_s })
}

/// Runs the benchmark.
pub(crate) fn run(
    arguments: &ConflictsArguments,
    latencies: &Latencies,
    results: &mut Results,
) -> anyhow::Result<()> {
    let mut rates = Vec::new();
    for &workers in &arguments.workers {
        let workload = shared_out(arguments.seed, arguments.tasks);
        let before = allocated_bytes()?;
        let searched = if arguments.whole { NodesSearched::Whole } else { NodesSearched::Parts };
        let mut pool = ModelPool::new(&workload, workers, searched);
        let mut store = ModelStore::new(latencies, arguments.seed);
        pool.run(&mut store)?;
        // The rest of what was allocated, the journal, is small beside the workers' copies of the cell.
        let each = (allocated_bytes()? - before) / i64::from(workers.max(1));
        let took_s = store.now_s;
        let placed = pool.placed();
        let rate = placed as f64 / took_s;
        rates.push(rate);
        let mut stats = Stats::new();
        stats.set("workers", json!(workers));
        stats.set("nodes", json!(workload.nodes));
        stats.set("tasks", json!(workload.tasks));
        stats.set("placed", json!(placed));
        stats.set("simulated_s", json!(rounded(took_s)));
        stats.set("placements_per_s", json!(rate.round()));
        stats.set("commits", json!(pool.commits));
        stats.set("conflicts", json!(pool.conflicts));
        stats.set("tasks_lost_percent", json!(rounded(pool.lost as f64 * 100.0 / placed.max(1) as f64)));
        let share = |spent_s: f64| json!(rounded(spent_s * 100.0 / (took_s * f64::from(workers))));
        stats.set("decide_percent", share(pool.spent.decide_s));
        stats.set("decode_percent", share(pool.spent.decode_s));
        stats.set("apply_percent", share(pool.spent.apply_s));
        stats.set("commit_wait_percent", share(pool.spent.commit_s));
        stats.set("store_busy_percent", json!(rounded(store.busy_s * 100.0 / took_s)));
        stats.set("worker_mib", json!(each >> 20));
        results.line("conflicts", &format!("workers-{workers}"), stats);
    }
    let most = rates.iter().copied().fold(0.0, f64::max);
    let falls = rates.iter().scan(0.0_f64, |before, &rate| {
        let fall = *before - rate;
        *before = before.max(rate);
        Some(fall.max(0.0))
    });
    let mut stats = Stats::new();
    stats.set("placements_per_s_most", json!(most.round()));
    stats.set("fall_most_percent", json!(rounded(falls.fold(0.0, f64::max) * 100.0 / most)));
    results.line("conflicts", "workers", stats);
    Ok(())
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
