//! `soak`: the embedded engine in its production configuration for a long time under a light load. Its rules are
//! checked throughout, and it is reopened at intervals. The run fails when a rule breaks, or when memory or files grow
//! without bound.

pub(crate) mod bound;
mod check;
mod churn;
mod recurring;
mod rows;
mod store_run;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use borough_kv::env::{SeededRng, SystemClock};
use serde_json::json;

use self::bound::Peaks;
use self::recurring::recurring_tasks;
use self::store_run::StoreRun;
use crate::result::{Results, Stats, StatsSet as _};

/// Interval of samples of memory and files, each with a check of every rule.
const SAMPLE: Duration = Duration::from_secs(10);

/// How long, and how hard.
#[derive(Debug, clap::Args)]
pub(crate) struct SoakArguments {
    /// How long it runs
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Jobs that begin or end per second
    #[arg(long, default_value_t = 40)]
    rate: u32,
    /// Minutes between two openings of the store
    #[arg(long, default_value_t = 10)]
    reopen_minutes: u64,
}

/// Totals of the whole run.
#[derive(Default)]
struct SoakTotals {
    resident: Vec<u64>,
    files: Vec<u64>,
    transactions: u64,
    mutations: u64,
    batches: u64,
    openings: u64,
}

/// Runs the soak in `scratch`, which is removed afterwards. If something broke, it is kept for analysis.
pub(crate) async fn run(
    scratch: &Path,
    arguments: &SoakArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    soak(&scratch.join("store"), arguments, results).await?;
    std::fs::remove_dir_all(scratch).with_context(|| format!("cannot remove {}", scratch.display()))
}

async fn soak(store: &Path, arguments: &SoakArguments, results: &mut Results) -> anyhow::Result<()> {
    let clock = SystemClock::shared();
    let (rng, seed) = SeededRng::from_kernel();
    let mut recurring_tasks = recurring_tasks(arguments.rate, &rng);
    let mut seen = SoakTotals::default();
    let end = Duration::from_secs(arguments.minutes.saturating_mul(60));
    let mut before: Option<check::StoreImage> = None;
    while clock.monotonic() < end {
        let began = clock.monotonic();
        let mut attempt = StoreRun::begin(store, &clock, &rng)?;
        let open_ms = clock.monotonic().saturating_sub(began).as_millis();
        seen.openings += 1;
        if let Some(before) = before.take() {
            let now = check::image(attempt.database()).await?;
            ensure!(now.version > before.version, "versions went back over an opening");
            ensure!(now.rows == before.rows, "the rows are not those of before the closing");
        }
        let until = end.min(began + Duration::from_secs(arguments.reopen_minutes.max(1).saturating_mul(60)));
        attempt.recurring_tasks_begin(std::mem::take(&mut recurring_tasks));
        while clock.monotonic() < until && attempt.works() {
            tokio::time::sleep(SAMPLE.min(until.saturating_sub(clock.monotonic()))).await;
            let mut stats = sample(&attempt, store, &mut seen).await?;
            stats.set("at_s", json!(clock.monotonic().as_secs()));
            stats.set("open_ms", json!(open_ms));
            results.line("soak", "sample", stats);
        }
        let (image, back) = attempt.end(&mut seen).await?;
        before = Some(image);
        recurring_tasks = back;
    }
    verdict(&seen, arguments, seed, results)
}

/// Checks every rule and measures.
async fn sample(attempt: &StoreRun, store: &Path, seen: &mut SoakTotals) -> anyhow::Result<Stats> {
    let image = check::image(attempt.database()).await?;
    check::image_check(&image)?;
    let (resident, files) = (resident_bytes()?, files_bytes(store)?);
    seen.resident.push(resident);
    seen.files.push(files);
    let stats = attempt.stats();
    let mut map = Stats::new();
    map.set("resident_bytes", json!(resident));
    map.set("file_bytes", json!(files));
    map.set("rows", json!(image.rows.len()));
    map.set("transactions", json!(seen.transactions + stats.transactions));
    map.set("mutations", json!(seen.mutations + stats.mutations));
    Ok(map)
}

fn verdict(
    seen: &SoakTotals,
    arguments: &SoakArguments,
    seed: u64,
    results: &mut Results,
) -> anyhow::Result<()> {
    let mut stats = Stats::new();
    stats.set("seed", json!(seed));
    stats.set("minutes", json!(arguments.minutes));
    stats.set("jobs_per_s", json!(arguments.rate));
    stats.set("openings", json!(seen.openings));
    stats.set("checks", json!(seen.resident.len()));
    stats.set("transactions", json!(seen.transactions));
    stats.set("mutations", json!(seen.mutations));
    stats.set("batches", json!(seen.batches));
    let mut growing = Vec::new();
    for (name, samples) in [("resident", &seen.resident), ("file", &seen.files)] {
        let Some(peaks) = Peaks::of(samples) else { continue };
        stats.set(format!("{name}_middle_max_bytes"), json!(peaks.middle));
        stats.set(format!("{name}_last_max_bytes"), json!(peaks.last));
        if peaks.grows() {
            growing.push(format!("{name} bytes grow: {peaks:?}"));
        }
    }
    results.line("soak", "summary", stats);
    if !growing.is_empty() {
        bail!("{}", growing.join("; "));
    }
    Ok(())
}

/// Resident memory of this process.
///
/// # Errors
/// The kernel does not show it.
pub(crate) fn resident_bytes() -> anyhow::Result<u64> {
    let status = procfs::process::Process::myself()?.status()?;
    Ok(status.vmrss.context("no resident memory is given")?.saturating_mul(1024))
}

/// Space that the store takes on the disk, in bytes.
///
/// # Errors
/// Its directory cannot be read.
pub(crate) fn files_bytes(store: &Path) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0_u64;
    for entry in std::fs::read_dir(store)? {
        // A segment may be removed between the listing and the read.
        let Ok(metadata) = entry?.metadata() else { continue };
        bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
    }
    Ok(bytes)
}
