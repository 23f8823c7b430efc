//! Reading tasks.

use borough_kv::Transaction;
use borough_model::task::TaskRow;
use borough_model::{Incarnation, JobId, NodeId, TaskId};
use futures::future::try_join_all;

use crate::error::StoreResult;
use crate::keys::{self, CellSpace, NodeTaskKey, Prefix, RangeOptions, TaskKey};

/// The rows of some tasks, without conflicts. Skips tasks without a row.
pub async fn tasks_read_snapshot(
    tx: &Transaction,
    space: &CellSpace,
    tasks: impl IntoIterator<Item = TaskId>,
) -> StoreResult<Vec<TaskRow>> {
    let read = |task: TaskId| async move { keys::read_snapshot(tx, space, &TaskKey::of(task)).await };
    Ok(try_join_all(tasks.into_iter().map(read)).await?.into_iter().flatten().collect())
}

/// The rows of some attempts' tasks, with conflicts. Tasks that were never placed have none.
pub(crate) async fn attempts_read(
    tx: &Transaction,
    space: &CellSpace,
    attempts: &[(TaskId, Incarnation)],
) -> StoreResult<Vec<TaskRow>> {
    let read =
        |&(task, _): &(TaskId, Incarnation)| async move { keys::read(tx, space, &TaskKey::of(task)).await };
    Ok(try_join_all(attempts.iter().map(read)).await?.into_iter().flatten().collect())
}

/// All rows of a job's tasks, with conflicts. Tasks that were never placed have none.
pub(crate) async fn job_tasks_read(
    tx: &Transaction,
    space: &CellSpace,
    job: JobId,
) -> StoreResult<Vec<TaskRow>> {
    let rows = keys::range(tx, space, &Prefix::<TaskKey>::of(&job), RangeOptions::default()).await?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// A page of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskPage {
    /// Rows in order. Tasks that were never placed have none.
    pub rows: Vec<TaskRow>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<TaskId>,
}

/// Rows of the tasks on a node (charged to it, or lost with it) after a task, at most `limit`, without conflicts.
pub async fn task_list_by_node(
    tx: &Transaction,
    space: &CellSpace,
    node: NodeId,
    after: Option<TaskId>,
    limit: usize,
) -> StoreResult<TaskPage> {
    let after = after.map(|task| NodeTaskKey::of(node, task));
    let (found, next) = keys::chunk_read(tx, space, &Prefix::of(&node), after, limit).await?;
    let read =
        |key: NodeTaskKey| async move { keys::read_snapshot(tx, space, &TaskKey::of(key.task())).await };
    let rows = try_join_all(found.into_iter().map(|(key, ())| read(key))).await?;
    Ok(TaskPage { rows: rows.into_iter().flatten().collect(), next: next.map(|key| key.task()) })
}
