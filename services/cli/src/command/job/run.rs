//! `job run`, `job scale` and `job stop`: make a change and wait for its effect.

use std::path::Path;
use std::time::Duration;

use borough_client::{Client, ClientError, ExpectedJob, JobRef, TaskFilter};
use borough_proto::convert::job_spec_to_message;
use borough_proto::v1::{Job, JobKind, JobSpec, JobState, RolloutState};
use tonic::Code as Status;

use super::deadline::WaitLimits;
use super::detached::{begun_text, fit_warn, fit_warning};
use super::file::{file_load, refusal_placed};
use super::owned::{PartChange, owned_warn};
use super::progress::Goal;
use super::show::{TaskSelection, status_view};
use super::wait::{Waited, wait};
use crate::args::{Global, RunArguments, WaitArguments};
use crate::connect;
use crate::exit::{Code, Failure, RUN_AGAIN};
use crate::jobfile::{LoadedFile, path_shown};
use crate::output::{
    EndpointView, Foreign, JobView, PlanView, Printer, Style, changes_text, table, version_changes_since,
};

/// Whether a verb waits for the effect of its change.
#[derive(Clone, Copy, Debug)]
pub(super) enum WaitMode {
    Detached,
    /// Waits at most this long. Without a limit it waits until the job can no longer reach its goal.
    Until(WaitLimits),
}

impl From<WaitArguments> for WaitMode {
    fn from(wait: WaitArguments) -> Self {
        if wait.detach { Self::Detached } else { Self::Until(wait.timeout.into()) }
    }
}

/// A call has this long, however short the wait for its effect is: whether a change was made must be known.
const CALL_LEAST: Duration = Duration::from_secs(3);

impl WaitMode {
    /// A client with calls that take no longer than the whole wait, or than [`CALL_LEAST`] if that is longer.
    fn bounded(&self, client: &Client) -> Client {
        match self {
            Self::Until(WaitLimits { timeout: Some(timeout), .. }) => {
                client.with_deadline_max((*timeout).max(CALL_LEAST))
            }
            Self::Until(_) | Self::Detached => client.clone(),
        }
    }
}

/// Interval and number of the reads of endpoints after every task is healthy. The healthy state of a task publishes its
/// endpoint in a separate transaction.
const ENDPOINT_INTERVAL: Duration = Duration::from_millis(50);
const ENDPOINT_READS: u32 = 40;

/// Why a gateway refuses a spec that a job can take only from its begin.
const JOB_DIFFERS: &str = "JOB_DIFFERS";

/// Why it refuses a change that was made for another revision, or for a job that is over.
const JOB_OUTDATED: &str = "OUTDATED";

pub(super) async fn run(
    global: &Global,
    arguments: RunArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let loaded = file_load(global, &arguments.file, printer).await?;
    let client = connect::cell_client(global).await?;
    let checked = arguments.check_revision.unwrap_or_default();
    let expected = ExpectedJob { id: checked.id, revision: checked.revision };
    let limits = WaitLimits { timeout: arguments.timeout, progress: arguments.progress_deadline };
    let wait = if arguments.detach { WaitMode::Detached } else { WaitMode::Until(limits) };
    let client = wait.bounded(&client);
    let spec = job_spec_to_message(&loaded.spec);
    let fit = if arguments.detach { fit_warning(&client, &spec).await } else { None };
    let submitted = submit(&client, spec, expected, printer).await;
    let submitted = submitted.map_err(|refused| refused.placed(&arguments.file.file, &loaded))?;
    fit_warn(&submitted.admitted, fit, printer);
    submitted.wait(&client, wait, printer).await
}

/// A job that the cell has admitted or changed.
pub(super) struct Submitted {
    job: JobRef,
    admitted: Job,
    is_changed: bool,
}

