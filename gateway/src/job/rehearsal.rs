//! What the cell would say to a submission now. The submission runs in a transaction that is never committed.

use borough_kv::{Idempotency, KvError, Retryable};
use borough_model::{JobId, JobSpec, RequestId};
use borough_store::StoreError;
use borough_store::job::job_submit;
use borough_store::journal::{Change, ChangeSet};
use tonic::Status;

use crate::cell::CellContext;
use crate::status::status_from_store;

/// How a rehearsal ends: always with an error, so that nothing is committed.
#[derive(Debug, thiserror::Error)]
enum RehearsalEnd {
    #[error("the cell would admit it")]
    Admitted,
    #[error(transparent)]
    Failed(#[from] StoreError),
}

impl From<KvError> for RehearsalEnd {
    fn from(error: KvError) -> Self {
        Self::Failed(error.into())
    }
}

impl Retryable for RehearsalEnd {
    fn kv_error(&self) -> Option<&KvError> {
        match self {
            Self::Admitted => None,
            Self::Failed(error) => error.kv_error(),
        }
    }
}

/// Why the cell would refuse `spec`, such as a quota; `None` if it would admit it.
///
/// # Errors
/// The store does not answer, or the spec is not valid.
pub(super) async fn submission_refusal(cell: &CellContext, spec: &JobSpec) -> Result<Option<String>, Status> {
    let request = RequestId(u128::from(cell.id()));
    let change = Change { request, actor: String::new(), action: "job_plan", at_ms: cell.clock.wall_ms() };
    let (change, space, candidate) = (&change, &cell.space, JobId(cell.id()));
    let ended: Result<(), RehearsalEnd> = cell
        .db
        .run("job_plan", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            job_submit(&tx, &mut changes, spec, candidate).await?;
            Err(RehearsalEnd::Admitted)
        })
        .await;
    match ended {
        Ok(()) | Err(RehearsalEnd::Admitted) => Ok(None),
        // The plan itself has said what the running job keeps.
        Err(RehearsalEnd::Failed(StoreError::NeedsUpdate { .. })) => Ok(None),
        Err(RehearsalEnd::Failed(refused @ (StoreError::Refused { .. } | StoreError::CellClosed { .. }))) => {
            Ok(Some(refused.to_string()))
        }
        Err(RehearsalEnd::Failed(error)) => Err(status_from_store(&error)),
    }
}
