//! Admits the benchmark's jobs as a gateway does: those that come at once share transactions, and each has a record of
//! its request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use borough_kv::{Database, Idempotency};
use borough_model::{JobId, JobSpec};
use borough_store::job::{
    AdmissionAuthor, AdmissionQueue, JobAdmission, WaitingSubmission, job_submit, jobs_admit,
};
use borough_store::journal::{Change, ChangeSet};
use borough_store::request::{RequestBegun, RequestDone, request_begin, request_finish, requests_finish};
use borough_store::{CellSpace, StoreError, StoreResult};

/// For how long the answer of a submission is kept.
const ANSWER_KEPT_MS: i64 = 120_000;
/// What is recorded of a request: as many bytes as a gateway records.
const DIGEST: [u8; 16] = [0; 16];
const ANSWER: [u8; 16] = [0; 16];

/// A job that waits for its admission.
#[derive(Clone)]
pub(super) struct BenchSubmission {
    pub spec: JobSpec,
    pub candidate: JobId,
    pub change: Change,
}

/// A job of a batch, and who submitted it.
type BenchWaiting = WaitingSubmission<BenchSubmission, ()>;

/// The jobs of a cell that wait for their admission.
pub(super) struct BenchAdmissions {
    /// `None`: each job has a transaction of its own.
    queue: Option<Arc<AdmissionQueue<BenchSubmission, ()>>>,
    /// Jobs that were admitted by themselves after a shared transaction.
    alone: AtomicU64,
}

impl Default for BenchAdmissions {
    fn default() -> Self {
        Self { queue: Some(Arc::default()), alone: AtomicU64::new(0) }
    }
}

impl BenchAdmissions {
    /// At most so many jobs in one transaction. With 1, each begins at once, whatever others do.
    pub(super) fn with_most(most: usize) -> Self {
        let queue = (most > 1).then(|| Arc::new(AdmissionQueue::with_most(most)));
        Self { queue, alone: AtomicU64::new(0) }
    }

    /// Jobs that were admitted by themselves after a shared transaction, so far.
    pub(super) fn alone(&self) -> u64 {
        self.alone.load(Ordering::Relaxed)
    }

    /// Admits a job, with others that come at the same time. `change` makes the change of a shared transaction.
    pub(super) async fn admit<F>(
        &self,
        db: &Database,
        space: &CellSpace,
        submission: BenchSubmission,
        change: F,
    ) -> StoreResult<()>
    where
        F: Fn() -> Change + Send + 'static,
    {
        if let Some(queue) = &self.queue {
            let spec = &submission.spec;
            let author = AdmissionAuthor { space: space.clone(), user: spec.user.clone() };
            let bytes = minicbor::to_vec(spec).map_or(0, |bytes| bytes.len());
            let (of_batch, in_space) = (db.clone(), space.clone());
            let admit = move |batch| batch_admit(of_batch.clone(), in_space.clone(), change(), batch);
            let admitted = queue.admit(author, submission.clone(), bytes, admit).await;
            if admitted.map_err(|full| StoreError::refused(full.to_string()))?.is_some() {
                return Ok(());
            }
            self.alone.fetch_add(1, Ordering::Relaxed);
        }
        alone_admit(db, space, &submission).await
    }
}

/// Admits jobs in one transaction. What it leaves is admitted by itself. So is everything after an error, which each
/// then gets for itself.
async fn batch_admit(db: Database, space: CellSpace, change: Change, batch: Vec<BenchWaiting>) {
    let (change, space, jobs) = (&change, &space, &batch);
    let admit = db.run("jobs_submit", Idempotency::Natural, |tx, _| async move {
        let mut changes = ChangeSet::begin_open(&tx, space, change).await?;
        let jobs = jobs.iter().map(|WaitingSubmission { item, .. }| JobAdmission {
            spec: &item.spec,
            candidate: item.candidate,
            request: item.change.request,
            submitted_ms: item.change.at_ms,
        });
        let jobs: Vec<_> = jobs.collect();
        let admitted = jobs_admit(&tx, &mut changes, &jobs).await?;
        let done = jobs.iter().zip(&admitted).filter(|(_, admitted)| admitted.is_some());
        let done = done.map(|(job, _)| RequestDone {
            request: job.request,
            digest: &DIGEST,
            result: ANSWER.to_vec(),
        });
        requests_finish(&tx, space, change.request, done.collect(), change.at_ms + ANSWER_KEPT_MS)?;
        changes.append(&tx)?;
        Ok::<_, StoreError>(admitted)
    });
    let admitted = admit.await.unwrap_or_default();
    for (one, _) in batch.into_iter().zip(admitted).filter(|(_, admitted)| admitted.is_some()) {
        one.answer(());
    }
}

/// Admits a job in a transaction of its own.
async fn alone_admit(db: &Database, space: &CellSpace, submission: &BenchSubmission) -> StoreResult<()> {
    let BenchSubmission { spec, candidate, change } = submission;
    let submit = db.run("job_submit", Idempotency::Keyed(change.request.0), |tx, _| async move {
        if request_begin(&tx, space, change.request, &DIGEST).await? != RequestBegun::Fresh {
            return Ok(());
        }
        let mut changes = ChangeSet::begin_open(&tx, space, change).await?;
        job_submit(&tx, &mut changes, spec, *candidate).await?;
        request_finish(&tx, space, change.request, &DIGEST, &ANSWER, change.at_ms + ANSWER_KEPT_MS)?;
        changes.append(&tx)
    });
    submit.await
}
