//! `job stop`, `job scale` and `job restart` of every job with some labels.

use std::time::Duration;

use borough_client::{Client, JobFilter, JobRef};
use borough_proto::v1::{Job, JobState, Task};
use futures::{StreamExt as _, stream};

use super::deadline::WaitLimits;
use super::progress::{Goal, NextAttempt};
use super::restart::restart_job;
use super::wait::{WaitingOutput, wait};
use crate::args::{Global, JobLabels, RestartArguments, StopArguments, WaitArguments};
use crate::command::bulk::{
    BulkChange, BulkOutcome, BulkWait, SharedTimeout, WAITS_AT_ONCE, confirm_all, none_selected,
};
use crate::command::list::NoRows;
use crate::command::selected::jobs_unknown;
use crate::exit::{Code, Failure};
use crate::output::{JobView, Printer, Progress, RestartedView, tally};

const NOUN: &str = "job";

/// The jobs that a verb with labels is for.
struct LabelledJobs {
    jobs: Vec<Job>,
    names: Vec<String>,
}

impl LabelledJobs {
    /// Reads them page by page. `states` is empty for all that are not over; `rows` says which these are.
    async fn read(
        client: &Client,
        labels: &JobLabels,
        states: &[JobState],
        rows: &'static str,
    ) -> Result<Self, Failure> {
        let user = if labels.all { String::new() } else { client.user().to_owned() };
        let unknown = jobs_unknown(client, &user, &labels.label).await?;
        let (selector, states) = (labels.label.clone(), states.to_vec());
        let filter = JobFilter { user: user.clone(), selector, states, ..JobFilter::default() };
        let jobs = client.job_list(&filter).await?;
        // A mistyped key of `!=` would choose everything.
        if !unknown.is_empty() || jobs.is_empty() {
            let others: &[_] = if labels.all { &[] } else { &[("of every user", "borough job list --all")] };
            let none = NoRows { rows, user: Some(&user), cell: client.cell(), chosen: true, others };
            return Err(none_selected(&unknown, &none.text()));
        }
        let names = jobs.iter().map(|job| named(job).to_string()).collect();
        Ok(Self { jobs, names })
    }
}

fn named(job: &Job) -> JobRef {
    JobRef::new(job.user.as_str(), job.name.as_str())
}

pub(super) async fn stop_all(
    global: &Global,
    client: &Client,
    arguments: &StopArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let LabelledJobs { jobs, names } =
        LabelledJobs::read(client, &arguments.choice.labels, &[], "jobs").await?;
    let what = format!("stop {}", tally(jobs.len(), NOUN));
    let change = BulkChange { what: &what, noun: NOUN, done: "stopped" };
    confirm_all(global, client, change, &names, printer)?;
    let mut outcome = BulkOutcome::new(change, jobs.len());
    let stop = async |job: &Job| {
        let stopped = client.job_stop_of(&named(job), &job.id).await?;
        Ok(stopped.job.unwrap_or_default())
    };
    let stopped = outcome.each(&jobs, |job| named(job).to_string(), stop, printer).await;
    let ended = all_waited(client, stopped, Goal::Over, arguments.wait, &mut outcome, printer).await;
    shown(ended, outcome, printer)
}

pub(super) async fn scale_all(
    global: &Global,
    client: &Client,
    labels: &JobLabels,
    count: u32,
    wait_for: WaitArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let states = [JobState::Waiting, JobState::Running];
    let LabelledJobs { jobs, names } = LabelledJobs::read(client, labels, &states, "jobs").await?;
    let what = format!("scale {} to {count}", tally(jobs.len(), NOUN));
    let change = BulkChange { what: &what, noun: NOUN, done: "scaled and up" };
    confirm_all(global, client, change, &names, printer)?;
    let mut outcome = BulkOutcome::new(change, jobs.len());
    let scale = async |job: &Job| {
        let scaled = client.job_scale_of(&named(job), &job.id, count).await?;
        Ok(scaled.job.unwrap_or_default())
    };
    let scaled = outcome.each(&jobs, |job| named(job).to_string(), scale, printer).await;
    let up = all_waited(client, scaled, Goal::Up, wait_for, &mut outcome, printer).await;
    shown(up, outcome, printer)
}