/// Why a job was not submitted.
pub(super) struct Unsubmitted {
    failure: Failure,
    /// The job that has to end before the spec can be run, as `USER/JOB`.
    in_the_way: Option<String>,
    /// The field that a running job keeps, if the plan of the spec shows one.
    kept_field: Option<String>,
    /// Whether somebody has changed the job since the revision that the change is for.
    is_stale: bool,
}

impl Unsubmitted {
    /// The failure at its place in a job file, with the commands that run the file all the same.
    fn placed(mut self, path: &Path, loaded: &LoadedFile) -> Failure {
        let place = self.kept_field.take().map(|field| loaded.place_shown(path, &field));
        let failure = self.failure(&path_shown(path));
        match place {
            Some(place) => failure.at(&place),
            None => refusal_placed(failure, path, loaded),
        }
    }

    /// The failure, with the commands that run `file` all the same.
    pub(super) fn failure(self, file: &str) -> Failure {
        match self.in_the_way {
            Some(job) => self.failure.with_hint(run_in_place(&job, file)),
            None if self.is_stale => self.failure.with_hint(format!("borough job plan {file}")),
            None => self.failure,
        }
    }
}

/// What replaces a job that takes no such change.
pub(super) fn run_in_place(job: &str, file: &str) -> String {
    format!("to run it all the same: borough job stop {job}, then borough job run {file}")
}

/// Submits a job, in place of `expected`.
pub(super) async fn submit(
    client: &Client,
    spec: JobSpec,
    expected: ExpectedJob,
    printer: &Printer,
) -> Result<Submitted, Unsubmitted> {
    let job = JobRef::new(spec.user.as_str(), spec.name.as_str());
    // A file without the labels of a federation takes them away, and the federation brings them back. The answer no
    // longer has them.
    let before = client.job_get(&job).await.ok().and_then(|answer| answer.job);
    let submitted = client.job_submit_to(spec.clone(), expected.clone()).await;
    let answer = match submitted {
        Ok(answer) => answer,
        Err(error) => return Err(refused(client, spec, &expected, error).await),
    };
    let admitted = answer.job.unwrap_or_default();
    let revision = admitted.revision;
    printer.remark(&if answer.changed {
        format!("{job}: submitted to cell {} (revision {revision})", client.cell())
    } else {
        format!("{job}: no change (revision {revision})")
    });
    let warnings = answer.warnings.into_iter().map(Foreign::from);
    warnings.for_each(|warning| printer.remark(&format!("warning: {warning}")));
    if answer.changed {
        let same = before.filter(|before| before.id == admitted.id);
        owned_warn(client, same.as_ref().unwrap_or(&admitted), PartChange::Version, printer).await;
    }
    Ok(Submitted { job, admitted, is_changed: answer.changed })
}

impl Submitted {
    /// Waits until the job is up, unless detached, and shows it.
    pub(super) async fn wait(
        self,
        client: &Client,
        wait_for: WaitMode,
        printer: &Printer,
    ) -> Result<Code, Failure> {
        if let Some(version) = failed_before(&self.admitted).filter(|_| self.is_changed) {
            printer.remark(&format!(
                "{}: the change begins no rollout, and that of version {version} has failed: borough rollout status {}",
                self.job, self.job
            ));
            printer
                .one(&JobView::from(self.admitted), |job, _| format!("{}/{}: changed", job.user, job.name))?;
        } else if let WaitMode::Until(limits) = wait_for {
            let goal = rollout_under_way(&self.admitted).unwrap_or(Goal::Up);
            let waited = wait(client, &self.job, goal, limits, printer).await?;
            show(client, waited, printer).await?;
        } else {
            let goal = rollout_under_way(&self.admitted).filter(|_| self.is_changed);
            let text = begun_text(&self.job, &self.admitted, goal);
            printer.one(&JobView::from(self.admitted), |_, _| text)?;
        }
        Ok(Code::Done)
    }
}

/// The version whose rollout had failed before the submission, which has begun none.
fn failed_before(job: &Job) -> Option<u32> {
    let rollout = job.rollout.as_ref().filter(|rollout| rollout.state() == RolloutState::Failed)?;
    (job.state() == JobState::Running).then_some(rollout.version)
}

