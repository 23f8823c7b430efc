//! `job status` and `job history`.

use borough_client::{Client, JobFilter, JobRef};
use borough_proto::v1::{Job, JobSpec, JobState};

use crate::exit::{Code, Failure};
use crate::output::{ExplanationView, JobStatusView, JobVersionView, JobView, Printer, SpecView, TaskOutput};

pub(super) async fn status(client: &Client, job: &JobRef, printer: &Printer) -> Result<Code, Failure> {
    let answer = client.job_get(job).await?;
    let view = status_view(client, answer.job.unwrap_or_default(), answer.spec).await?;
    printer.one(&view, JobStatusView::text)?;
    Ok(Code::Done)
}

/// A job with its tasks, and why some are not placed.
pub(super) async fn status_view(
    client: &Client,
    job: Job,
    spec: Option<JobSpec>,
) -> Result<JobStatusView, Failure> {
    let named = JobRef::new(job.user.as_str(), job.name.as_str());
    let (tasks, _) = client.task_list_of_job(&named).await?;
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
