//! Moves of attempts within the disruption budgets of their jobs.

use std::collections::BTreeSet;

use borough_kv::Transaction;
use borough_model::disruption::{DisruptionBudget, DisruptionCause, RECHECKED_MAX, attempts_within};
use borough_model::job::{JobEvent, JobKind, JobMoves, JobRow, JobState};
use borough_model::task::StopReason;
use borough_model::{Incarnation, JobId, TaskId};

use super::alloc::{AllocsLeave, AllocsLeaving, allocs_leaving};
use super::{attempts_read, job_tasks_read, task_stop_begin};
use crate::error::{StoreError, StoreResult};
use crate::job::{job_event, job_get, job_spec_in_force, moves_set, surge_with_dead};
use crate::journal::ChangeSet;
use crate::keys::{self, JobRowKey};

/// Attempts of one job that have to leave their nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskMoves {
    pub job: JobId,
    /// The revision of the job's row by which they were selected.
    pub revision: u64,
    pub attempts: Vec<(TaskId, Incarnation)>,
}

/// Begins to end attempts that have to leave their nodes, of each job no more healthy ones than its disruption budget
/// allows by the present rows. Others may have become unavailable since they were selected. Of a job with more than
/// 1,024 tasks it reads the job's row and these attempts. If the row has another revision by now, it ends no healthy
/// attempt, and else changes the row. So no two steps are decided by the same state, which together could end more than
/// the job allows.
///
/// Of batch work and gangs it ends all: the first serves nobody, and the second runs only as a whole. Returns how many
/// rows have changed.
pub async fn tasks_move(
    tx: &Transaction,
    changes: &mut ChangeSet,
    moves: &[TaskMoves],
    reason: StopReason,
) -> StoreResult<usize> {
    let (mut leaving, mut inside) = (Vec::new(), Vec::new());
    for of_job in moves {
        let row = keys::read(tx, changes.space(), &JobRowKey { job: of_job.job }).await?;
        let Some(row) = row else { continue };
        let within = within_budget(tx, changes, &row, of_job).await?;
        if row.alloc_members().is_none() {
            leaving.extend(within);
            continue;
        }
        let AllocsLeaving { allocs, inside: of_set } =
            allocs_leaving(tx, changes, &row, &within, AllocsLeave::Moves).await?;
        leaving.extend(allocs);
        inside.extend(of_set);
    }
    let followed = task_stop_begin(tx, changes, &inside, StopReason::AllocLeft).await?;
    Ok(followed.saturating_add(task_stop_begin(tx, changes, &leaving, reason).await?))
}

/// Those of the attempts that may leave now.
async fn within_budget(
    tx: &Transaction,
    changes: &mut ChangeSet,
    row: &JobRow,
    moves: &TaskMoves,
) -> StoreResult<Vec<(TaskId, Incarnation)>> {
    // What a stopped job still runs ends anyway.
    if row.state != JobState::Running {
        return Ok(moves.attempts.clone());
    }
    let spec = job_spec_in_force(tx, changes.space(), row).await?;
    if spec.kind == JobKind::Batch || spec.is_gang() {
        return Ok(moves.attempts.clone());
    }
    if row.count <= RECHECKED_MAX {
        let budget = DisruptionBudget::of(&spec, row, DisruptionCause::Move);
        let rows = job_tasks_read(tx, changes.space(), row.id).await?;
        return Ok(attempts_within(&budget, &rows, &moves.attempts, changes.at_ms()));
    }
    let rows = attempts_read(tx, changes.space(), &moves.attempts).await?;
    let healthy: BTreeSet<TaskId> = rows.iter().filter(|row| row.is_healthy()).map(|row| row.id).collect();
    let is_current = row.revision == moves.revision;
    if is_current && !healthy.is_empty() {
        let last = row.moves.as_deref().copied().unwrap_or_default();
        let moves = Box::new(JobMoves { steps: last.steps.saturating_add(1), ..last });
        job_event(tx, changes, row, &JobEvent::MovesSet { moves })?;
    }
    let leaving = moves.attempts.iter().filter(|(task, _)| is_current || !healthy.contains(task));
    Ok(leaving.copied().collect())
}

/// Has `surge` further tasks of a job placed before its tasks leave their nodes: it may miss none. If the quota has no
/// room for them, the row says so, and one task may be away instead. Does nothing if the job's row has another revision
/// by now.
pub async fn moves_surge_begin(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
    surge: u32,
) -> StoreResult<()> {
    let before = job_get(tx, changes.space(), job).await?;
    if before.revision != revision || before.state != JobState::Running || before.surge() > 0 {
        return Ok(());
    }
    let spec = job_spec_in_force(tx, changes.space(), &before).await?;
    let last = before.moves.as_deref().copied().unwrap_or_default();
    let surge = surge_with_dead(tx, changes, &before, surge).await?;
    match moves_set(tx, changes, &before, &spec, JobMoves { surge, ..last }).await {
        Err(StoreError::Refused { .. }) => {
            moves_set(tx, changes, &before, &spec, JobMoves { surge_refused: true, ..last }).await
        }
        set => set,
    }
    .map(drop)
}

/// Ends what surges for moves of a job: nothing has to move any more. Does nothing if the job's row has another
/// revision by now.
pub async fn moves_surge_end(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
) -> StoreResult<()> {
    let before = job_get(tx, changes.space(), job).await?;
    if before.revision != revision || before.state != JobState::Running {
        return Ok(());
    }
    let spec = job_spec_in_force(tx, changes.space(), &before).await?;
    let last = before.moves.as_deref().copied().unwrap_or_default();
    let moves = JobMoves { surge: 0, surge_refused: false, ..last };
    moves_set(tx, changes, &before, &spec, moves).await.map(drop)
}
