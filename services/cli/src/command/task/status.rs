//! `task status JOB/INDEX`: one task in full.

use borough_client::{Client, TaskFilter, TaskRef};
use borough_proto::v1::{Health, PageRequest, TaskState, WatchFilter};

use super::no_such_task;
use crate::args::WatchArguments;
use crate::command::job::helper_instead;
use crate::command::watch::{WatchedView, status_watch};
use crate::exit::{Code, Failure};
use crate::output::{ExplanationView, Printer, SilentNodeView, TaskStatusView};

pub(super) async fn status(
    client: &Client,
    task: &TaskRef,
    watching: WatchArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let fetch = async |_| status_view(client, task).await;
    if watching.watch {
        let (user, job) = (task.job.user.clone(), task.job.name.clone());
        let changes = WatchFilter { user, job, tasks: true, ..WatchFilter::default() };
        let watched = WatchedView::cell(client.clone(), changes);
        return status_watch(watched, printer, fetch, TaskStatusView::text).await;
    }
    printer.one(&fetch(None).await?, TaskStatusView::text)?;
    Ok(Code::Done)
}

/// The task, and why it has no node, or that its node does not answer.
async fn status_view(client: &Client, task: &TaskRef) -> Result<TaskStatusView, Failure> {
    let filter = TaskFilter { index: Some(task.index), ..TaskFilter::of_job(&task.job) };
    let answer = client.task_list_page(&filter, PageRequest::default()).await?;
    let Some(row) = answer.tasks.into_iter().next() else { return Err(no_such_task(client, task).await) };
    let is_pending = row.state() == TaskState::Pending;
    let is_unhealthy = row.state() == TaskState::Running && row.health() != Health::Healthy;
    let explanations = if is_pending || is_unhealthy || helper_instead(&row) {
        client.task_explain(&task.job, Some(task.index)).await?.explanations
    } else {
        Vec::new()
    };
    let explanations = explanations.into_iter().map(ExplanationView::from);
    let (unhealthy, unplaced) = explanations.partition(ExplanationView::is_of_running);
    // A node that has just been removed leaves the task without one.
    let silent = match row.node.as_str() {
        "" => None,
        node => client.node_get(node).await.ok().as_ref().and_then(SilentNodeView::of),
    };
    Ok(TaskStatusView {
        cell: client.cell().into(),
        task: row.into(),
        unplaced: if is_pending { unplaced } else { Vec::new() },
        unhealthy,
        silent,
    })
}

/// Refuses options that choose among the tasks of a job.
pub(super) fn one_task(task: &TaskRef) -> Failure {
    let message = format!(
        "--index, --state, --limit and --page choose among the tasks of a job, and {task} is one task"
    );
    Failure::new(Code::Usage, message).with_hint(format!("borough task status {}", task.job))
}
