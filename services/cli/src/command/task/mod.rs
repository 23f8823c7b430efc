//! Verbs on single tasks.

mod bulk;
mod exec;
mod logs;
mod status;
mod stop;
mod terminal;

use borough_client::{Client, JobRef, TaskFilter, TaskRef};
use borough_proto::v1::{PageRequest, WatchFilter};

pub(super) use self::logs::{gone_text, nothing_text, wait_text};

use super::list::{NoRows, list_page};
use super::selected::jobs_selected;
use super::watch::{WatchedView, list_or_watch};
use crate::args::{Global, ListArguments, TaskVerb, conditions_of, task_states_apart};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{Printer, TaskOutput};

pub(super) async fn run(global: &Global, verb: TaskVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    match verb {
        TaskVerb::Status { target, index, state, list } => {
            let job = target.resolve(client.user());
            if let Some(one) = target.index {
                let task = TaskRef { job, index: one };
                let chooses = index.is_some() || !state.is_empty();
                if chooses || list.limit.is_some() || list.page.is_some() {
                    return Err(status::one_task(&task));
                }
                return status::status(&client, &task, list.watching, printer).await;
            }
            // Who asks for one task, or for those that are dead, gets what a job has left behind too.
            let wanted = index.is_none() && state.is_empty();
            let (states, conditions) = task_states_apart(&state);
            let filter = TaskFilter { index, states, conditions, wanted, ..TaskFilter::of_job(&job) };
            return of_job(&client, &job, &filter, &list, printer).await;
        }
        TaskVerb::List { all, ended, label, state, node, list } => {
            let user = if all || node.is_some() { String::new() } else { client.user().to_owned() };
            let node = node.unwrap_or_default();
            let label = conditions_of(&label);
            jobs_selected(&client, &user, &label, printer).await?;
            let wanted = state.is_empty();
            let (states, conditions) = task_states_apart(&state);
            let filter = TaskFilter {
                user,
                node,
                states,
                conditions,
                selector: label,
                ended,
                wanted,
                ..TaskFilter::default()
            };
            return tasks_list(&client, &filter, &list, printer).await;
        }
        TaskVerb::Logs(arguments) => return logs::logs(&client, &arguments, printer).await,
        TaskVerb::Exec(arguments) => return exec::exec(&client, arguments, printer).await,
        TaskVerb::Signal { target, signal } => {
            let task = target.resolve(client.user());
            client.task_signal(&task, signal).await?;
            printer.remark(&format!("{task}: sent {}", borough_proto::signal::signal_name(signal)));
        }
        TaskVerb::Restart { target } => {
            let task = target.resolve(client.user());
            client.task_restart(&task).await?;
            printer.remark(&format!("{task}: restarting"));
        }
        TaskVerb::Stop(arguments) => return stop::stop(global, &client, &arguments, printer).await,
    }
    Ok(Code::Done)
}

async fn tasks_list(
    client: &Client,
    filter: &TaskFilter,
    listed: &ListArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let fetch = async |page: PageRequest| {
        let is_first = page.page.is_empty();
        let mut answer = client.task_list_page(filter, page).await?;
        // Pages come in the order of the ids of jobs. If one has all, people look for names.
        if is_first && answer.next_page.is_empty() {
            answer.tasks.sort_by(|left, right| {
                (&left.user, &left.job, left.index).cmp(&(&right.user, &right.job, right.index))
            });
        }
        Ok(list_page::<_, TaskOutput>(answer.tasks, answer.next_page))
    };
    let changes = WatchFilter {
        user: filter.user.clone(),
        job: filter.job.clone(),
        node: filter.node.clone(),
        jobs: true,
        tasks: true,
        ..WatchFilter::default()
    };
    // A condition chooses tasks of jobs that are over as well.
    let has_ended = filter.ended || !filter.conditions.is_empty();
    let is_narrow = !filter.job.is_empty() || !filter.node.is_empty();
    let is_of_all = filter.user.is_empty();
    let mut others = Vec::new();
    if !is_narrow && !is_of_all {
        others.push(("of every user, if you may see them", "borough task list --all"));
    }
    if !is_narrow && !has_ended {
        let ended = if is_of_all { "borough task list --all --ended" } else { "borough task list --ended" };
        others.push(("ended ones too", ended));
    }
    let none = NoRows {
        rows: "tasks",
        user: Some(&filter.user),
        cell: client.cell(),
        chosen: *filter
            != TaskFilter { user: filter.user.clone(), wanted: filter.wanted, ..TaskFilter::default() },
        others: &others,
    };
    list_or_watch(WatchedView::cell(client.clone(), changes), listed, none.text(), printer, fetch).await
}

/// The tasks of a job, or a single one.
async fn of_job(
    client: &Client,
    job: &JobRef,
    filter: &TaskFilter,
    listed: &ListArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    // A task in another state than the wanted one is no missing task.
    let is_any_state = filter.states.is_empty() && filter.conditions.is_empty();
    if let (Some(index), true) = (filter.index, is_any_state) {
        let answer = client.task_list_page(filter, PageRequest::default()).await?;
        if answer.tasks.is_empty() {
            return Err(no_such_task(client, &TaskRef { job: job.clone(), index }).await);
        }
    }
    tasks_list(client, filter, listed, printer).await
}

/// The failure of a task that is not there, as a gateway says it.
async fn no_such_task(client: &Client, task: &TaskRef) -> Failure {
    let job = client.job_get(&task.job).await.ok().and_then(|answer| answer.job);
    let known = match job.map(|job| job.count) {
        None => String::new(),
        Some(0) => "; its job has no tasks".to_owned(),
        Some(1) => "; the only one is 0".to_owned(),
        Some(count) => format!("; its job has 0 to {}", count.saturating_sub(1)),
    };
    Failure::new(Code::NotFound, format!("there is no task {task} in cell {}{known}", client.cell()))
        .with_hint(format!("borough task status {}", task.job))
}
