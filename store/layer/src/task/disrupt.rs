//! Moves of attempts within the disruption budgets of their jobs.

use std::collections::{BTreeMap, BTreeSet};

use borough_kv::Transaction;
use borough_model::disruption::{DisruptionBudget, DisruptionCause, EndsLeft, RECHECKED_MAX};
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
    for of_job in &moves_of_jobs(moves) {
        let row = keys::read(tx, changes.space(), &JobRowKey { job: of_job.job }).await?;
        let Some(row) = row else { continue };
        let mut bound = move_bound(tx, changes, &row).await?;
        let attempts = match bound {
            MoveBound::Revision => at_revision(tx, changes, &row, of_job).await?,
            MoveBound::Free | MoveBound::Rows(_) => of_job.attempts.clone(),
        };
        if row.alloc_members().is_none() {
            leaving.extend(attempts.into_iter().filter(|(task, _)| bound.take(*task)));
            continue;
        }
        let may_end = |task| bound.take(task);
        let AllocsLeaving { allocs, inside: of_set } =
            allocs_leaving(tx, changes, &row, &attempts, AllocsLeave::Moves, may_end).await?;
        leaving.extend(allocs);
        inside.extend(of_set);
    }
    let followed = task_stop_begin(tx, changes, &inside, StopReason::AllocLeft).await?;
    Ok(followed.saturating_add(task_stop_begin(tx, changes, &leaving, reason).await?))
}

/// The same moves, each job once. Otherwise each part would have the whole budget.
fn moves_of_jobs(moves: &[TaskMoves]) -> Vec<TaskMoves> {
    let mut jobs: BTreeMap<JobId, TaskMoves> = BTreeMap::new();
    for part in moves {
        let TaskMoves { job, revision, ref attempts } = *part;
        let of_job = jobs.entry(job).or_insert(TaskMoves { job, revision, attempts: Vec::new() });
        of_job.revision = of_job.revision.min(revision);
        of_job.attempts.extend(attempts);
    }
    jobs.into_values().collect()
}

/// What bounds the moves of a job's attempts.
enum MoveBound {
    /// Nothing: a stopped job's attempts end anyway, and no budget holds for batch work and gangs.
    Free,
    /// The present rows of all its tasks.
    Rows(EndsLeft),
    /// It has too many tasks to read them all: the revision of its row.
    Revision,
}

impl MoveBound {
    /// Returns true if the attempt may end, and counts it.
    fn take(&mut self, task: TaskId) -> bool {
        match self {
            Self::Free | Self::Revision => true,
            Self::Rows(left) => left.take(task),
        }
    }
}

async fn move_bound(tx: &Transaction, changes: &ChangeSet, row: &JobRow) -> StoreResult<MoveBound> {
    if row.state != JobState::Running {
        return Ok(MoveBound::Free);
    }
    let spec = job_spec_in_force(tx, changes.space(), row).await?;
    if spec.kind == JobKind::Batch || spec.is_gang() {
        return Ok(MoveBound::Free);
    }
    if row.count > RECHECKED_MAX {
        return Ok(MoveBound::Revision);
    }
    let budget = DisruptionBudget::of(&spec, row, DisruptionCause::Move);
    let rows = job_tasks_read(tx, changes.space(), row.id).await?;
    Ok(MoveBound::Rows(EndsLeft::of(&budget, &rows, changes.at_ms())))
}

/// Those of the attempts that may leave by the revision of the job's row, and the step that others see.
async fn at_revision(
    tx: &Transaction,
    changes: &mut ChangeSet,
    row: &JobRow,
    moves: &TaskMoves,
) -> StoreResult<Vec<(TaskId, Incarnation)>> {
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
