//! Admits submissions of one user that come at the same time in one transaction.

use std::sync::Arc;

use borough_model::{JobId, JobSpec};
use borough_store::error_chain;
use borough_store::job::{AdmissionQueue, JobAdmission, JobSubmitted, jobs_admit};
use borough_store::journal::Cursor;

use crate::cell::{CellContext, KeyedRequest, keyed_run_together};

/// A submission that is to be decided.
#[derive(Clone)]
pub(super) struct Submission {
    pub keyed: Arc<KeyedRequest>,
    pub spec: Arc<JobSpec>,
    /// The id of the job if it is new.
    pub candidate: JobId,
}

/// What was admitted, and the position of its entry.
pub(super) type Admitted = (JobSubmitted, Option<Cursor>);

/// Submissions that wait, by cell and user.
pub(super) type Admissions = Arc<AdmissionQueue<Submission, Admitted>>;

/// Admits what is plainly new. Returns an answer for each; `None` is to be decided by itself.
pub(super) async fn batch_admit(cell: Arc<CellContext>, batch: Vec<Submission>) -> Vec<Option<Admitted>> {
    let requests: Vec<&KeyedRequest> = batch.iter().map(|one| &*one.keyed).collect();
    let jobs: Vec<JobAdmission<'_>> = batch.iter().map(Submission::admission).collect();
    let (jobs, context) = (&jobs, &*cell);
    let admitted = keyed_run_together(&cell, &requests, |tx, mut changes, fresh| async move {
        context.journal.admit()?;
        context.ended_jobs.admit()?;
        let jobs: Vec<JobAdmission<'_>> = fresh.into_iter().filter_map(|at| jobs.get(at).copied()).collect();
        let admitted = jobs_admit(&tx, &mut changes, &jobs).await?;
        Ok((admitted, changes))
    });
    match admitted.await {
        Ok((admitted, cursor)) => {
            admitted.into_iter().map(|admitted| admitted.map(|admitted| (admitted, cursor))).collect()
        }
        // Each is now decided by itself, and gets its own error.
        Err(error) => {
            let (cell, error) = (&cell.name, error_chain(&error));
            tracing::debug!(%cell, jobs = batch.len(), %error, "submissions are not admitted together");
            batch.iter().map(|_| None).collect()
        }
    }
}

impl Submission {
    fn admission(&self) -> JobAdmission<'_> {
        JobAdmission { spec: &self.spec, candidate: self.candidate, request: self.keyed.request() }
    }
}
