//! `job stop`, `job scale` and `job restart` of several jobs: those that are named, or every one with some labels.

use std::time::Duration;

use borough_client::{Client, ExpectedJob, JobFilter, JobRef, LabelChange};
use borough_proto::v1::{Job, JobKind, JobState, Task};
use futures::{StreamExt as _, stream};

use super::deadline::WaitLimits;
use super::progress::{Goal, NextAttempt};
use super::restart::{RestartStopped, restart_job, running_check};
use super::wait::{WaitingOutput, wait};
use crate::args::{
    Global, JobChoice, JobLabels, JobTarget, RESTART_TIMEOUT, RestartArguments, RestartFrom, ShownJobLabels,
    StopArguments, WaitArguments, conditions_of,
};
use crate::command::bulk::{
    BulkChange, BulkHarm, BulkOutcome, BulkWait, ChosenBy, SharedTimeout, WAITS_AT_ONCE, confirm_all,
    named_read, none_selected, selector_text,
};
use crate::command::confirm::Unattended;
use crate::command::list::NoRows;
use crate::command::selected::jobs_unknown;
use crate::command::unknown::job_missing;
use crate::exit::{Code, Failure};
use crate::output::{JobView, Printer, Progress, RestartedView, tally};

const NOUN: &str = "job";

/// The jobs that a verb on several is for.
pub(in crate::command) struct ChosenJobs {
    pub(in crate::command) jobs: Vec<Job>,
    pub(in crate::command) names: Vec<String>,
    pub(in crate::command) by: ChosenBy,
}

/// Which jobs a verb takes, of those with labels and of those that are named.
pub(in crate::command) struct FitJobs<'f> {
    /// Empty for all that are not over.
    pub(in crate::command) states: &'f [JobState],
    /// The plural that says which these are.
    pub(in crate::command) rows: &'static str,
    pub(in crate::command) unattended: Unattended,
    /// Refuses a job that is named and does not fit.
    pub(in crate::command) check: fn(&JobRef, &Job) -> Result<(), Failure>,
}

impl ChosenJobs {
    /// The jobs that a command line chooses.
    pub(in crate::command) async fn of(
        client: &Client,
        targets: &[JobTarget],
        labels: &JobLabels,
        fit: FitJobs<'_>,
    ) -> Result<Self, Failure> {
        if targets.is_empty() {
            return Self::read(client, labels, fit.states, fit.rows).await;
        }
        let wanted: Vec<JobRef> = targets.iter().map(|target| target.resolve(client.user())).collect();
        let read = async |job: &JobRef| {
            let row = match client.job_get(job).await {
                Ok(answer) => answer.job.unwrap_or_default(),
                Err(error) => return Err(job_missing(client, job, error.into()).await),
            };
            (fit.check)(job, &row).map(|()| row)
        };
        let jobs = named_read(&wanted, NOUN, read).await?;
        let names = jobs.iter().map(|job| named(job).to_string()).collect();
        Ok(Self { jobs, names, by: ChosenBy::Names(fit.unattended) })
    }

    /// Reads them page by page. `states` is empty for all that are not over; `rows` says which these are.
    async fn read(
        client: &Client,
        labels: &JobLabels,
        states: &[JobState],
        rows: &'static str,
    ) -> Result<Self, Failure> {
        let user = if labels.all { String::new() } else { client.user().to_owned() };
        let selector = conditions_of(&labels.label);
        let unknown = jobs_unknown(client, &user, &selector).await?;
        let states = states.to_vec();
        let filter = JobFilter { user: user.clone(), selector, states, ..JobFilter::default() };
        let mut jobs = client.job_list(&filter).await?;
        jobs.sort_by(|one, other| (&one.user, &one.name).cmp(&(&other.user, &other.name)));
        // A mistyped key of `!=` would choose everything.
        if !unknown.is_empty() || jobs.is_empty() {
            let others: &[_] = if labels.all {
                &[]
            } else {
                &[("of every user, if you may see them", "borough job list --all")]
            };
            let none = NoRows { rows, user: Some(&user), cell: client.cell(), chosen: true, others };
            return Err(none_selected(&unknown, &none.text()));
        }
        let names = jobs.iter().map(|job| named(job).to_string()).collect();
        Ok(Self { jobs, names, by: ChosenBy::Labels })
    }
}

