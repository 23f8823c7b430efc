//! `task stop` of several tasks: those that are named, or every one of jobs with some labels.

use std::collections::BTreeMap;

use borough_client::{Client, JobRef, TaskFilter, TaskRef};
use borough_proto::v1::{PageRequest, Task, TaskState};
use futures::{StreamExt as _, stream};

use super::no_such_task;
use crate::args::{Global, ListArguments, TaskStopArguments, conditions_of};
use crate::command::bulk::{
    BulkChange, BulkHarm, BulkOutcome, BulkWait, ChosenBy, SharedTimeout, WAITS_AT_ONCE, confirm_all,
    named_read, none_selected,
};
use crate::command::confirm::Unattended;
use crate::command::job::{NextAttempt, all_again};
use crate::command::list::{NoRows, RowsPage, pages};
use crate::command::selected::jobs_unknown;
use crate::exit::{Code, Failure};
use crate::output::{Printer, TaskOutput, tally};

const NOUN: &str = "task";
/// The states of tasks with an attempt that does not end yet.
const WITH_ATTEMPT: [TaskState; 4] =
    [TaskState::Held, TaskState::Assigned, TaskState::Starting, TaskState::Running];

/// The attempt of a task that is stopped.
struct TaskAttempt {
    task: TaskRef,
    job_id: String,
    incarnation: u64,
}

impl From<Task> for TaskAttempt {
    fn from(task: Task) -> Self {
        let named = TaskRef { job: JobRef::new(task.user, task.job), index: task.index };
        Self { task: named, job_id: task.job_id, incarnation: task.incarnation }
    }
}

/// Stops the attempts, and waits until each task runs again.
pub(super) async fn stop_all(
    global: &Global,
    client: &Client,
    arguments: &TaskStopArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let (attempts, by) = if arguments.targets.is_empty() {
        (attempts_of(client, arguments).await?, ChosenBy::Labels)
    } else {
        (attempts_named(client, arguments).await?, ChosenBy::Names(Unattended::Proceed))
    };
    let what = format!("stop {}", tally(attempts.len(), NOUN));
    let change =
        BulkChange { what: &what, noun: NOUN, done: "stopped and running again", by, harm: BulkHarm::Ends };
    let name = |attempt: &TaskAttempt| attempt.task.to_string();
    let names: Vec<String> = attempts.iter().map(name).collect();
    confirm_all(global, client, change, &names, printer)?;
    let mut outcome = BulkOutcome::new(change, attempts.len());
    let stop = async |attempt: &TaskAttempt| {
        let TaskAttempt { task, job_id, incarnation } = attempt;
        let after = client.task_stop_of(task, job_id, *incarnation).await?.incarnation;
        Ok((task.clone(), NextAttempt { index: task.index, after }))
    };
    let stopped = outcome.each(&attempts, name, stop, printer).await;
    if arguments.wait.detach {
        for (task, next) in stopped {
            printer.remark(&format!("{task}: stopping attempt {}", next.after));
        }
        return outcome.done();
    }
    let mut of_jobs: BTreeMap<JobRef, Vec<NextAttempt>> = BTreeMap::new();
    for (task, next) in stopped {
        of_jobs.entry(task.job).or_default().push(next);
    }
    let (timeout, still) = (SharedTimeout::begin(arguments.wait.timeout), printer.without_motion());
    let (timeout, still) = (&timeout, &still);
    let wait_for = async |(job, next): (JobRef, Vec<NextAttempt>)| {
        let ended = all_again(client, &job, &next, timeout.left(), still).await;
        BulkWait { name: job.to_string(), objects: next.len(), ended }
    };
    let waits = stream::iter(of_jobs).map(wait_for).buffer_unordered(WAITS_AT_ONCE);
    let mut again: Vec<Task> = outcome.waited(waits).await.into_iter().flatten().collect();
    again.sort_by(|one, other| (&one.user, &one.job, one.index).cmp(&(&other.user, &other.job, other.index)));
    let views: Vec<TaskOutput> = again.into_iter().map(TaskOutput::from).collect();
    if !views.is_empty() || printer.is_machine() {
        printer.list(&views, "")?;
    }
    outcome.done()
}

/// The attempts of tasks that are named. Each has one.
async fn attempts_named(client: &Client, arguments: &TaskStopArguments) -> Result<Vec<TaskAttempt>, Failure> {
    let wanted: Vec<TaskRef> = arguments.targets.iter().map(|target| target.resolve(client.user())).collect();
    let read = async |task: &TaskRef| {
        let filter = TaskFilter { index: Some(task.index), ..TaskFilter::of_job(&task.job) };
        let row = client.task_list_page(&filter, PageRequest::default()).await?.tasks.pop();
        let Some(row) = row else { return Err(no_such_task(client, task).await) };
        if WITH_ATTEMPT.contains(&row.state()) {
            return Ok(TaskAttempt::from(row));
        }
        Err(Failure::new(Code::Refused, format!("task {task} has no attempt that could be stopped")))
    };
    named_read(&wanted, NOUN, read).await
}

/// The attempts that the labels choose, read page by page.
async fn attempts_of(client: &Client, arguments: &TaskStopArguments) -> Result<Vec<TaskAttempt>, Failure> {
    let labels = &arguments.labels;
    let user = if labels.all { String::new() } else { client.user().to_owned() };
    let selector = conditions_of(&labels.label);
    let unknown = jobs_unknown(client, &user, &selector).await?;
    let states = WITH_ATTEMPT.to_vec();
    let filter = TaskFilter { user: user.clone(), selector, states, ..TaskFilter::default() };
    let fetch = async |page| {
        let answer = client.task_list_page(&filter, page).await?;
        Ok(RowsPage { rows: answer.tasks, next: answer.next_page })
    };
    let (whole, mut attempts) = (ListArguments::default(), Vec::<TaskAttempt>::new());
    let read = pages(&whole, fetch, |rows| {
        attempts.extend(rows.into_iter().map(TaskAttempt::from));
        Ok(())
    });
    read.await?;
    // A mistyped key of `!=` would choose everything.
    if !unknown.is_empty() || attempts.is_empty() {
        let others: &[_] = if labels.all {
            &[]
        } else {
            &[("of every user, if you may see them", "borough task list --all")]
        };
        let none = NoRows {
            rows: "tasks with an attempt",
            user: Some(&user),
            cell: client.cell(),
            chosen: true,
            others,
        };
        return Err(none_selected(&unknown, &none.text()));
    }
    Ok(attempts)
}
