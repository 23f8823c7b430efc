//! `job status` and `job history`.

use borough_client::{Client, JobFilter, JobRef, TaskFilter};
use borough_proto::v1::{Job, JobSpec, JobState, WatchFilter};

use crate::args::ListArguments;
use crate::command::list::{NoRows, list_page, more_remark, pages};
use crate::command::watch::{WatchedView, limited, list_or_watch, status_watch};
use crate::exit::{Code, Failure};
use crate::output::{
    ExplanationView, JobStatusView, JobVersionView, JobView, Printer, SpecView, TaskOutput, table,
};

/// Which tasks of a job are shown.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskSelection {
    pub(super) filter: TaskFilter,
    pub(super) list: ListArguments,
}

pub(super) async fn status(
    client: &Client,
    job: &JobRef,
    shown: &TaskSelection,
    printer: &Printer,
) -> Result<Code, Failure> {
    if shown.list.watching.watch {
        let watched = WatchedView::cell(client.clone(), changes_of(&job.user, &job.name));
        let fetch = async |rows_max| {
            let answer = client.job_get(job).await?;
            let shown = TaskSelection { list: limited(&shown.list, rows_max), ..shown.clone() };
            status_view(client, answer.job.unwrap_or_default(), answer.spec, &shown).await
        };
        return status_watch(watched, printer, fetch, JobStatusView::text).await;
    }
    let answer = client.job_get(job).await?;
    let view = status_view(client, answer.job.unwrap_or_default(), answer.spec, shown).await?;
    printer.one(&view, JobStatusView::text)?;
    let is_chosen = !shown.filter.states.is_empty() || !shown.filter.conditions.is_empty();
    if is_chosen && view.tasks.is_empty() {
        printer.remark(&format!(
            "no task of job {job} is in such a state; all of them: borough job status {job}"
        ));
    }
    more_remark(view.next_page.as_deref(), "tasks", printer);
    Ok(Code::Done)
}

/// A job with its tasks, and why some are not placed.
pub(super) async fn status_view(
    client: &Client,
    job: Job,
    spec: Option<JobSpec>,
    shown: &TaskSelection,
) -> Result<JobStatusView, Failure> {
    let named = JobRef::new(job.user.as_str(), job.name.as_str());
    let fetch = async |page| {
        let answer = client.task_list_page(&shown.filter, page).await?;
        Ok(list_page(answer.tasks, answer.next_page))
    };
    let mut tasks: Vec<TaskOutput> = Vec::new();
    let next_page = pages(&shown.list, fetch, |rows| {
        tasks.extend(rows);
        Ok(())
    });
    let next_page = next_page.await?;
    let counts = job.tasks.unwrap_or_default();
    // The explanation of a job that never starts names the job that it waited for.
    let never_starts = job.state() == JobState::DependencyFailed;
    let pending = counts.pending > 0 || never_starts;
    // What runs may be unhealthy, run a helper first, or be on a node that does not answer.
    let lives = [counts.starting, counts.running, counts.releasing].iter().any(|count| *count > 0);
    let wanted = pending || lives;
    let is_live = matches!(job.state(), JobState::Running | JobState::Waiting);
    let explanations = if wanted && (is_live || never_starts) {
        client.task_explain(&named, None).await?.explanations
    } else {
        Vec::new()
    };
    let explanations = ExplanationView::all_of(&job, explanations);
    let (unhealthy, unplaced) = explanations
        .into_iter()
        .partition(|explanation| explanation.is_of_running() || explanation.silent_node.is_some());
    Ok(JobStatusView {
        job: job.into(),
        tasks,
        unplaced: if pending { unplaced } else { Vec::new() },
        unhealthy,
        spec: SpecView::new(spec.as_ref()),
        next_page,
    })
}