/// The jobs that labels choose, for verbs that change nothing.
pub(in crate::command) async fn jobs_shown(
    client: &Client,
    labels: ShownJobLabels,
) -> Result<Vec<JobRef>, Failure> {
    let chosen = ChosenJobs::read(client, &labels.into(), &[], "jobs").await?;
    Ok(chosen.jobs.iter().map(named).collect())
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
    let JobChoice { targets, labels } = &arguments.choice;
    let fit = FitJobs { states: &[], rows: "jobs", unattended: Unattended::Proceed, check: |_, _| Ok(()) };
    let ChosenJobs { jobs, names, by } = ChosenJobs::of(client, targets, labels, fit).await?;
    let what = format!("stop {}", tally(jobs.len(), NOUN));
    let change = BulkChange { what: &what, noun: NOUN, done: "stopped", by, harm: BulkHarm::Ends };
    confirm_all(global, client, change, &names, printer)?;
    let mut outcome = BulkOutcome::new(change, jobs.len());
    let stop = async |job: &Job| {
        let stopped = client.job_stop_of(&named(job), &job.id).await?;
        Ok(stopped.job.unwrap_or_default())
    };
    // An alloc set can only be stopped once the jobs in it are over.
    let (sets, others): (Vec<Job>, Vec<Job>) =
        jobs.into_iter().partition(|job| job.kind() == JobKind::AllocSet);
    let wait_others = if sets.is_empty() { arguments.wait } else { arguments.wait.attached() };
    let mut ended = Vec::new();
    for (jobs, wait) in [(others, wait_others), (sets, arguments.wait)] {
        let stopped = outcome.each(&jobs, |job| named(job).to_string(), &stop, printer).await;
        ended.extend(all_waited(client, stopped, Goal::Over, wait, &mut outcome, printer).await);
    }
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
    let ChosenJobs { jobs, names, by } = ChosenJobs::read(client, labels, &states, "jobs").await?;
    let what = format!("scale {} to {count}", tally(jobs.len(), NOUN));
    let harm = if count == 0 { BulkHarm::Ends } else { BulkHarm::Mild };
    let change = BulkChange { what: &what, noun: NOUN, done: "scaled and up", by, harm };
    confirm_all(global, client, change, &names, printer)?;
    let mut outcome = BulkOutcome::new(change, jobs.len());
    let scale = async |job: &Job| {
        let seen = ExpectedJob { id: job.id.clone(), revision: 0 };
        let scaled = client.job_scale_of(&named(job), seen, count).await?;
        Ok(scaled.job.unwrap_or_default())
    };
    let scaled = outcome.each(&jobs, |job| named(job).to_string(), scale, printer).await;
    let up = all_waited(client, scaled, Goal::Up, wait_for, &mut outcome, printer).await;
    shown(up, outcome, printer)
}

/// Sets and removes labels of every job with some labels that is not over.
pub(super) async fn label_all(
    global: &Global,
    client: &Client,
    labels: &JobLabels,
    wanted: &LabelChange,
    printer: &Printer,
) -> Result<Code, Failure> {
    let ChosenJobs { jobs, names, by } = ChosenJobs::read(client, labels, &[], "jobs").await?;
    let what = format!("change labels of {}", tally(jobs.len(), NOUN));
    let change = BulkChange { what: &what, noun: NOUN, done: "labelled", by, harm: BulkHarm::Mild };
    confirm_all(global, client, change, &names, printer)?;
    let mut outcome = BulkOutcome::new(change, jobs.len());
    let label = async |job: &Job| {
        let labelled = client.job_label(&named(job), wanted.clone()).await?;
        Ok(labelled.job.unwrap_or_default())
    };
    let labelled = outcome.each(&jobs, |job| named(job).to_string(), label, printer).await;
    shown(labelled, outcome, printer)
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
    let JobChoice { targets, labels } = &arguments.choice;
    let fit = FitJobs {
        states: &[JobState::Running],
        rows: "running jobs",
        unattended: Unattended::Proceed,
        check: running_check,
    };
    let ChosenJobs { jobs, names, by } = ChosenJobs::of(client, targets, labels, fit).await?;
    let (first, from) = restart_begin(client, arguments, &jobs)?;
    let (jobs, names) = (jobs.get(first..).unwrap_or_default(), names.get(first..).unwrap_or_default());
    let whose = tally(jobs.len(), NOUN);
    let what = format!("restart the tasks of {whose}, one at a time");
    let change = BulkChange { what: &what, noun: NOUN, done: "restarted", by, harm: BulkHarm::Mild };
    confirm_all(global, client, change, names, printer)?;
    let mut outcome = BulkOutcome::new(change, jobs.len());
    let mut views = Vec::with_capacity(jobs.len());
    for (place, job) in jobs.iter().enumerate() {
        let from = from.filter(|_| place == 0);
        match restart_job(client, &named(job), arguments, from, printer).await {
            Ok(view) => views.push(view),
            Err(RestartStopped { failure, at }) => {
                let rest = names.get(place..).unwrap_or_default();
                let next = restart_rest(arguments, rest, at.or(from).unwrap_or(0));
                let hint = failure.hint().map_or_else(|| next.clone(), |hint| format!("{hint}; {next}"));
                outcome.failed(named(job), failure);
                outcome.left_alone(jobs.len() - place - 1);
                restarted_show(&views, printer)?;
                return outcome.done().map_err(|failed| failed.with_hint(hint));
            }
        }
    }
    restarted_show(&views, printer)?;
    outcome.done()
}

