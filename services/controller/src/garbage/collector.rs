//! Removes ended jobs and answers of requests, beside every other process that does the same.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency};
use borough_model::JobId;
use borough_model::job::GoneVersions;
use borough_store::cell::{CellMeta, cell_meta_read};
use borough_store::job::{JobsRemoved, job_versions_forget, jobs_remove};
use borough_store::journal::{Change, ChangeSet, Cursor};
use borough_store::mirror::{EndedJobs, MirrorHandle};
use borough_store::request::{request_expire, request_id_random, request_oldest};
use borough_store::{CellSpace, StoreError, StoreResult, error_chain};
use futures::{StreamExt as _, stream};

use super::awaited::AwaitedJobs;
use super::decide::{jobs_due, jobs_lag_ms};
use super::metrics::GarbageMetrics;

/// Bytes of one transaction: small, so that it delays no other commit.
const BATCH_BYTES: usize = 256 << 10;
/// Parts from which jobs are removed at the same time, while the store writes earlier ones.
const PARTS_AT_ONCE: usize = 4;
/// Jobs of a part that one pass looks at.
const JOBS_MAX: usize = 4_096;
/// Answers removed in one transaction.
const REQUESTS_MAX: usize = 1_000;
/// The pause after a pass that found nothing more to do.
const IDLE: Duration = Duration::from_secs(1);
/// The pause after a pass that failed.
const FAILED: Duration = Duration::from_secs(2);
/// How long a job rests whose tasks were not all dead.
const LEFT: Duration = Duration::from_secs(10);
/// Jobs of which a pass forgets old versions.
const VERSIONS_JOBS_MAX: usize = 64;
/// Tasks that are looked at under one lock of the mirror.
const TASKS_AT_ONCE: usize = 1_000;
/// How long a job rests of which too few versions could go: its tasks still use the others.
const VERSIONS_LEFT: Duration = Duration::from_secs(60);
/// How long one rests that has changed between the look and the commit.
const VERSIONS_CHANGED: Duration = Duration::from_secs(2);
/// How long a pass waits until the mirror shows what it has removed.
const ECHO_WAIT: Duration = Duration::from_secs(5);
/// Behind by more than this, a collector begins anywhere in the time that is due. Others begin elsewhere.
const SPREAD_MS: i64 = 10_000;

/// What a pass over one part has done.
#[derive(Default)]
struct PartDone {
    removed: usize,
    /// Jobs that stay for now.
    left: Vec<JobId>,
    /// Where the journal shows the last removal.
    shown: Option<Cursor>,
}

/// The versions of a job's spec that may go.
struct VersionsDue {
    job: JobId,
    /// The job's revision: once it has another one, others may be in use.
    revision: u64,
    gone: GoneVersions,
    known: BTreeSet<u32>,
}

/// What one pass leaves for the next.
#[derive(Default)]
struct PassMemory {
    /// Jobs with many versions of which too few can go, and until when they rest, in monotonic time.
    versions_left: BTreeMap<JobId, Duration>,
    /// Jobs whose tasks were not all dead, and until when they rest, in monotonic time.
    left: BTreeMap<JobId, Duration>,
    awaited: AwaitedJobs,
}

/// Collects garbage of one cell. Any number of processes may do so at the same time.
pub(crate) struct GarbageCollector {
    pub space: CellSpace,
    pub db: Database,
    pub mirror: MirrorHandle,
    /// The cell's time.
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
    pub metrics: GarbageMetrics,
}

