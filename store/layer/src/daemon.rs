//! Gives tasks of a daemon job to nodes.

use borough_kv::Transaction;
use borough_model::daemon::NodeServed;
use borough_model::job::{COUNT_MAX, JobEvent, JobRow, JobState};
use borough_model::task::TaskEvent;
use borough_model::{JobId, TaskId};

use crate::error::{StoreError, StoreResult};
use crate::job::{job_event, job_get, job_spec_in_force, job_specs_held};
use crate::journal::ChangeSet;
use crate::quota::{ChargeBasis, quota_charge_each};
use crate::task::TaskBook;

/// Gives each of `serve` a task of a daemon job, as many as the quota has room for, in their order. Each is charged in
/// this transaction, and has a row from now on. `lacking` is how many nodes lack a task in all; the job's row says how
/// many of them the quota has no room for.
///
/// Does nothing if tasks were given to nodes since `steps` was read: two steps are never decided by the same state, so
/// a node never gets two tasks. Returns the row after it.
pub async fn job_nodes_serve(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    steps: u64,
    serve: &[NodeServed],
    lacking: u32,
) -> StoreResult<JobRow> {
    let before = job_get(tx, changes.space(), job).await?;
    let is_current = before.daemon.as_ref().is_some_and(|daemon| daemon.steps == steps);
    if before.state != JobState::Running || !is_current {
        return Ok(before);
    }
    let spec = job_spec_in_force(tx, changes.space(), &before).await?;
    let held = job_specs_held(tx, changes.space(), &before).await?;
    let each = ChargeBasis::with(&before, &spec, &held).share_of(0);
    let (tasks, count) = indexes_of(&before, serve);
    let fitting = match tasks.len() {
        0 => 0,
        most => quota_charge_each(tx, changes.space(), &before, &each, most, changes.at_ms()).await?,
    };
    let mut book =
        TaskBook::read(tx, changes.space(), tasks.iter().take(fitting).map(|(task, _)| *task)).await?;
    let mut again = 0_u32;
    for (task, served) in tasks.iter().take(fitting) {
        let event = TaskEvent::NodeServed { node: served.node };
        let applied = book.apply(*task, &event, changes.at_ms())?;
        // A step that was decided by these rows cannot be refused: the charge would have no owner.
        if !matches!(applied, Ok(true)) {
            let reason = format!("task {task} cannot serve a node: {applied:?}");
            return Err(StoreError::refused(reason));
        }
        again = again.saturating_add(u32::from(served.again.is_some()));
    }
    book.write(tx, changes).await?;
    let given = tasks.iter().take(fitting).filter(|(task, _)| task.index >= before.count).count();
    let count = count.min(before.count.saturating_add(u32::try_from(given).unwrap_or(u32::MAX)));
    let left = lacking.saturating_sub(u32::try_from(fitting).unwrap_or(u32::MAX));
    // What one step leaves to the next one is not short of quota.
    let (unadmitted, left) = if fitting < serve.len() { (left, 0) } else { (0, left) };
    job_event(tx, changes, &before, &JobEvent::NodesServed { count, again, unadmitted, left })
}

/// The task of each node, in their order, and the count of the job with all of them. New tasks get the next indexes.
fn indexes_of<'s>(job: &JobRow, serve: &'s [NodeServed]) -> (Vec<(TaskId, &'s NodeServed)>, u32) {
    let (mut tasks, mut count) = (Vec::with_capacity(serve.len()), job.count);
    for served in serve {
        let index = match served.again {
            Some(index) => index,
            None if count >= COUNT_MAX => continue,
            None => {
                count = count.saturating_add(1);
                count.saturating_sub(1)
            }
        };
        tasks.push((TaskId { job: job.id, index }, served));
    }
    (tasks, count)
}