pub(super) async fn list(
    client: &Client,
    filter: &JobFilter,
    listed: &ListArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let fetch = async |page| {
        let answer = client.job_list_page(filter, page).await?;
        Ok(list_page::<_, JobView>(answer.jobs, answer.next_page))
    };
    let watched = WatchedView::cell(client.clone(), changes_of(&filter.user, ""));
    let others = others_of(filter);
    let none = NoRows {
        rows: "jobs",
        user: Some(&filter.user),
        cell: client.cell(),
        chosen: !filter.states.is_empty() || !filter.selector.is_empty(),
        others: &others,
    };
    list_or_watch(watched, listed, none.text_of(&filter.selector), printer, fetch).await
}

/// The commands that show other jobs than an empty list.
fn others_of(filter: &JobFilter) -> Vec<(&'static str, &'static str)> {
    let is_of_all = filter.user.is_empty();
    // Ended jobs are in the list, or would not be: the states are of those that are over, or of none that is.
    let has_ended = filter.ended || !filter.states.is_empty();
    let ended = if is_of_all { "borough job list --all --ended" } else { "borough job list --ended" };
    let all = (!is_of_all).then_some(("of every user, if you may see them", "borough job list --all"));
    all.into_iter().chain((!has_ended).then_some(("ended ones too", ended))).collect()
}

/// The changes of a job and its tasks, or of many.
fn changes_of(user: &str, job: &str) -> WatchFilter {
    let (user, job) = (user.to_owned(), job.to_owned());
    WatchFilter { user, job, jobs: true, tasks: true, ..WatchFilter::default() }
}

/// The versions of a job, or one of them.
pub(super) async fn history(
    client: &Client,
    job: &JobRef,
    version: Option<u32>,
    printer: &Printer,
) -> Result<Code, Failure> {
    let views = JobVersionView::all(client.job_history(job).await?);
    if let Some(version) = version {
        return self::version(job, views, version, printer);
    }
    printer.one(&views, |views, style| {
        format!("{}{}", table(views, style), JobVersionView::changes_text(views, style))
    })?;
    Ok(Code::Done)
}

/// One version of a job, as the file that would make it again.
fn version(
    job: &JobRef,
    views: Vec<JobVersionView>,
    version: u32,
    printer: &Printer,
) -> Result<Code, Failure> {
    let known: Vec<String> = views.iter().map(|view| view.version.to_string()).collect();
    // Newest first: an earlier job of the name may have a version of this number too.
    let Some(view) = views.into_iter().find(|view| view.version == version) else {
        let message = format!("job {job} has no version {version}; accepted: {}", known.join(", "));
        return Err(Failure::new(Code::NotFound, message).with_hint(format!("borough job history {job}")));
    };
    let text = view.file_text(&job.to_string()).map_err(|fields| {
        let message = format!("no job file can say what these fields of version {version} have");
        let json = format!("borough job history {job} --version {version} -o json");
        Failure::new(Code::Failed, message).with_details(fields).with_hint(json)
    });
    // Programs get the spec, whatever a file can say.
    let text = if printer.is_machine() { String::new() } else { text? };
    printer.one(&view, |_, _| text)?;
    Ok(Code::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_advises_nothing_that_was_given() {
        let of = |filter: JobFilter| {
            others_of(&filter).into_iter().map(|(_, command)| command).collect::<Vec<_>>()
        };
        let ann = || JobFilter { user: "ann".to_owned(), ..JobFilter::default() };
        assert_eq!(of(ann()), ["borough job list --all", "borough job list --ended"]);
        assert_eq!(of(JobFilter { ended: true, ..ann() }), ["borough job list --all"]);
        let failed = borough_proto::v1::JobState::Failed;
        assert_eq!(of(JobFilter { states: vec![failed], ..ann() }), ["borough job list --all"]);
        assert_eq!(of(JobFilter::default()), ["borough job list --all --ended"]);
        assert!(of(JobFilter { ended: true, ..JobFilter::default() }).is_empty());
    }
}
