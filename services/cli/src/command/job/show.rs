//! `job status` and `job history`.

use borough_client::{Client, JobFilter, JobRef};
use borough_proto::v1::{Job, JobSpec, JobState, PageRequest, Task, TaskState};

use crate::args::TaskListArguments;
use crate::exit::{Code, Failure};
use crate::output::{ExplanationView, JobStatusView, JobVersionView, JobView, Printer, SpecView, TaskOutput};

pub(super) async fn status(
    client: &Client,
    job: &JobRef,
    listed: &TaskListArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let answer = client.job_get(job).await?;
    let view = status_view(client, answer.job.unwrap_or_default(), answer.spec, listed).await?;
    printer.one(&view, JobStatusView::text)?;
    if let Some(page) = &view.next_page {
        printer.remark(&format!("more tasks follow: repeat the command with --page {page}"));
    }
    Ok(Code::Done)
}

/// The tasks of a job that are listed, and the page that follows them.
async fn tasks_listed(
    client: &Client,
    job: &JobRef,
    listed: &TaskListArguments,
) -> Result<(Vec<Task>, Option<String>), Failure> {
    let states: Vec<TaskState> = listed.state.iter().map(|&state| state.into()).collect();
    let most = listed.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let (mut tasks, mut page) = (Vec::new(), listed.page.clone().unwrap_or_default());
    loop {
        // 0 asks for as many as a page has at most.
        let lacks = most.saturating_sub(tasks.len());
        let limit = listed.limit.map_or(0, |_| u32::try_from(lacks).unwrap_or(u32::MAX));
        let answer = client.task_list_page(job, &states, PageRequest { limit, page }).await?;
        tasks.extend(answer.tasks);
        page = answer.next_page;
        if page.is_empty() || tasks.len() >= most {
            return Ok((tasks, Some(page).filter(|page| !page.is_empty())));
        }
    }
}

/// A job with its tasks, and why some are not placed.
pub(super) async fn status_view(
    client: &Client,
    job: Job,
    spec: Option<JobSpec>,
    listed: &TaskListArguments,
) -> Result<JobStatusView, Failure> {
    let named = JobRef::new(job.user.as_str(), job.name.as_str());
    let (tasks, next_page) = tasks_listed(client, &named, listed).await?;
    let pending = job.tasks.as_ref().is_some_and(|counts| counts.pending > 0);
    let unplaced = if pending && matches!(job.state(), JobState::Running | JobState::Waiting) {
        client.task_explain(&named, None).await?.explanations
    } else {
        Vec::new()
    };
    Ok(JobStatusView {
        job: job.into(),
        tasks: tasks.into_iter().map(TaskOutput::from).collect(),
        unplaced: unplaced.into_iter().map(ExplanationView::from).collect(),
        spec: SpecView::new(spec.as_ref()),
        next_page,
    })
}

pub(super) async fn list(client: &Client, filter: &JobFilter, printer: &Printer) -> Result<Code, Failure> {
    let jobs = client.job_list(filter).await?;
    let views: Vec<JobView> = jobs.into_iter().map(JobView::from).collect();
    printer.list(&views)?;
    Ok(Code::Done)
}

pub(super) async fn history(client: &Client, job: &JobRef, printer: &Printer) -> Result<Code, Failure> {
    let versions = client.job_history(job).await?;
    let views: Vec<JobVersionView> = versions.into_iter().map(JobVersionView::from).collect();
    printer.list(&views)?;
    Ok(Code::Done)
}
