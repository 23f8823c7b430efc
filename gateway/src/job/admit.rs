//! Admits submissions of one user that come at the same time in one transaction.

use std::ops::Range;
use std::sync::Arc;

use borough_kv::ErrorCode;
use borough_model::{JobId, JobSpec};
use borough_store::job::{AdmissionQueue, JobAdmission, JobSubmitted, jobs_admit};
use borough_store::journal::Cursor;
use borough_store::{StoreError, StoreResult, error_chain};

use crate::cell::{CellContext, KeyedRequest, keyed_run_together};

/// A submission that is to be decided.
#[derive(Clone)]
pub(super) struct Submission {
    pub keyed: Arc<KeyedRequest>,
    pub spec: Arc<JobSpec>,
    /// The id of the job if it is new.
    pub candidate: JobId,
    /// Wall time at which it came, milliseconds since 1970.
    pub submitted_ms: i64,
}

/// What was admitted, and the position of its entry.
pub(super) type Admitted = (JobSubmitted, Option<Cursor>);

/// Submissions that wait, by cell and user.
pub(super) type Admissions = Arc<AdmissionQueue<Submission, Admitted>>;

/// Admits what is plainly new. Returns an answer for each; `None` is to be decided by itself.
pub(super) async fn batch_admit(cell: Arc<CellContext>, batch: Vec<Submission>) -> Vec<Option<Admitted>> {
    let (cell, batch) = (&cell, &batch);
    in_halves(batch.len(), |part| async move {
        let batch = batch.get(part).unwrap_or_default();
        let requests: Vec<&KeyedRequest> = batch.iter().map(|one| &*one.keyed).collect();
        let jobs: Vec<JobAdmission<'_>> = batch.iter().map(Submission::admission).collect();
        let jobs = &jobs;
        let admitted = keyed_run_together(cell, &requests, |tx, mut changes, fresh| async move {
            cell.journal.admit()?;
            cell.ended_jobs.admit()?;
            let jobs: Vec<JobAdmission<'_>> =
                fresh.into_iter().filter_map(|at| jobs.get(at).copied()).collect();
            let admitted = jobs_admit(&tx, &mut changes, &jobs).await?;
            Ok((admitted, changes))
        });
        let (admitted, cursor) = admitted.await?;
        Ok(admitted.into_iter().map(|admitted| admitted.map(|admitted| (admitted, cursor))).collect())
    })
    .await
}

/// Runs a batch of `count` as one, and as its halves if it fails as a whole. Two gateways that admit for one user
/// charge the same quota line. If the one that loses went on one by one, each would lose again.
async fn in_halves<A, F, Fut>(count: usize, run: F) -> Vec<Option<A>>
where
    F: Fn(Range<usize>) -> Fut,
    Fut: Future<Output = StoreResult<Vec<Option<A>>>>,
{
    let mut answers = Vec::with_capacity(count);
    let mut parts: Vec<Range<usize>> = std::iter::once(0..count).collect();
    while let Some(part) = parts.pop() {
        match run(part.clone()).await {
            Ok(of_part) => answers.extend(of_part),
            Err(error) if part.len() > 1 && smaller_may_commit(&error) => {
                let middle = part.start.midpoint(part.end);
                parts.extend([middle..part.end, part.start..middle]);
            }
            // Each is now decided by itself, and gets its own error.
            Err(error) => {
                let (jobs, error) = (part.len(), error_chain(&error));
                tracing::debug!(jobs, %error, "submissions are not admitted together");
                answers.extend(part.map(|_| None));
            }
        }
    }
    answers
}

/// Whether a batch fails as a whole: it is always in conflict, or too long.
fn smaller_may_commit(error: &StoreError) -> bool {
    let StoreError::Kv(error) = error else { return false };
    matches!(
        error.code,
        ErrorCode::NotCommitted
            | ErrorCode::CommitUnknownResult
            | ErrorCode::TransactionTooOld
            | ErrorCode::TransactionTooLarge
    )
}

impl Submission {
    fn admission(&self) -> JobAdmission<'_> {
        JobAdmission {
            spec: &self.spec,
            candidate: self.candidate,
            request: self.keyed.request(),
            submitted_ms: self.submitted_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use borough_kv::KvError;

    use super::*;

    /// Runs a batch of ten, of which parts with more than `most` fail with `code`. Returns the answers and the parts.
    async fn run(most: usize, code: ErrorCode) -> (Vec<Option<usize>>, Vec<usize>) {
        let parts = RefCell::new(Vec::new());
        let answers = in_halves(10, |part| {
            parts.borrow_mut().push(part.len());
            async move {
                if part.len() > most {
                    return Err(StoreError::Kv(KvError::new(code)));
                }
                Ok(part.map(Some).collect())
            }
        });
        let answers = answers.await;
        (answers, parts.into_inner())
    }

    #[tokio::test]
    async fn a_batch_that_loses_is_halved_and_not_taken_apart() {
        let all: Vec<Option<usize>> = (0..10).map(Some).collect();
        assert_eq!(run(10, ErrorCode::NotCommitted).await, (all.clone(), vec![10]));
        assert_eq!(run(3, ErrorCode::NotCommitted).await, (all, vec![10, 5, 2, 3, 5, 2, 3]));
        let none = vec![None; 10];
        assert_eq!(run(0, ErrorCode::NotCommitted).await.0, none);
        assert_eq!(
            run(3, ErrorCode::ProcessBehind).await,
            (none, vec![10]),
            "smaller ones would only add load"
        );
    }
}
