//! Holds of a gang's members.

use borough_kv::Transaction;
use borough_model::job::JobState;
use borough_model::node::node_open;
use borough_model::task::machine::{HoldStatus, hold_status};
use borough_model::task::{Attempt, GangState, Placement, TaskEvent, TaskRow};
use borough_model::{GangId, TaskId};

use super::{TaskBook, TaskSweep};
use crate::error::{StoreError, StoreResult};
use crate::gang::gang_get;
use crate::job::job_get;
use crate::journal::{ChangeSet, OpenChanges};
use crate::keys::{self, Prefix, RangeOptions, TaskKey};

/// A member and the placement that it holds. The placement names the gang and its epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangHold {
    pub task: TaskId,
    /// Where it holds, and what.
    pub placement: Placement,
    /// The revision of the node's row that was decided on. The row may have changed since.
    pub node_revision: Option<u64>,
}

/// Takes holds for members of a gang that gathers at `epoch`: all of them, or none. Repeating holds changes nothing.
///
/// Unlike a placement, this reads what it decides on, so it may run in the retry loop.
pub async fn gang_hold(
    tx: &Transaction,
    changes: &mut OpenChanges<'_>,
    gang: GangId,
    epoch: u64,
    holds: &[GangHold],
) -> StoreResult<()> {
    let row = gang_get(tx, changes.space(), gang).await?;
    let refuse = |why: &str| Err(StoreError::refused(format!("gang {gang}: {why}")));
    if row.state != GangState::Gathering || row.epoch != epoch || changes.at_ms() >= row.expires_ms {
        return refuse("it does not gather at this epoch any more");
    }
    let job = job_get(tx, changes.space(), row.job).await?;
    if job.state != JobState::Running {
        return refuse("its job does not run");
    }
    let mut book = TaskBook::read(tx, changes.space(), holds.iter().map(|hold| hold.task)).await?;
    book.extend_nodes(tx, changes.space(), holds.iter().map(|hold| hold.placement.node)).await?;
    for GangHold { task, placement, node_revision } in holds {
        if task.job != job.id || task.index >= job.count || placement.gang != Some((gang, epoch)) {
            return refuse("a hold is not of this gang");
        }
        if placement.spec_version != job.version_of(task.index) {
            return refuse("its job has another spec");
        }
        let revision = book.node(placement.node).map(|node| node.revision);
        if node_revision.is_some() && *node_revision != revision {
            return refuse("a node is not what it was");
        }
        let open = book.node(placement.node).map(node_open);
        if open != Some(Ok(())) {
            return refuse("a node takes no tasks");
        }
        book.apply(*task, &TaskEvent::Hold(placement.clone()), changes.at_ms())?
            .or_else(|refused| refuse(&format!("task {task}: {refused}")).map(|()| false))?;
    }
    book.write(tx, changes).await
}

/// Settles the holds of a gang: they become placements if the gang was committed at their epoch, and are released if
/// they are void. Visits at most `limit` rows of the job after `after`.
pub async fn gang_holds_settle(
    tx: &Transaction,
    changes: &mut ChangeSet,
    gang: GangId,
    after: Option<TaskId>,
    limit: usize,
) -> StoreResult<TaskSweep> {
    let row = gang_get(tx, changes.space(), gang).await?;
    let options =
        RangeOptions { after: after.map(TaskKey::of), limit: limit.max(1), ..RangeOptions::default() };
    let rows = keys::range(tx, changes.space(), &Prefix::<TaskKey>::of(&row.job), options).await?;
    let next = rows.last().filter(|_| rows.len() >= limit.max(1)).map(|(_, row)| row.id);
    let settled = rows.into_iter().filter_map(|(_, task)| {
        let status = hold_status(&task, &row, changes.at_ms())?;
        Some((task, status))
    });
    let settled: Vec<(TaskRow, HoldStatus)> = settled.collect();
    let mut book = TaskBook::default();
    let known = settled.iter().map(|(task, _)| (task.id, Some(task.clone())));
    book.extend_rows(tx, changes.space(), known).await?;
    let mut changed = 0_usize;
    for (task, status) in &settled {
        let Some(node) = task.node else { continue };
        let attempt = Attempt { node, incarnation: task.incarnation };
        let event = match status {
            HoldStatus::Waits => continue,
            HoldStatus::Placed => TaskEvent::HoldConfirmed { attempt },
            HoldStatus::Void => TaskEvent::HoldExpired { attempt },
        };
        let applied = book.apply(task.id, &event, changes.at_ms())?;
        changed = changed.saturating_add(usize::from(applied.unwrap_or(false)));
    }
    book.write(tx, changes).await?;
    Ok(TaskSweep { changed, next })
}