/// Waits until every job has reached the goal, unless detached.
async fn all_waited(
    client: &Client,
    changed: Vec<Job>,
    goal: Goal,
    arguments: WaitArguments,
    outcome: &mut BulkOutcome<'_>,
    printer: &Printer,
) -> Vec<Job> {
    if arguments.detach {
        return changed;
    }
    let (timeout, still) = (SharedTimeout::begin(arguments.timeout), printer.without_motion());
    let (timeout, still) = (&timeout, &still);
    let wait_for = async |job: Job| {
        let job = named(&job);
        let ended = match wait(client, &job, goal, timeout.left(), still).await {
            Ok(waited) => Ok(as_it_is(client, &job, waited.job).await),
            Err(failure) => Err(failure),
        };
        BulkWait { name: job.to_string(), objects: 1, ended }
    };
    let waits = stream::iter(changed).map(wait_for).buffer_unordered(WAITS_AT_ONCE);
    outcome.waited(waits).await
}

/// The job with the counts of its tasks after the wait. A watch does not have them.
async fn as_it_is(client: &Client, name: &JobRef, waited: Job) -> Job {
    let now = client.job_get(name).await.ok().and_then(|answer| answer.job);
    now.filter(|job| job.id == waited.id).unwrap_or(waited)
}

/// Shows the jobs that were changed, by name, and ends with what has failed.
fn shown(mut jobs: Vec<Job>, outcome: BulkOutcome<'_>, printer: &Printer) -> Result<Code, Failure> {
    jobs.sort_by(|one, other| (&one.user, &one.name).cmp(&(&other.user, &other.name)));
    let views: Vec<JobView> = jobs.into_iter().map(JobView::from).collect();
    if !views.is_empty() || printer.is_machine() {
        printer.list(&views, "")?;
    }
    outcome.done()
}

/// Restarts job after job. One that fails is the last: what it lacks may be what the others would lack too.
pub(super) async fn restart_all(
    global: &Global,
    client: &Client,
    arguments: &RestartArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let labels = &arguments.choice.labels;
    let LabelledJobs { jobs, names } =
        LabelledJobs::read(client, labels, &[JobState::Running], "running jobs").await?;
    let whose = tally(jobs.len(), NOUN);
    let what = format!("restart the tasks of {whose}, one at a time");
    let change = BulkChange { what: &what, noun: NOUN, done: "restarted" };
    confirm_all(global, client, change, &names, printer)?;
    let mut outcome = BulkOutcome::new(change, jobs.len());
    let mut views = Vec::with_capacity(jobs.len());
    for (place, job) in jobs.iter().enumerate() {
        match restart_job(client, &named(job), arguments, printer).await {
            Ok(view) => views.push(view),
            Err(failure) => {
                let hint = failure.hint().map(str::to_owned);
                outcome.failed(named(job), failure);
                outcome.left_alone(jobs.len() - place - 1);
                restarted_show(&views, printer)?;
                return outcome.done().map_err(|failed| match hint {
                    Some(hint) => failed.with_hint(hint),
                    None => failed,
                });
            }
        }
    }
    restarted_show(&views, printer)?;
    outcome.done()
}

fn restarted_show(views: &[RestartedView], printer: &Printer) -> Result<(), Failure> {
    printer.one(&views, |views, _| views.iter().map(|view| view.text()).collect())
}

/// Waits until tasks of one job whose attempts were stopped run again. Returns the tasks.
pub(in crate::command) async fn all_again(
    client: &Client,
    job: &JobRef,
    next: &[NextAttempt],
    timeout: Option<Duration>,
    printer: &Printer,
) -> Result<Vec<Task>, Failure> {
    let mut progress = Progress::new(printer);
    let mut waiting = WaitingOutput::new(client, job, WaitLimits::default(), &mut progress);
    let again = async {
        let mut rows = waiting.open().await?;
        let mut tasks = Vec::with_capacity(next.len());
        for &next in next {
            let goal = Goal::Again(next);
            waiting.reach(&mut rows, goal).await?;
            tasks.extend(rows.known.task_of(goal).cloned());
        }
        Ok(tasks)
    };
    let ended = match timeout {
        None => Ok(again.await),
        Some(timeout) => tokio::time::timeout(timeout, again).await.map_err(|_| timeout),
    };
    progress.reached();
    ended.unwrap_or_else(|timeout| {
        let after = humantime::format_duration(timeout);
        let count = tally(next.len(), "task");
        let message = format!("{job}: not each of {count} runs again after {after}; the restarts go on");
        Err(Failure::new(Code::Failed, message).with_hint(format!("borough job status {job}")))
    })
}
