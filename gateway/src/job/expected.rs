//! Refuses a change that was made for a job as it was, and that is another one by now.

use borough_model::job::{JobChanges, JobState};
use borough_model::{JobRow, JobSpec};
use borough_proto::convert::job_id_from_text;
use borough_proto::v1;
use borough_store::job::{job_by_name, job_get};
use borough_store::{RefusalRemedy, StoreError, StoreResult};

/// Why a submission for the job of this id is refused: the name has another job now, or none.
async fn expected_gone(
    tx: &borough_kv::Transaction,
    changes: &borough_store::ChangeSet,
    spec: &JobSpec,
    expected: &str,
) -> StoreResult<StoreError> {
    let found = match job_id_from_text("expected_job", expected) {
        Ok(id) => job_get(tx, changes.space(), id).await,
        Err(_) => Err(StoreError::not_found("the job")),
    };
    let why = match found {
        Ok(row) if row.user == spec.user && row.name == spec.name => format!("job {expected} has ended"),
        Ok(row) => format!("{expected} is the id of job {}/{}", row.user, row.name),
        // A record that has expired leaves nothing behind.
        Err(StoreError::NotFound { .. }) => {
            format!("no job has the id {expected:?}: it never existed, or its record has expired")
        }
        Err(error) => return Err(error),
    };
    let (user, name) = (&spec.user, &spec.name);
    Ok(StoreError::refused_with(
        RefusalRemedy::ReadAgain,
        format!("job {user}/{name} is not the one that the change was made for: {why}; plan again"),
    ))
}

/// Refuses a change that is meant for an earlier job of the name. Empty: it is meant for any.
pub(super) fn meant_check(row: &JobRow, expected: &str) -> StoreResult<()> {
    if expected.is_empty() || row.id.to_string() == expected {
        return Ok(());
    }
    let (user, name) = (&row.user, &row.name);
    Err(StoreError::refused_with(
        RefusalRemedy::ReadAgain,
        format!("job {user}/{name} is {} by now, and {expected} is over", row.id),
    ))
}

/// Refuses a submission made for a job that has changed since, or in place of which another has come.
pub(super) async fn expected_check(
    tx: &borough_kv::Transaction,
    changes: &borough_store::ChangeSet,
    spec: &JobSpec,
    request: &v1::SubmitJobRequest,
) -> StoreResult<()> {
    let v1::SubmitJobRequest { expected_revision: expected, expected_job, .. } = request;
    if *expected == 0 && expected_job.is_empty() && !request.expected_absent {
        return Ok(());
    }
    let live = match job_by_name(tx, changes.space(), &spec.user, &spec.name).await {
        Ok(row) if !matches!(row.state, JobState::Ended { .. }) => Some(row),
        Ok(_) | Err(StoreError::NotFound { .. }) => None,
        Err(error) => return Err(error),
    };
    if let Some(row) = live.as_ref().filter(|_| request.expected_absent) {
        let (user, name, id) = (&spec.user, &spec.name, row.id);
        let reason =
            format!("job {user}/{name} is there already, as {id}; the submission was made for a new job");
        return Err(StoreError::refused_with(RefusalRemedy::ReadAgain, reason));
    }
    let id = live.as_ref().map(|row| row.id.to_string()).unwrap_or_default();
    if !expected_job.is_empty() && *expected_job != id {
        return Err(expected_gone(tx, changes, spec, expected_job).await?);
    }
    if *expected == 0 || live.as_ref().is_some_and(|row| row.is_unchanged_since(*expected)) {
        return Ok(());
    }
    let (user, name) = (&spec.user, &spec.name);
    let Some(revision) = live.as_ref().map(|row| row.revision) else {
        let reason = format!(
            "there is no job {user}/{name} that runs or waits, and the plan was made at its revision {expected}; plan again"
        );
        return Err(StoreError::refused_with(RefusalRemedy::ReadAgain, reason));
    };
    let by = live.as_ref().map(changed_by).unwrap_or_default();
    Err(StoreError::refused_with(
        RefusalRemedy::ReadAgain,
        format!(
            "job {user}/{name} is at revision {revision}, the plan was made at {expected}{by}; plan again"
        ),
    ))
}

/// Refuses a change made for a revision since which the spec, the count or the priority of the job has changed. 0: it
/// is not checked.
pub(super) fn unchanged_check(row: &JobRow, expected: u64) -> StoreResult<()> {
    if expected == 0 || row.is_unchanged_since(expected) {
        return Ok(());
    }
    let JobRow { user, name, revision, .. } = row;
    let by = changed_by(row);
    Err(StoreError::refused_with(
        RefusalRemedy::ReadAgain,
        format!(
            "job {user}/{name} is at revision {revision}, the change was made for {expected}{by}; read it again"
        ),
    ))
}

/// Who has changed a job last; empty: nobody since its submission.
fn changed_by(row: &JobRow) -> String {
    let text = |changes: &JobChanges| {
        let JobChanges { revision, by, .. } = changes;
        format!(": {by} has changed it at revision {revision}")
    };
    row.changes.as_deref().map(text).unwrap_or_default()
}