/// The place of the first job that is restarted, and its first task.
fn restart_begin(
    client: &Client,
    arguments: &RestartArguments,
    jobs: &[Job],
) -> Result<(usize, Option<u32>), Failure> {
    let Some(RestartFrom::Task(target)) = &arguments.from else { return Ok((0, None)) };
    let task = target.resolve(client.user());
    let place = jobs.iter().position(|job| named(job) == task.job);
    place.map(|place| (place, Some(task.index))).ok_or_else(|| {
        let message = format!("--from: {} is none of the running jobs with these labels", task.job);
        Failure::new(Code::NotFound, message).with_hint("leave out --from to begin with the first of them")
    })
}

/// The command that goes on with exactly what is left: the first of `rest` from task `index` on, and those after it.
fn restart_rest(arguments: &RestartArguments, rest: &[String], index: u32) -> String {
    let timeout = match arguments.timeout {
        RESTART_TIMEOUT => String::new(),
        timeout => format!(" --timeout {}", humantime::format_duration(timeout).to_string().replace(' ', "")),
    };
    let Some((first, others)) = rest.split_first() else { return String::new() };
    let JobLabels { label, all } = &arguments.choice.labels;
    if !label.is_empty() {
        let (selector, all) = (selector_text(&conditions_of(label)), if *all { " --all" } else { "" });
        return format!(
            "to go on with what is left: borough job restart -l {selector}{all} --from {first}/{index}{timeout}"
        );
    }
    let then = if others.is_empty() {
        String::new()
    } else {
        format!("; then borough job restart {}{timeout}", others.join(" "))
    };
    format!("to go on with what is left: borough job restart {first} --from {index}{timeout}{then}")
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
    waiting.bound(timeout);
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
    let ended = match ended {
        Ok(ended) => ended,
        Err(timeout) => {
            let after = humantime::format_duration(timeout);
            let count = tally(next.len(), "task");
            let message = format!("{job}: not each of {count} runs again after {after}; the restarts go on");
            let failure = waiting.ended_early(Code::Failed, &message).await;
            Err(failure.with_hint(format!("borough why {job}")))
        }
    };
    progress.reached();
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, JobVerb, Verb};

    #[test]
    fn an_ended_restart_goes_on_with_exactly_what_is_left() {
        let next = |line: &str, rest: &[&str], index| {
            let Verb::Job(JobVerb::Restart(arguments)) = Arguments::read(line.split(' ')).unwrap().verb
            else {
                panic!("{line}");
            };
            arguments.check().unwrap();
            let rest: Vec<String> = rest.iter().map(|name| (*name).to_owned()).collect();
            restart_rest(&arguments, &rest, index)
        };
        assert_eq!(
            next("borough job restart -l app=shop,tier!=db --all --timeout 90s", &["ann/b", "ann/c"], 3),
            "to go on with what is left: borough job restart -l 'app=shop,tier!=db' --all --from ann/b/3 --timeout 1m30s"
        );
        assert_eq!(
            next("borough job restart a b c d", &["ann/b", "ann/c", "ann/d"], 0),
            "to go on with what is left: borough job restart ann/b --from 0; then borough job restart ann/c ann/d"
        );
    }

    #[test]
    fn options_of_one_job_are_refused_for_several() {
        let check = |line: &str| match Arguments::read(line.split(' ')).unwrap().verb {
            Verb::Job(JobVerb::Restart(arguments)) => arguments.check().map_err(|text| text[..6].to_owned()),
            other => panic!("{other:?}"),
        };
        for line in ["a --from 2", "a --task 1", "a b", "-l app=x --from ann/a/2", "-l app=x"] {
            assert_eq!(check(&format!("borough job restart {line}")), Ok(()), "{line}");
        }
        for line in ["a b --from 2", "a --from a/2", "-l app=x --from 2"] {
            assert_eq!(check(&format!("borough job restart {line}")), Err("--from".to_owned()), "{line}");
        }
        assert_eq!(check("borough job restart a b --task 2"), Err("--task".to_owned()));
    }
}
