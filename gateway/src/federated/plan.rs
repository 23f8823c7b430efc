//! What would become of a federated job. The gateway asks the federation process through the store of the home.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::FederatedJobId;
use borough_model::federation::{
    FederatedAnswer, FederatedJob, FederatedJobRow, FederatedQuestion, FederatedState, RebalancedTasks,
    parts_finished,
};
use borough_proto::v1;
use borough_store::StoreError;
use borough_store::federated::{
    active_check, federated_answer_watch, federated_ask, federated_question_end, federated_stopping,
    rebalance_check,
};
use tonic::Status;

use super::message::{Divided, job_message};
use super::{divided_now, message_now};
use crate::cell::CellContext;
use crate::status::{status_from_store, status_unavailable};

/// How long a federation process may take: a question to each cell, and a new leader if the last one is gone.
const ANSWER_MAX: Duration = Duration::from_secs(12);

/// What would become of a job if its owner ran `spec` now.
pub(super) async fn run_plan(
    cell: &CellContext,
    spec: FederatedJob,
) -> Result<v1::PlanFederatedJobResponse, Status> {
    spec.validate().map_err(|errors| status_from_store(&StoreError::InvalidSpec { errors }))?;
    let key = (spec.job.user.clone(), spec.job.name.clone());
    let known = cell.state(|state| state.federated_jobs().get(&key).cloned())?;
    let known = known.filter(|row| row.state != FederatedState::Stopped);
    if let Some(row) = known.as_ref().filter(|row| row.state == FederatedState::Stopping) {
        return Err(status_from_store(&federated_stopping(row)));
    }
    let now = match &known {
        Some(row) => divided_now(cell, row).await?,
        None => Divided::default(),
    };
    // Another job would follow one whose tasks have all ended.
    let known = known.filter(|row| !parts_finished(row, &now.status, &now.parts));
    let (id, asked_ms) = (FederatedJobId(cell.id()), cell.clock.wall_ms());
    let question = FederatedQuestion { spec, asked_ms, answer: None, rebalance: None };
    let answer = answer_of(cell, id, &question).await?;
    let (before, after) = match &known {
        Some(row) => {
            let after = row.run_with(&question.spec, &now.status, asked_ms, row.changed_by.clone());
            (Some(job_message(row, &now)), after)
        }
        None => (None, Some(FederatedJobRow::first(id, question.spec, asked_ms, String::new()))),
    };
    let changed = after.is_some();
    let divided = divided_of(answer);
    let row = after.as_ref().or(known.as_deref());
    let after = row.map(|row| job_message(row, &divided));
    Ok(v1::PlanFederatedJobResponse { before, after, changed })
}

/// What would become of a job if it were rebalanced now.
pub(super) async fn rebalance_plan(
    cell: &CellContext,
    row: &FederatedJobRow,
    which: RebalancedTasks,
) -> Result<v1::PlanFederatedJobResponse, Status> {
    let possible = active_check(row).and_then(|()| rebalance_check(row));
    possible.map_err(|refused| status_from_store(&refused))?;
    let (id, asked_ms) = (FederatedJobId(cell.id()), cell.clock.wall_ms());
    let question =
        FederatedQuestion { spec: row.spec.clone(), asked_ms, answer: None, rebalance: Some(which) };
    let divided = divided_of(answer_of(cell, id, &question).await?);
    let before = message_now(cell, row).await?;
    let after = job_message(row, &divided);
    let counts = |job: &v1::FederatedJob| {
        let parts = job.parts.iter().filter(|part| part.count > 0);
        parts.map(|part| (part.cell.clone(), part.count)).collect::<BTreeMap<_, _>>()
    };
    let changed = counts(&before) != counts(&after);
    Ok(v1::PlanFederatedJobResponse { before: Some(before), after: Some(after), changed })
}

fn divided_of(answer: FederatedAnswer) -> Divided {
    let parts = answer.parts.into_iter().map(|part| (part.cell.clone(), part)).collect();
    Divided { parts, status: answer.status }
}

/// Asks the federation process, and waits for its answer.
async fn answer_of(
    cell: &CellContext,
    id: FederatedJobId,
    question: &FederatedQuestion,
) -> Result<FederatedAnswer, Status> {
    let space = &cell.space;
    let asked = cell.db.run("federated_ask", Idempotency::Natural, |tx, _| async move {
        federated_ask(&tx, space, id, question).await
    });
    asked.await.map_err(|error| status_from_store(&error))?;
    let answer = tokio::time::timeout(ANSWER_MAX, answered(cell, id)).await;
    let end = cell.db.run("federated_question_end", Idempotency::Natural, |tx, _| async move {
        federated_question_end(&tx, space, id).await
    });
    if let Err(error) = end.await {
        // The federation process removes what is left.
        tracing::debug!(%error, "the question of a plan was not removed");
    }
    match answer {
        Ok(Ok(Some(answer))) => Ok(answer),
        Ok(Err(error)) => Err(status_from_store(&error)),
        Ok(Ok(None)) | Err(_) => {
            let message = format!(
                "no federation process of {} has answered within {} s; whether one looks at the cells: borough cell members",
                cell.name,
                ANSWER_MAX.as_secs()
            );
            Err(status_unavailable("FEDERATION_SILENT", message))
        }
    }
}

/// The answer; absent: the question was removed.
async fn answered(cell: &CellContext, id: FederatedJobId) -> Result<Option<FederatedAnswer>, StoreError> {
    let space = &cell.space;
    loop {
        let looked = cell.db.run("federated_answer_watch", Idempotency::ReadOnly, |tx, _| async move {
            federated_answer_watch(&tx, space, id).await
        });
        let (question, watch) = looked.await?;
        match question {
            None => return Ok(None),
            Some(FederatedQuestion { answer: Some(answer), .. }) => return Ok(Some(answer)),
            // A watch that fails leads to another look.
            Some(_) => drop(watch.await),
        }
    }
}
