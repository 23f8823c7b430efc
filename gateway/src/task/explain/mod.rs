//! Explains tasks: why they have no node, and why those that have one do not run as they should.
//!
//! The scheduler's code explains the nodes. The rows of the tasks say the rest: failures, probes that do not pass,
//! drained and lost nodes, and agents that do not answer.

mod budget;
mod daemon;
mod drained;
mod failing;
mod helper;
mod lost;
mod resize;
mod rows;
mod silent;
mod unhealthy;

use std::collections::BTreeSet;

use borough_model::{JobId, Name, TaskState};
use borough_proto::v1;
use borough_scheduler_core::{Explanation, WaitReason, explain, explain_elsewhere, explain_job};
use borough_store::lease::SCHEDULER_DEFAULT;
use tonic::Status;

use self::budget::{BudgetReport, budget_report, rollout_waits};
use self::rows::{RowsFound, rows_found};
pub(super) use self::silent::silence_text;
use super::message::{job_found, task_found};
use crate::cell::{CellContext, cursor_to_message, lost_after_ms, scheduler_shards_read, scheduler_unserved};
use crate::job::{explanation_message, scheduler_named};
use crate::peer::Peers;

/// The answer to a request for explanations.
pub(super) async fn task_explained(
    cell: &CellContext,
    peers: &Peers,
    request: &v1::ExplainTaskRequest,
) -> Result<v1::ExplainTaskResponse, Status> {
    let (job, cursor) = cell.state(|state| {
        let job = job_found(state, &cell.name, &request.user, &request.job)?;
        if let Some(index) = request.index {
            task_found(state, &cell.name, job, index)?;
        }
        Ok::<_, Status>((job.id, state.cursor()))
    })??;
    let now_ms = cell.clock.wall_ms();
    let unserved = unserved_named(cell, job, now_ms).await?;
    let (index, elsewhere) = (request.index, request.elsewhere);
    let explained = cell.scheduler.ask(move |snapshot| match index {
        Some(index) if elsewhere => vec![(vec![index], explain_elsewhere(snapshot, job, index, now_ms))],
        Some(index) => vec![(vec![index], explain(snapshot, job, index, now_ms))],
        None => explain_job(snapshot, job, now_ms),
    });
    let mut explained = explained.await?;
    let of_rows = if elsewhere {
        Vec::new()
    } else {
        let mut found = rows_found(cell, job, index).await;
        found.connected_drop(cell, peers).await;
        explained.retain(|(indexes, explanation)| !is_said_by_rows(indexes, explanation, &found));
        rows_explained(cell, job, found).await?
    };
    let budget = if elsewhere { budget_of(cell, job) } else { None };
    let of_nodes = explained.into_iter().map(|(indexes, explanation)| {
        let waits = budget.as_ref().and_then(|budget| budget.wait_of(&indexes)).map(str::to_owned);
        let mut message = match &unserved {
            Some(unserved) => unserved_message(unserved, indexes, explanation),
            None => explanation_message(indexes, &explanation),
        };
        message.budget = waits.unwrap_or_default();
        message
    });
    let short = if index.is_none() { cell.state(|state| daemon::unadmitted(state, job))? } else { None };
    let waits =
        if index.is_none() { cell.state(|state| rollout_waits(state, job, now_ms))? } else { Vec::new() };
    let waits = waits.into_iter().map(|text| {
        let headline = format!("the rollout waits for the disruption budget of job {text}");
        explanation_of(Vec::new(), headline, Vec::new())
    });
    let explanations = of_nodes.chain(of_rows).chain(short).chain(waits).collect();
    Ok(v1::ExplainTaskResponse { explanations, cursor: Some(cursor_to_message(cursor)) })
}

fn budget_of(cell: &CellContext, job: JobId) -> Option<BudgetReport> {
    let now_ms = cell.clock.wall_ms();
    cell.mirror.read(|state| budget_report(state, job, now_ms))
}

/// That no worker serves the scheduler of the job, if so.
async fn unserved_named(cell: &CellContext, job: JobId, now_ms: i64) -> Result<Option<String>, Status> {
    let scheduler = cell.state(|state| scheduler_named(state, job))?;
    let scheduler = scheduler.as_ref().map_or(SCHEDULER_DEFAULT, Name::as_str);
    Ok(scheduler_unserved(&scheduler_shards_read(cell).await?, scheduler, now_ms))
}

/// The explanation of tasks whose scheduler nobody serves. Nothing is their turn before a worker does.
fn unserved_message(unserved: &str, indexes: Vec<u32>, mut explanation: Explanation) -> v1::Explanation {
    explanation.waits.retain(|wait| !matches!(wait, WaitReason::Turn { .. }));
    let mut message = explanation_message(indexes, &explanation);
    message.summary = format!("{unserved}; {}", message.summary);
    message.headline = format!("{unserved}; {}", message.headline);
    message
}

/// Returns true if the rows say the same, and more: that a task backs off, or what state it is in.
fn is_said_by_rows(indexes: &[u32], explanation: &Explanation, found: &RowsFound) -> bool {
    let [wait] = explanation.waits.as_slice() else { return false };
    let known: BTreeSet<u32> = match wait {
        WaitReason::BackOff { .. } => found.failing_indexes(),
        // A task that ends is neither failing nor waiting: its state says most.
        WaitReason::State { state: TaskState::Stopping | TaskState::Releasing, .. } => return false,
        WaitReason::State { .. } => found.indexes(),
        _ => return false,
    };
    indexes.iter().all(|index| known.contains(index))
}

/// What the rows of the tasks say.
async fn rows_explained(
    cell: &CellContext,
    job: JobId,
    found: RowsFound,
) -> Result<Vec<v1::Explanation>, Status> {
    let now_ms = cell.clock.wall_ms();
    let mut explanations = found.failing.explained();
    explanations.extend(found.unhealthy.explained());
    explanations.extend(found.in_helper.explained());
    explanations.extend(found.refused.explained());
    explanations.extend(found.lost.into_values().map(lost::explanation));
    explanations.extend(drained::explained(cell, job, found.drained).await?);
    if !found.silent.is_empty() {
        let tolerance_ms = lost_after_ms(cell).await;
        let silent = found.silent.into_values();
        explanations.extend(silent.map(|tasks| silent::explained(tasks, tolerance_ms, now_ms)));
    }
    explanations.extend(found.away.into_values().map(silent::away_explanation));
    Ok(explanations)
}

/// A wall time in RFC 3339, to the second.
fn moment(ms: i64) -> String {
    let since = std::time::Duration::from_millis(u64::try_from(ms).unwrap_or_default());
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + since).to_string()
}

/// An explanation whose summary is its headline and its details.
fn explanation_of(indexes: Vec<u32>, headline: String, details: Vec<String>) -> v1::Explanation {
    let summary = std::iter::once(&headline).chain(&details).cloned().collect::<Vec<_>>().join("; ");
    v1::Explanation { indexes, summary, headline, details, ..v1::Explanation::default() }
}
