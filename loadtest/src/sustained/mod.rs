//! `sustained`: an engine under endless writes. It is the journal of a cell on the embedded engine in its production
//! configuration, trimmed by the production controller. The benchmark checks that memory stays within a bound.
//!
//! The number and the size of the rows stay the same, so only the journal can grow.

mod journal;
mod load;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use borough_controller::{Controller, ControllerConfig, GarbageMetrics};
use borough_kv::embedded::{EmbeddedEngine, OpenOptions};
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::{Database, Idempotency};
use borough_model::Name;
use borough_store::CellSpace;
use borough_store::cell::{CellMeta, cell_create};
use borough_store::mirror::MirrorFollower;
use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::journal::JournalSample;
use self::load::{LoadShape, SustainedLoad};
use crate::result::{Results, Stats, StatsSet as _, percentiles_of};
use crate::soak::bound::Peaks;
use crate::soak::{files_bytes, resident_bytes};

/// Interval of reading the memory, for its peak within a sample.
const LOOK: Duration = Duration::from_millis(100);
/// Nodes here have no agents, and must not be declared lost.
const LOST_AFTER_MS: u64 = 7 * 24 * 3_600_000;

/// How long, and how hard.
#[derive(Debug, Args)]
pub(crate) struct SustainedArguments {
    /// How long it runs
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Seconds between two samples
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    sample_s: u64,
    /// MiB of journal entries per second that the writers offer together
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    mib_per_s: u64,
    /// Bytes of an entry, about
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u64).range(1_000..=19_000), value_name = "BYTES")]
    entry_bytes: u64,
    /// Writers
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    writers: u32,
    /// Memory beyond which the run ends with an error, in MiB
    #[arg(long, default_value_t = 8_192, value_name = "MIB")]
    rss_max_mib: u64,
}

/// Peaks of each sample over the whole run.
#[derive(Default)]
struct SustainedPeaks {
    resident: Vec<u64>,
    journal: Vec<u64>,
}

/// Runs the benchmark in `scratch`, which is removed afterwards.
///
/// # Errors
/// The store failed, or the memory exceeded the given bound or grew until the end.
pub(crate) async fn run(
    scratch: &Path,
    arguments: &SustainedArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let held = sustained(&scratch.join("store"), arguments, results).await;
    std::fs::remove_dir_all(scratch).ok();
    held
}

async fn sustained(
    store: &Path,
    arguments: &SustainedArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let clock = SystemClock::shared();
    let (rng, _) = SeededRng::from_kernel();
    let engine = EmbeddedEngine::open(OpenOptions::new(store, Arc::clone(&clock), Arc::clone(&rng)))?;
    let db = Database::new(Arc::new(engine.clone()));
    let space = CellSpace::new(Name::new("bench")?);
    let meta = CellMeta { lost_after_ms: LOST_AFTER_MS, ..CellMeta::default() };
    let (made, at_ms) = (&space, clock.wall_ms());
    let create = db.run("cell_create", Idempotency::Natural, |tx, _| {
        let meta = meta.clone();
        async move { cell_create(&tx, made, &meta, at_ms).await }
    });
    create.await?;

    let cancelled = CancellationToken::new();
    let mirror = MirrorFollower::spawn(db.clone(), space.clone(), Arc::clone(&clock), Arc::clone(&rng));
    let config = ControllerConfig {
        space: space.clone(),
        holder: "controller".to_owned(),
        lease_ms: 5_000,
        generation: 0,
        tick: Duration::from_secs(1),
        garbage: GarbageMetrics::default(),
    };
    let controller = Controller::new(config, db.clone(), mirror, Arc::clone(&clock), Arc::clone(&rng));
    let controller = tokio::spawn(controller.run(cancelled.clone()));

    let shape = LoadShape {
        writers: arguments.writers,
        entry_bytes: usize::try_from(arguments.entry_bytes)?,
        bytes_per_s: arguments.mib_per_s << 20,
    };
    let load = SustainedLoad::start(&db, &space, shape, &clock, &rng).await?;
    let mut seen = SustainedPeaks::default();
    let held = samples(store, arguments, &load, &mut seen, results).await;
    load.end().await;
    cancelled.cancel();
    controller.await.ok();
    engine.close().await;
    held?;
    verdict(&seen, arguments, results)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn samples(
    store: &Path,
    arguments: &SustainedArguments,
    load: &SustainedLoad,
    seen: &mut SustainedPeaks,
    results: &mut Results,
) -> anyhow::Result<()> {
    let (began, end) = (Instant::now(), Duration::from_secs(arguments.minutes * 60));
    let interval = Duration::from_secs(arguments.sample_s);
    let mut next = interval;
    while began.elapsed() < end {
        let mut peak = 0;
        while began.elapsed() < next {
            peak = resident_bytes()?.max(peak);
            let within = peak >> 20 <= arguments.rss_max_mib;
            ensure!(within, "the process has {} MiB after {:?}", peak >> 20, began.elapsed());
            load.works()?;
            tokio::time::sleep(LOOK).await;
        }
        next += interval;
        let size = load.journal_size().await?;
        let mut stats = sample(load, size, interval, arguments)?;
        stats.set("at_s", json!(began.elapsed().as_secs()));
        stats.set("rss_peak_mib", json!(peak >> 20));
        stats.set("rss_mib", json!(resident_bytes()? >> 20));
        stats.set("file_mib", json!(files_bytes(store)? >> 20));
        results.line("sustained", "sample", stats);
        seen.resident.push(peak);
        seen.journal.push(size.bytes);
    }
    Ok(())
}

fn sample(
    load: &SustainedLoad,
    size: JournalSample,
    interval: Duration,
    arguments: &SustainedArguments,
) -> anyhow::Result<Stats> {
    let window = load.window_take()?;
    let mut stats = Stats::new();
    let per_s = |amount: u64| json!(amount / interval.as_secs().max(1));
    stats.set("journal_mib", json!(size.bytes >> 20));
    stats.set("journal_entries", json!(size.entries));
    stats.set("offered_kib_per_s", json!(arguments.mib_per_s << 10));
    stats.set("written_kib_per_s", per_s(window.bytes >> 10));
    stats.set("commits_per_s", per_s(window.commits));
    stats.set("refused", json!(window.refused));
    percentiles_of(&mut stats, "commit", &window.commit_us);
    Ok(stats)
}

fn verdict(
    seen: &SustainedPeaks,
    arguments: &SustainedArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let most = |samples: &[u64]| samples.iter().copied().max().unwrap_or(0);
    let mut stats = Stats::new();
    stats.set("minutes", json!(arguments.minutes));
    stats.set("offered_kib_per_s", json!(arguments.mib_per_s << 10));
    stats.set("rss_peak_mib", json!(most(&seen.resident) >> 20));
    stats.set("journal_peak_mib", json!(most(&seen.journal) >> 20));
    let peaks = Peaks::of(&seen.resident);
    if let Some(peaks) = peaks {
        stats.set("rss_middle_peak_mib", json!(peaks.middle >> 20));
        stats.set("rss_last_peak_mib", json!(peaks.last >> 20));
    }
    results.line("sustained", "summary", stats);
    ensure!(!peaks.is_some_and(Peaks::grows), "the memory grows: {peaks:?}");
    Ok(())
}
