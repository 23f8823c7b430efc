//! `garbage`: a cell whose jobs end as fast as they come, on the embedded engine in its production configuration with
//! production controllers. The benchmark shows how fast ended jobs go, and checks that memory stays flat.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use borough_controller::{Controller, ControllerConfig, GarbageMetrics};
use borough_kv::embedded::{EmbeddedEngine, OpenOptions};
use borough_kv::env::{Clock, Rng, SeededRng, SystemClock};
use borough_kv::{Database, Idempotency};
use borough_model::job::{JobKind, JobSpec};
use borough_model::{JobId, Name};
use borough_store::cell::{CellMeta, cell_create};
use borough_store::job::{job_stop, job_submit, job_tasks_gone};
use borough_store::journal::{Change, ChangeSet};
use borough_store::mirror::{MirrorFollower, MirrorHandle};
use borough_store::request::{request_finish, request_id_random};
use borough_store::{CellSpace, StoreError};
use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::result::{Results, Stats, StatsSet as _};
use crate::soak::bound::Peaks;
use crate::soak::{files_bytes, resident_bytes};

/// How long the answer of a submission is kept: the shortest time of a gateway.
const ANSWER_MS: i64 = 120_000;

/// How many jobs end, and for how long.
#[derive(Debug, Args)]
pub(crate) struct GarbageArguments {
    /// How long it runs
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Seconds between two samples
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    sample_s: u64,
    /// Jobs that are submitted and end per second, in sum
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..), value_name = "JOBS")]
    jobs_per_s: u64,
    /// Tasks of a job
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000), value_name = "TASKS")]
    tasks_per_job: u32,
    /// Ended jobs that the cell keeps
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(100..), value_name = "JOBS")]
    ended_jobs: u64,
    /// Controllers, which all collect
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=8))]
    controllers: u64,
    /// Clients that submit
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    clients: u64,
}

/// What the clients share.
struct GarbageLoad {
    db: Database,
    space: CellSpace,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    spec: JobSpec,
    ended: AtomicU64,
    share_per_s: f64,
}

impl GarbageLoad {
    /// Submits and ends jobs until it is aborted, no faster than its share.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn run(self: Arc<Self>, client: u64) -> anyhow::Result<()> {
        let began = Instant::now();
        for number in 0_u32.. {
            let due = Duration::from_secs_f64(f64::from(number) / self.share_per_s);
            tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
            self.job(client, number).await?;
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// One job, in one transaction: submitted, stopped and ended, with the answer that a gateway keeps.
    async fn job(&self, client: u64, number: u32) -> anyhow::Result<()> {
        let (request, job) = (request_id_random(&*self.rng), JobId(self.rng.next_u64().max(1)));
        let spec = &JobSpec { name: Name::new(format!("job-{client}-{number}"))?, ..self.spec.clone() };
        let at_ms = self.clock.wall_ms();
        let change = &Change { request, actor: "loadtest".to_owned(), action: "job_end", at_ms };
        let space = &self.space;
        let ended = self.db.run("job_end", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            job_submit(&tx, &mut changes, spec, job).await?;
            job_stop(&tx, &mut changes, job).await?;
            job_tasks_gone(&tx, &mut changes, job).await?;
            request_finish(&tx, space, request, &[7; 16], &[7; 24], at_ms.saturating_add(ANSWER_MS))?;
            changes.append(&tx)?;
            Ok::<_, StoreError>(())
        });
        Ok(ended.await?)
    }
}

/// Runs the benchmark in `scratch`, which is removed afterwards.
///
/// # Errors
/// The store failed, or the ended jobs or the memory grew beyond their bounds.
pub(crate) async fn run(
    scratch: &Path,
    arguments: &GarbageArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let held = garbage(&scratch.join("store"), arguments, results).await;
    std::fs::remove_dir_all(scratch).ok();
    held
}