impl GarbageCollector {
    /// Collects until the future is dropped: without a pause while there is something to do.
    pub(crate) async fn collect(&self) -> Infallible {
        self.mirror.ready().await;
        let mut memory = PassMemory::default();
        loop {
            let pause = match self.pass(&mut memory).await {
                Ok(0) => IDLE,
                Ok(_) => Duration::ZERO,
                // It has moved, or its import is under way: nothing of it may change here.
                Err(StoreError::CellClosed { .. }) => FAILED,
                Err(error) => {
                    tracing::warn!(cell = %self.space, error = %error_chain(&error), "cannot collect garbage");
                    FAILED
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// One pass over everything. Returns how much it has removed.
    async fn pass(&self, memory: &mut PassMemory) -> StoreResult<usize> {
        let space = &self.space;
        let meta = self.db.run("cell_meta_read", Idempotency::ReadOnly, |tx, _| async move {
            cell_meta_read(&tx, space).await
        });
        let meta = meta.await?;
        let now = self.clock.monotonic();
        memory.left.retain(|_, until| *until > now);
        memory.versions_left.retain(|_, until| *until > now);
        let (jobs, requests) = tokio::try_join!(self.jobs_pass(&meta, memory), self.requests_pass())?;
        let versions = self.versions_pass(memory).await;
        Ok(jobs.saturating_add(requests).saturating_add(versions))
    }

    /// Forgets old versions of specs. Returns how many.
    async fn versions_pass(&self, memory: &mut PassMemory) -> usize {
        let left = &mut memory.versions_left;
        let rests = |job: &JobId| left.contains_key(job);
        let jobs: Vec<JobId> = self.mirror.read(|state| {
            let many = state.jobs_with_many_versions().iter().filter(|job| !rests(job));
            many.take(VERSIONS_JOBS_MAX).copied().collect()
        });
        let mut forgotten = 0_usize;
        for job in jobs {
            let (of_job, rest) = match self.versions_due(job) {
                Some(due) => match self.versions_forget(&due).await {
                    Ok(of_job) => (of_job, VERSIONS_CHANGED),
                    // Nothing else waits for that.
                    Err(error) => {
                        let error = error_chain(&error);
                        tracing::warn!(cell = %self.space, %job, %error, "cannot forget old versions");
                        (0, VERSIONS_LEFT)
                    }
                },
                None => (0, VERSIONS_LEFT),
            };
            if of_job == 0 {
                left.insert(job, self.clock.monotonic().saturating_add(rest));
            }
            forgotten = forgotten.saturating_add(of_job);
        }
        self.metrics.removed(&self.space.to_string(), "versions", forgotten);
        forgotten
    }

    /// What may go of a job's versions; `None`: nothing, or too little. The rows of its tasks are read behind its own
    /// one and in parts: until that changes, a task only leaves a version that the row does not need.
    fn versions_due(&self, job: JobId) -> Option<VersionsDue> {
        let (row, known) = self.mirror.read(|state| {
            let known: BTreeSet<u32> = state.spec_versions(job).collect();
            Some((Arc::clone(state.jobs().get(&job)?), known))
        })?;
        let (mut used, mut after) = (BTreeSet::new(), None);
        loop {
            let last = self.mirror.read(|state| {
                let part = state.job_tasks_behind(job, after).take(TASKS_AT_ONCE);
                part.inspect(|task| used.extend(task.versions_used())).last().map(|task| task.id.index)
            });
            let Some(last) = last else { break };
            after = Some(last);
        }
        let gone = GoneVersions::decide(&row, &known, &used)?;
        Some(VersionsDue { job, revision: row.revision, gone, known })
    }

    /// Waits until the mirror shows it. Otherwise the next pass would look at the same job again.
    async fn versions_forget(&self, due: &VersionsDue) -> StoreResult<usize> {
        let VersionsDue { job, revision, gone, known } = due;
        let (space, change) = (&self.space, &self.change("job_versions_forget"));
        let run = self.db.run_committed("job_versions_forget", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let forgotten = job_versions_forget(&tx, &mut changes, *job, *revision, gone, known).await?;
            let store_epoch = changes.store_epoch();
            changes.append(&tx)?;
            Ok::<_, StoreError>((forgotten, store_epoch))
        });
        let ((forgotten, store_epoch), committed) = match run.await {
            // Another process has removed the job.
            Err(StoreError::NotFound { .. }) => return Ok(0),
            done => done?,
        };
        if let Some(stamp) = committed.stamp.filter(|_| forgotten > 0) {
            let shown = self.mirror.wait_for(Cursor { store_epoch, stamp });
            tokio::time::timeout(ECHO_WAIT, shown).await.unwrap_or(Ok(()))?;
        }
        Ok(forgotten)
    }

    /// Removes due jobs, several parts at once, from any part on, so that two processes are seldom at the same one.
    async fn jobs_pass(&self, meta: &CellMeta, memory: &mut PassMemory) -> StoreResult<usize> {
        let now_ms = self.clock.wall_ms();
        let oldest_ms = self.mirror.read(|state| state.ended_jobs().oldest_ms());
        self.metrics.lag(&self.space.to_string(), "jobs", jobs_lag_ms(oldest_ms, meta, now_ms));
        let first = usize::try_from(self.rng.next_u64() % EndedJobs::PARTS as u64).unwrap_or(0);
        let PassMemory { left, awaited, .. } = memory;
        let dues: Vec<Vec<JobId>> = self.mirror.read(|state| {
            // Only a job that is due makes the look worth while.
            let awaited = LazyCell::new(|| awaited.of(state));
            let kept = |job| left.contains_key(&job) || awaited.contains(&job);
            let parts = (first..EndedJobs::PARTS).chain(0..first);
            parts.map(|part| jobs_due(state.ended_jobs(), part, meta, now_ms, JOBS_MAX, kept)).collect()
        });
        let dues = dues.into_iter().filter(|jobs| !jobs.is_empty());
        let mut parts = stream::iter(dues).map(|jobs| self.part_pass(jobs)).buffer_unordered(PARTS_AT_ONCE);
        let (mut removed, mut shown) = (0_usize, None);
        let until = self.clock.monotonic().saturating_add(LEFT);
        while let Some(part) = parts.next().await {
            let part = part?;
            removed = removed.saturating_add(part.removed);
            shown = part.shown.max(shown);
            left.extend(part.left.into_iter().map(|job| (job, until)));
        }
        self.metrics.removed(&self.space.to_string(), "jobs", removed);
        if let Some(at) = shown {
            // Otherwise the next pass would look at the same jobs again.
            let waited = tokio::time::timeout(ECHO_WAIT, self.mirror.wait_for(at)).await;
            waited.unwrap_or(Ok(()))?;
        }
        Ok(removed)
    }

    /// Removes these jobs of a part, in as many transactions as needed.
    async fn part_pass(&self, jobs: Vec<JobId>) -> StoreResult<PartDone> {
        let (mut done, mut jobs) = (PartDone::default(), jobs.as_slice());
        while !jobs.is_empty() {
            let (batch, at) = self.jobs_remove(jobs).await?;
            done.removed = done.removed.saturating_add(batch.removed);
            done.left.extend(batch.left);
            done.shown = at.max(done.shown);
            jobs = jobs.get(batch.done..).unwrap_or_default();
        }
        Ok(done)
    }

    fn change(&self, action: &'static str) -> Change {
        let (request, at_ms) = (request_id_random(&*self.rng), self.clock.wall_ms());
        Change { request, actor: "controller".to_owned(), action, at_ms }
    }

    /// Removes the first of these jobs in one transaction. Returns what it did, and where the journal shows it.
    async fn jobs_remove(&self, jobs: &[JobId]) -> StoreResult<(JobsRemoved, Option<Cursor>)> {
        let (space, change) = (&self.space, &self.change("jobs_remove"));
        let run = self.db.run_committed("jobs_remove", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let removed = jobs_remove(&tx, &mut changes, jobs, BATCH_BYTES).await?;
            let store_epoch = changes.store_epoch();
            changes.append(&tx)?;
            Ok::<_, StoreError>((removed, store_epoch))
        });
        let ((removed, store_epoch), committed) = run.await?;
        let at = committed.stamp.filter(|_| removed.removed > 0).map(|stamp| Cursor { store_epoch, stamp });
        Ok((removed, at))
    }

    /// Removes answers that have expired.
    async fn requests_pass(&self) -> StoreResult<usize> {
        let (space, now_ms, change) = (&self.space, self.clock.wall_ms(), &self.change("request_expire"));
        let oldest_ms = self.db.run("request_oldest", Idempotency::ReadOnly, |tx, _| async move {
            request_oldest(&tx, space).await
        });
        let oldest_ms = oldest_ms.await?.unwrap_or(now_ms);
        let lag_ms = now_ms.saturating_sub(oldest_ms).max(0);
        self.metrics.lag(&self.space.to_string(), "requests", lag_ms);
        if oldest_ms > now_ms {
            return Ok(0);
        }
        let spread_ms = if lag_ms > SPREAD_MS { lag_ms.unsigned_abs() } else { 0 };
        let ahead_ms = i64::try_from(self.rng.next_u64() % spread_ms.saturating_add(1)).unwrap_or(0);
        let from_ms = oldest_ms.saturating_add(ahead_ms);
        let mut removed = 0_usize;
        loop {
            let batch = self.db.run("request_expire", Idempotency::Natural, |tx, _| async move {
                // Answers are in no journal. This checks that the cell is here.
                ChangeSet::begin(&tx, space, change).await?;
                request_expire(&tx, space, from_ms, now_ms, REQUESTS_MAX).await
            });
            let batch = batch.await?;
            removed = removed.saturating_add(batch);
            if batch < REQUESTS_MAX {
                break;
            }
        }
        self.metrics.removed(&self.space.to_string(), "requests", removed);
        // One that began ahead has left the beginning to do.
        Ok(removed.max(usize::from(ahead_ms > 0)))
    }
}