/// The end of the rollout of a service, if one is under way: by this submission or by an earlier one.
fn rollout_under_way(job: &Job) -> Option<Goal> {
    let is_open = |state| matches!(state, RolloutState::Rolling | RolloutState::Paused);
    let rollout = job.rollout.as_ref().filter(|rollout| is_open(rollout.state()))?;
    (job.kind() != JobKind::Batch).then_some(Goal::RolledOut { version: rollout.version })
}

/// A refusal with the changes, to show which of them are not allowed.
async fn refused(client: &Client, spec: JobSpec, expected: &ExpectedJob, error: ClientError) -> Unsubmitted {
    let conflict = matches!(error.code(), Some(Status::FailedPrecondition | Status::Aborted));
    let differs = error.refusal().is_some_and(|refusal| refusal.reason == JOB_DIFFERS);
    let is_stale = error.refusal().is_some_and(|refusal| refusal.reason == JOB_OUTDATED);
    let in_the_way = differs.then(|| format!("{}/{}", spec.user, spec.name));
    let failure = Failure::from(error);
    let job = JobRef::new(spec.user.as_str(), spec.name.as_str());
    let since = if conflict && !differs && expected.revision > 0 {
        changes_since(client, &job, expected).await
    } else {
        String::new()
    };
    if !since.is_empty() {
        let mut details = vec![format!("what has changed since revision {}:", expected.revision)];
        details.extend(since.lines().map(|line| format!("  {line}")));
        return Unsubmitted {
            failure: failure.with_details(details),
            in_the_way,
            kept_field: None,
            is_stale: true,
        };
    }
    if !conflict {
        return Unsubmitted { failure, in_the_way, kept_field: None, is_stale };
    }
    let cell = client.cell().to_owned();
    let Ok(plan) = client.job_plan(spec.clone()).await else {
        return Unsubmitted { failure, in_the_way, kept_field: None, is_stale };
    };
    let view = PlanView::new(&spec, &cell, plan);
    let diff = changes_text(view.changes(), &Style::default());
    if diff.is_empty() {
        return Unsubmitted { failure, in_the_way, kept_field: None, is_stale };
    }
    // The message repeats the difference for programs that show nothing else. The plan names the job.
    let first = failure.message().lines().next().unwrap_or_default().trim_end_matches(':').to_owned();
    let named = view.refusal.as_ref().filter(|_| differs).map(ToString::to_string);
    let (begin, indent) = if differs { (None, "") } else { (Some("what the file changes:"), "  ") };
    let lines = diff.lines().map(|line| format!("{indent}{line}"));
    let details = begin.map(str::to_owned).into_iter().chain(lines).collect();
    let hint = failure.hint().map(str::to_owned);
    let failure =
        Failure::new(failure.code(), named.unwrap_or(first)).with_details(details).with_hint_if(hint);
    let kept_field = view.kept_field().filter(|_| differs);
    Unsubmitted { failure, in_the_way, kept_field, is_stale }
}

/// What others have changed in a job since the revision that a change was made for; empty if that is not known.
async fn changes_since(client: &Client, job: &JobRef, expected: &ExpectedJob) -> String {
    let versions = client.job_history(job).await.unwrap_or_default();
    let changes = version_changes_since(&versions, &expected.id, expected.revision);
    changes_text(&changes, &Style::default())
}

