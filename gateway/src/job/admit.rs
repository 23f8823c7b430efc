//! Admits submissions of one user that come at the same time in one transaction.
//!
//! No submission fails for another one. A transaction that fails is tried as two halves, and each part answers its
//! callers at once. What the store does not take now goes back to all callers with the error, since more transactions
//! would only add load.

use std::collections::BTreeSet;
use std::sync::Arc;

use borough_model::job::{Band, JobState, band};
use borough_model::{JobId, JobSpec, Name};
use borough_store::job::{AdmissionQueue, JobAdmission, JobSubmitted, WaitingSubmission, jobs_admit};
use borough_store::journal::Cursor;
use borough_store::mirror::MirrorState;
use borough_store::{StoreError, StoreResult, error_chain};
use tonic::Status;

use crate::cell::{CellContext, KeyedRequest, TopLine, keyed_run_together};
use crate::fault::{WriteFault, fault_of};
use crate::status::status_from_store;

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
pub(super) type Admissions = Arc<AdmissionQueue<Submission, Result<Admitted, Status>>>;

/// A submission of a batch, and its caller.
type WaitingJob = WaitingSubmission<Submission, Result<Admitted, Status>>;

/// Whether a submission is new as far as the mirror knows: no job of its name runs. An update would only take a turn
/// from others.
pub(super) fn submission_is_new(state: &MirrorState, spec: &JobSpec) -> bool {
    let named = state.job_by_name(&spec.user, &spec.name);
    named.is_none_or(|row| matches!(row.state, JobState::Ended { .. }))
}

/// Admits what is plainly new, and answers it. What is dropped without an answer is decided by itself.
pub(super) async fn batch_admit(cell: Arc<CellContext>, batch: Vec<WaitingJob>) {
    let mut parts = vec![batch];
    let _turns = cell.quota_turns.take(tops_of(&cell, &parts)).await;
    while let Some(part) = parts.pop() {
        let error = match part_admit(&cell, &part).await {
            Ok(admitted) => {
                part_answer(&cell, part, admitted);
                continue;
            }
            Err(error) => error,
        };
        match AfterFailure::of(&error, part.len()) {
            AfterFailure::Halves => {
                cell.admissions.halved.inc();
                parts.extend(halves(part));
            }
            AfterFailure::Alone => drop(part),
            AfterFailure::Errors => {
                let (jobs, status) = (part.len(), status_from_store(&error));
                tracing::warn!(cell = %cell.name, jobs, error = %error_chain(&error), "the store does not admit jobs now");
                for one in part {
                    one.answer(Err(status.clone()));
                }
            }
        }
    }
}

/// The limited groups above those who submit. What a gateway does not know yet costs a conflict, and no more.
fn tops_of(cell: &CellContext, parts: &[Vec<WaitingJob>]) -> BTreeSet<TopLine> {
    let Some(table) = cell.access.table() else { return BTreeSet::new() };
    let specs = parts.iter().flatten().map(|one| &one.item.spec);
    let lines: BTreeSet<(&Name, Band)> = specs.map(|spec| (&spec.user, band(spec.priority))).collect();
    let top = |(user, band)| Some(TopLine { group: table.quota_group_top(user, band)?, band });
    lines.into_iter().filter_map(top).collect()
}

/// What happens to submissions whose transaction has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterFailure {
    /// The failure blames none of them: two gateways that admit for one user charge the same quota line. If the one
    /// that loses went on one by one, each would lose again.
    Halves,
    /// Each is decided by itself.
    Alone,
    /// Each gets the error.
    Errors,
}

impl AfterFailure {
    fn of(error: &StoreError, jobs: usize) -> Self {
        match fault_of(error) {
            // A closed cell still answers what it has done before.
            WriteFault::Store if !matches!(error, StoreError::Kv(_)) => Self::Alone,
            WriteFault::Store => Self::Errors,
            WriteFault::Batch | WriteFault::Item if jobs > 1 => Self::Halves,
            WriteFault::Batch | WriteFault::Item => Self::Alone,
        }
    }
}

/// The halves of a part, the first one last, without those whose callers have gone.
fn halves(mut part: Vec<WaitingJob>) -> impl Iterator<Item = Vec<WaitingJob>> {
    part.retain(|one| !one.is_gone());
    let rest = part.split_off(part.len() / 2);
    [rest, part].into_iter().filter(|half| !half.is_empty())
}

/// Admits a part in one transaction. Returns an answer for each; `None` is to be decided by itself.
async fn part_admit(cell: &CellContext, part: &[WaitingJob]) -> StoreResult<Vec<Option<Admitted>>> {
    let requests: Vec<&KeyedRequest> = part.iter().map(|one| &*one.item.keyed).collect();
    let jobs: &Vec<JobAdmission<'_>> = &part.iter().map(|one| one.item.admission()).collect();
    let admitted = keyed_run_together(cell, "jobs_submit", &requests, |tx, mut changes, fresh| async move {
        let jobs: Vec<JobAdmission<'_>> = fresh.into_iter().filter_map(|at| jobs.get(at).copied()).collect();
        let admitted = jobs_admit(&tx, &mut changes, &jobs).await?;
        Ok((admitted, changes))
    });
    let (admitted, cursor) = admitted.await?;
    Ok(admitted.into_iter().map(|admitted| admitted.map(|admitted| (admitted, cursor))).collect())
}

fn part_answer(cell: &CellContext, part: Vec<WaitingJob>, admitted: Vec<Option<Admitted>>) {
    let jobs = admitted.iter().flatten().count();
    if jobs > 0 {
        cell.admissions.transactions.inc();
        cell.admissions.jobs.inc_by(u64::try_from(jobs).unwrap_or(u64::MAX));
    }
    for (one, admitted) in part.into_iter().zip(admitted) {
        if let Some(admitted) = admitted {
            one.answer(Ok(admitted));
        }
    }
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
    use borough_kv::{ErrorCode, KvError};

    use super::*;

    #[test]
    fn a_batch_that_loses_is_halved_and_not_taken_apart() {
        let after = |code, jobs| AfterFailure::of(&StoreError::Kv(KvError::new(code)), jobs);
        for code in [ErrorCode::NotCommitted, ErrorCode::TransactionTooOld, ErrorCode::TransactionTooLarge] {
            assert_eq!(after(code, 128), AfterFailure::Halves);
            assert_eq!(after(code, 2), AfterFailure::Halves);
            assert_eq!(after(code, 1), AfterFailure::Alone);
        }
    }

    #[test]
    fn what_the_store_does_not_take_now_is_not_tried_one_by_one() {
        for jobs in [1, 128] {
            let error = StoreError::Kv(KvError::new(ErrorCode::IoError));
            assert_eq!(AfterFailure::of(&error, jobs), AfterFailure::Errors);
            let closed = StoreError::CellClosed { cell: "alpha".to_owned(), state: "draining" };
            assert_eq!(AfterFailure::of(&closed, jobs), AfterFailure::Alone, "what was done has its answer");
        }
    }
}
