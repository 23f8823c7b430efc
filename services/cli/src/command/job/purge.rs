//! `job purge` and `job label`.

use std::collections::BTreeSet;

use borough_client::{Client, ClientError, JobFilter, JobRef, LabelChange};
use borough_proto::v1::{Job, JobState};

use super::bulk::{ChosenJobs, FitJobs};
use super::owned::{PartChange, owned_warn};
use super::run::over_hinted;
use crate::args::{Global, PurgeArguments};
use crate::command::bulk::{BulkChange, BulkHarm, BulkOutcome, ChosenBy, confirm_all};
use crate::command::confirm::{Intent, Unattended, confirm};

use crate::command::list::NoRows;
use crate::command::removed::labels_absent;
use crate::exit::{Code, Failure};
use crate::output::{JobView, Printer, PurgedView, labels_text, tally, word};

/// Forgets one ended job.
pub(super) async fn purge(
    global: &Global,
    client: &Client,
    job: &JobRef,
    printer: &Printer,
) -> Result<Code, Failure> {
    let what = format!("forget job {job} with its history and output");
    // Nobody is asked about a job that is not there, or that runs.
    let row = client.job_get(job).await?.job.unwrap_or_default();
    if !is_over(&row) {
        let state = word(row.state().as_str_name(), "JOB_STATE_");
        return Err(Failure::new(
            Code::Refused,
            format!("job {job} is {state}; only a job that is over is forgotten"),
        )
        .with_hint(format!("borough job stop {job} && borough job purge {job}")));
    }
    confirm(global, client, Intent::forget(&what), printer)?;
    let view = purged(client, job).await?;
    printer.one(&view, |view, _| view.text())?;
    Ok(Code::Done)
}

async fn purged(client: &Client, job: &JobRef) -> Result<PurgedView, ClientError> {
    let jobs = client.job_purge(job).await?.jobs;
    Ok(PurgedView { user: job.user.as_str().into(), name: job.name.as_str().into(), jobs })
}

/// Forgets every ended job of the caller. One whose name a job has that is not over stays: a purge is of a name.
pub(super) async fn purge_all(global: &Global, client: &Client, printer: &Printer) -> Result<Code, Failure> {
    let user = client.user().to_owned();
    let filter = JobFilter { user, ended: true, ..JobFilter::default() };
    let jobs = client.job_list(&filter).await?;
    let ended = jobs.iter().filter(|job| is_over(job));
    let of = |job: &Job| JobRef::new(job.user.as_str(), job.name.as_str());
    let mut names: BTreeSet<JobRef> = ended.map(of).collect();
    let alive: BTreeSet<JobRef> = jobs.iter().filter(|job| !is_over(job)).map(of).collect();
    for job in &alive {
        if names.remove(job) {
            printer.remark(&format!("{job}: its ended ones stay while a job of that name is not over"));
        }
    }
    if !names.is_empty() {
        let jobs = tally(names.len(), "ended job");
        let whose = if names.len() == 1 { "its" } else { "their" };
        let what = format!("forget {jobs} of {} with {whose} history and output", client.user());
        confirm(global, client, Intent::forget(&what), printer)?;
    }
    let names: Vec<JobRef> = names.into_iter().collect();
    let by = ChosenBy::Names(Unattended::Refuse);
    let change = BulkChange {
        what: "forget every ended job",
        noun: "job",
        done: "forgotten",
        by,
        harm: BulkHarm::Ends,
    };
    let mut outcome = BulkOutcome::new(change, names.len());
    let purge = async |job: &JobRef| match purged(client, job).await {
        // Another request was first, or the name has a new job by now.
        Err(ClientError::Refused(refusal))
            if matches!(refusal.code, tonic::Code::NotFound | tonic::Code::FailedPrecondition) =>
        {
            printer.remark(&format!("{job} stays: {refusal}"));
            Ok(None)
        }
        done => Ok(Some(done?)),
    };
    let views = outcome.each(&names, ToString::to_string, purge, printer).await;
    let (views, ended): (Vec<PurgedView>, _) = (views.into_iter().flatten().collect(), outcome.done());
    if !views.is_empty() || ended.is_ok() {
        let (user, cell) = (Some(client.user()), client.cell());
        let none = NoRows { rows: "ended jobs", user, cell, chosen: false, others: &[] };
        printer.list(&views, &none.text())?;
    }
    ended
}

/// The states of jobs that are over.
const OVER: [JobState; 4] =
    [JobState::Succeeded, JobState::Failed, JobState::Stopped, JobState::DependencyFailed];

/// Forgets several ended jobs: those that are named, or those with labels.
pub(super) async fn purge_chosen(
    global: &Global,
    client: &Client,
    arguments: &PurgeArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let fit =
        FitJobs { states: &OVER, rows: "ended jobs", unattended: Unattended::Refuse, check: over_check };
    let chosen = ChosenJobs::of(client, &arguments.targets, &arguments.labels, fit).await?;
    // A name may have several ended jobs, and a purge forgets all of them.
    let of = |job: &Job| JobRef::new(job.user.as_str(), job.name.as_str());
    let jobs: BTreeSet<JobRef> = chosen.jobs.iter().map(of).collect();
    let jobs: Vec<JobRef> = jobs.into_iter().collect();
    let names: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    let whose = if jobs.len() == 1 { "its" } else { "their" };
    let what = format!("forget {} with {whose} history and output", tally(jobs.len(), "ended job"));
    let change =
        BulkChange { what: &what, noun: "job", done: "forgotten", by: chosen.by, harm: BulkHarm::Ends };
    confirm_all(global, client, change, &names, printer)?;
    let mut outcome = BulkOutcome::new(change, jobs.len());
    let purge = async |job: &JobRef| Ok(purged(client, job).await?);
    let views = outcome.each(&jobs, ToString::to_string, purge, printer).await;
    printer.list(&views, "")?;
    outcome.done()
}

/// Refuses a job that is not over.
fn over_check(name: &JobRef, job: &Job) -> Result<(), Failure> {
    if is_over(job) {
        return Ok(());
    }
    let text = format!("job {name} is not over: borough job stop {name}, then purge it");
    Err(Failure::new(Code::Refused, text))
}

fn is_over(job: &Job) -> bool {
    match job.state() {
        JobState::Succeeded | JobState::Failed | JobState::Stopped | JobState::DependencyFailed => true,
        JobState::Unspecified | JobState::Waiting | JobState::Running | JobState::Stopping => false,
    }
}

/// Sets and removes labels.
pub(super) async fn label(
    client: &Client,
    job: &JobRef,
    change: LabelChange,
    printer: &Printer,
) -> Result<Code, Failure> {
    if !change.remove.is_empty() {
        let before = client.job_get(job).await?.job.unwrap_or_default();
        labels_absent(&job.to_string(), &change.remove, before.labels.keys(), printer);
    }
    let labelled = client.job_label(job, change).await.map_err(|error| over_hinted(error.into()))?;
    let labelled = labelled.job.unwrap_or_default();
    owned_warn(client, &labelled, PartChange::Labels, printer).await;
    let text = |job: &JobView, _: &_| labels_text(&format!("{}/{}", job.user, job.name), &job.labels);
    printer.one(&JobView::from(labelled), text)?;
    Ok(Code::Done)
}