/// The final state of the job: with its endpoints for people, as an object for programs.
async fn show(client: &Client, waited: Waited, printer: &Printer) -> Result<(), Failure> {
    if printer.is_machine() {
        let job = JobRef::new(waited.job.user.as_str(), waited.job.name.as_str());
        let filter = TaskFilter { wanted: true, ..TaskFilter::of_job(&job) };
        let shown = TaskSelection { filter, ..TaskSelection::default() };
        let view = status_view(client, waited.job, waited.spec, &shown).await?;
        return printer.one(&view, |_, _| String::new());
    }
    printer.answer(&waited.text)?;
    let task = waited.spec.as_ref().and_then(|spec| spec.task.as_ref());
    let has_ports = task.is_some_and(|task| !task.ports.is_empty());
    if waited.job.kind() != JobKind::Service || !has_ports {
        return Ok(());
    }
    let endpoints = endpoints(client, &waited).await?;
    if endpoints.is_empty() {
        return Ok(());
    }
    printer.text(&table(&endpoints, &Style::default()))
}

async fn endpoints(client: &Client, waited: &Waited) -> Result<Vec<EndpointView>, Failure> {
    let wanted = usize::try_from(waited.job.count).unwrap_or(usize::MAX);
    let mut endpoints = Vec::new();
    for _ in 0..ENDPOINT_READS {
        endpoints = client.endpoint_list(&waited.job.user, &waited.job.name).await?.0;
        if endpoints.len() >= wanted {
            break;
        }
        tokio::time::sleep(ENDPOINT_INTERVAL).await;
    }
    Ok(endpoints.into_iter().map(EndpointView::from).collect())
}

/// A job that is over is not changed: the hint has what runs it again.
pub(super) fn over_hinted(failure: Failure) -> Failure {
    let is_over =
        [": the job is over", ": the job is stopping"].iter().any(|text| failure.message().contains(text));
    if failure.code() != Code::Refused || !is_over || failure.hint().is_some() {
        return failure;
    }
    failure.with_hint(RUN_AGAIN)
}

pub(super) async fn scale(
    client: &Client,
    job: &JobRef,
    count: u32,
    wait_for: WaitMode,
    printer: &Printer,
) -> Result<Code, Failure> {
    let client = &wait_for.bounded(client);
    let scaled = client.job_scale(job, count).await.map_err(|error| over_hinted(error.into()))?;
    let scaled = scaled.job.unwrap_or_default();
    owned_warn(client, &scaled, PartChange::Count(count), printer).await;
    if let WaitMode::Until(limits) = wait_for {
        let waited = wait(client, job, Goal::Up, limits, printer).await?;
        let now = waited.job.count;
        show(client, waited, printer).await?;
        if now != count {
            let message = format!("{job}: its count is {now} by now, so another change superseded {count}");
            return Err(Failure::new(Code::Failed, message).with_hint(format!("borough job history {job}")));
        }
    } else {
        let text = |job: &JobView, _: &Style| format!("{}/{}: count {}", job.user, job.name, job.count);
        printer.one(&JobView::from(scaled), text)?;
    }
    Ok(Code::Done)
}

pub(super) async fn stop(
    client: &Client,
    job: &JobRef,
    wait_for: WaitMode,
    printer: &Printer,
) -> Result<Code, Failure> {
    let client = &wait_for.bounded(client);
    let mut stopped = client.job_stop(job).await?.job.unwrap_or_default();
    let over = [JobState::Succeeded, JobState::Failed, JobState::DependencyFailed];
    let was_over = over.contains(&stopped.state());
    if let WaitMode::Until(limits) = wait_for {
        stopped = wait(client, job, Goal::Over, limits, printer).await?.job;
    }
    owned_warn(client, &stopped, PartChange::Stop, printer).await;
    let already = if was_over { "; it was over already" } else { "" };
    printer.one(&JobView::from(stopped), |job, _| {
        format!("{}/{}: {}{already}", job.user, job.name, job.state)
    })?;
    Ok(Code::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_scales_a_job_that_is_over_hears_what_runs_it_again() {
        let hint = |text: &str| over_hinted(Failure::new(Code::Refused, text)).hint().map(str::to_owned);
        assert!(hint("job ann/web: the job is over: stopped").unwrap().contains("borough job run FILE"));
        assert_eq!(hint("the quota of ann for batch does not allow it"), None);
    }
}