async fn garbage(store: &Path, arguments: &GarbageArguments, results: &mut Results) -> anyhow::Result<()> {
    let clock = SystemClock::shared();
    let (rng, _) = SeededRng::from_kernel();
    let engine = EmbeddedEngine::open(OpenOptions::new(store, Arc::clone(&clock), Arc::clone(&rng)))?;
    let db = Database::new(Arc::new(engine.clone()));
    let space = CellSpace::new(Name::new("bench")?);
    let meta = CellMeta { ended_jobs_max: Some(arguments.ended_jobs), ..CellMeta::default() };
    let (made, at_ms) = (&space, clock.wall_ms());
    let create = db.run("cell_create", Idempotency::Natural, |tx, _| {
        let meta = meta.clone();
        async move { cell_create(&tx, made, &meta, at_ms).await }
    });
    create.await?;
    let cancelled = CancellationToken::new();
    let mirror = MirrorFollower::spawn(db.clone(), space.clone(), Arc::clone(&clock), Arc::clone(&rng));
    let mut controllers = Vec::new();
    for place in 0..arguments.controllers {
        let config = ControllerConfig {
            space: space.clone(),
            holder: format!("controller-{place}"),
            lease_ms: 5_000,
            generation: 0,
            tick: Duration::from_secs(1),
            garbage: GarbageMetrics::default(),
        };
        let (clock, rng) = (Arc::clone(&clock), Arc::clone(&rng));
        let controller = Controller::new(config, db.clone(), mirror.clone(), clock, rng);
        controllers.push(tokio::spawn(controller.run(cancelled.clone())));
    }
    let spec = JobSpec::defaults(
        Name::new("bench")?,
        Name::new("job")?,
        JobKind::Batch,
        vec!["/bin/true".to_owned()],
    );
    #[expect(clippy::cast_precision_loss, reason = "rates far below 2^52")]
    let share_per_s = arguments.jobs_per_s as f64 / arguments.clients as f64;
    let load = Arc::new(GarbageLoad {
        db,
        space,
        clock,
        rng,
        spec: JobSpec { count: arguments.tasks_per_job, ..spec },
        ended: AtomicU64::new(0),
        share_per_s,
    });
    let clients: Vec<_> =
        (0..arguments.clients).map(|client| tokio::spawn(Arc::clone(&load).run(client))).collect();
    let held = samples(store, arguments, &load, &mirror, results).await;
    for client in clients {
        client.abort();
        client.await.ok();
    }
    cancelled.cancel();
    for controller in controllers {
        controller.await.ok();
    }
    engine.close().await;
    held
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn samples(
    store: &Path,
    arguments: &GarbageArguments,
    load: &GarbageLoad,
    mirror: &MirrorHandle,
    results: &mut Results,
) -> anyhow::Result<()> {
    let interval = Duration::from_secs(arguments.sample_s);
    let (began, samples) = (Instant::now(), arguments.minutes * 60 / arguments.sample_s);
    let (mut ended_before, mut kept_before, mut resident) = (0, 0, Vec::new());
    for sample in 1..=samples {
        let at = interval.saturating_mul(u32::try_from(sample)?);
        tokio::time::sleep(at.saturating_sub(began.elapsed())).await;
        let ended = load.ended.load(Ordering::Relaxed);
        let kept = u64::try_from(mirror.read(|state| state.ended_jobs().len()))?;
        let came = ended - ended_before;
        let removed = (came + kept_before).saturating_sub(kept);
        let mut stats = Stats::new();
        stats.set("at_s", json!(began.elapsed().as_secs()));
        stats.set("ended_per_s", json!(came / arguments.sample_s));
        stats.set("removed_per_s", json!(removed / arguments.sample_s));
        stats.set("kept", json!(kept));
        let bytes = resident_bytes()?;
        stats.set("rss_mib", json!(bytes >> 20));
        stats.set("file_mib", json!(files_bytes(store)? >> 20));
        results.line("garbage", "sample", stats);
        ensure!(kept < arguments.ended_jobs * 2, "{kept} ended jobs wait for their removal");
        resident.push(bytes);
        (ended_before, kept_before) = (ended, kept);
    }
    let mut stats = Stats::new();
    stats.set("ended", json!(ended_before));
    stats.set("rss_peak_mib", json!(resident.iter().copied().max().unwrap_or(0) >> 20));
    results.line("garbage", "summary", stats);
    let peaks = Peaks::of(&resident);
    ensure!(!peaks.is_some_and(Peaks::grows), "the memory grows: {peaks:?}");
    Ok(())
}
