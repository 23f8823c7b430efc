//! Waits for a federated job.

use std::sync::Arc;
use std::time::Duration;

use borough_client::{Client, JobRef};
use borough_kv::env::{Clock, SystemClock};
use borough_model::federation::FederatedJob;
use borough_model::job::JobKind;
use borough_proto::v1;

use super::cause::causes;
use super::explained;
use crate::args::FederatedWait;
use crate::exit::{Code, Failure};
use crate::output::{FederatedEnd, FederatedJobView, FederatedProgress, Judged, Printer, causes_text, tally};

/// Pause between two looks at a job that a verb waits for.
const LOOK_PAUSE: Duration = Duration::from_millis(300);
/// How long a wait looks again while no gateway answers.
const ABSENT_MAX: Duration = Duration::from_secs(60);
/// Pause between two looks then.
const ABSENT_PAUSE: Duration = Duration::from_secs(2);
/// After so long without a change, cells are asked why their tasks are not healthy.
const CAUSE_AFTER: Duration = Duration::from_secs(5);

/// What a wait is for, beside the state that the owner wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct SettledGoal {
    /// The releases whose failure ends the wait.
    pub(super) judged: Judged,
    /// How long no further task may become healthy; absent: any time, as for batch work.
    progress: Option<Duration>,
    /// Whether the tasks are to end by themselves, as those of batch work do.
    ends: bool,
}

impl SettledGoal {
    /// Of a job that has just been run.
    pub(super) fn of_run(job: &FederatedJob) -> Self {
        let ends = job.job.kind == JobKind::Batch && !job.job.restart.is_endless();
        Self { judged: Judged::Every, progress: progress_of(job), ends }
    }

    /// After a change that made no version.
    pub(super) fn after(changed: &v1::FederatedJob, job: Option<&FederatedJob>) -> Self {
        Self { judged: Judged::after(changed), progress: job.and_then(progress_of), ends: false }
    }
}

fn progress_of(job: &FederatedJob) -> Option<Duration> {
    let deadline = Duration::from_millis(job.job.progress_deadline_in_force());
    Some(deadline).filter(|_| job.job.kind != JobKind::Batch)
}

/// Cells that are to end their tasks of a job and do not answer: nobody knows when they do.
async fn cells_away(client: &Client, view: &FederatedJobView) -> Vec<String> {
    let mut ending = view.cells_ending();
    if ending.is_empty() {
        return ending;
    }
    let Ok(members) = client.member_list(Vec::new()).await else { return Vec::new() };
    let answers = |member: &v1::Member| {
        matches!(member.health(), v1::MemberHealth::Current | v1::MemberHealth::NotLooked)
    };
    ending.retain(|cell| !members.iter().any(|member| member.cell == *cell && answers(member)));
    ending
}

/// Says of cells that do not answer that their tasks have not ended.
pub(super) fn away_warn(away: &[String], printer: &Printer) {
    if !away.is_empty() {
        printer.remark(&format!("no answer of {}: its tasks end there when it is back", away.join(", ")));
    }
}

/// What a wait for a federated job sees, and until when it looks.
pub(super) struct JobLooks<'w> {
    client: &'w Client,
    job: &'w JobRef,
    wait: FederatedWait,
    printer: &'w Printer,
    shown: String,
    /// What cells were last said to say.
    caused: String,
    /// When the line changed last, or the cells were asked.
    quiet_since: Duration,
    clock: Arc<dyn Clock>,
    begun: Duration,
}

impl<'w> JobLooks<'w> {
    pub(super) fn begin(
        client: &'w Client,
        job: &'w JobRef,
        wait: FederatedWait,
        printer: &'w Printer,
    ) -> Self {
        let clock = SystemClock::shared();
        let begun = clock.monotonic();
        let (shown, caused) = (String::new(), String::new());
        Self { client, job, wait, printer, shown, caused, quiet_since: begun, clock, begun }
    }

    /// The job, with the cells that are to end their tasks and do not answer. Without a gateway it looks again for a
    /// minute: what was ordered goes on.
    pub(super) async fn look(&self) -> Result<(FederatedJobView, Vec<String>), Failure> {
        let since = self.clock.monotonic();
        let answer = loop {
            let failure = match self.client.federated_get(self.job).await {
                Ok(answer) => break answer,
                Err(error) => explained(self.client, error),
            };
            let absent = self.clock.monotonic().saturating_sub(since);
            if failure.code() != Code::Unreachable || self.wait.detach {
                return Err(failure);
            }
            if absent >= ABSENT_MAX || self.clock.monotonic().saturating_sub(self.begun) >= self.wait.timeout
            {
                let message = format!("{}: {}; the federation goes on", self.job, failure.message());
                let hint = format!("borough federation job status {}", self.job);
                return Err(Failure::new(Code::Unreachable, message).with_hint(hint));
            }
            let left = ABSENT_MAX.saturating_sub(absent).as_secs();
            self.printer.remark(&format!(
                "{}: no answer; trying again for {left}s; the federation goes on",
                self.job
            ));
            tokio::time::sleep(ABSENT_PAUSE).await;
        };
        let view = FederatedJobView::from(answer.job.unwrap_or_default());
        let away = if self.wait.detach { Vec::new() } else { cells_away(self.client, &view).await };
        Ok((view, away))
    }

    /// Says how far it is, and pauses.
    ///
    /// # Errors
    /// The time is over.
    pub(super) async fn pause(&mut self, view: &FederatedJobView) -> Result<(), Failure> {
        let (job, now) = (self.job, view.progress_text());
        let now_at = self.clock.monotonic();
        if now != self.shown {
            self.printer.remark(&format!("{job}: {now}"));
            self.shown = now;
            self.quiet_since = now_at;
        } else if now_at.saturating_sub(self.quiet_since) >= CAUSE_AFTER {
            self.quiet_since = now_at;
            self.cause_say(view).await;
        }
        if now_at.saturating_sub(self.begun) >= self.wait.timeout {
            let what = format!("{job} is not there yet: {}; the federation goes on", self.shown);
            return Err(self.failure(what, view).await);
        }
        tokio::time::sleep(LOOK_PAUSE).await;
        Ok(())
    }

    /// Says once what the cells say of tasks that are not healthy.
    async fn cause_say(&mut self, view: &FederatedJobView) {
        let found = causes_text(&causes(self.client, self.job, view).await);
        if !found.is_empty() && found != self.caused {
            self.printer.remark(&found);
            self.caused = found;
        }
    }

    /// The end of a wait that nobody can say is in vain: what the cells say, and what to run.
    async fn failure(&self, what: String, view: &FederatedJobView) -> Failure {
        let causes = causes(self.client, self.job, view).await;
        let text = causes_text(&causes);
        // What stands above is not said again.
        let mut details: Vec<String> =
            if text == self.caused { Vec::new() } else { text.lines().map(str::to_owned).collect() };
        details.extend(view.missing_text().lines().map(str::to_owned));
        let why = causes.first().map(|cause| format!("; {}", cause.command())).unwrap_or_default();
        let hint = format!("borough federation job status {}{why}", self.job);
        Failure::new(Code::Failed, what).with_details(details).with_hint(hint)
    }

    /// The failure of a job that has made no progress for so long.
    async fn stuck(&self, view: &FederatedJobView, deadline: Duration) -> Failure {
        let waited = humantime::format_duration(deadline);
        let now = view.progress_text();
        let what = format!("{}: {now}; no progress for {waited}; the federation goes on", self.job);
        self.failure(what, view).await
    }
}

/// The failure of batch work of which tasks have failed for good.
fn ended_with_failures(job: &JobRef, end: &FederatedEnd) -> Failure {
    let failed = tally(usize::try_from(end.failed).unwrap_or(usize::MAX), "task");
    let message = format!("{job}: {failed} failed, in {}", end.cells.join(", "));
    let failure = Failure::new(Code::Failed, message);
    let logs = |cell: &String| format!("borough --cell {cell} job logs {job}");
    failure.with_hint_if(end.cells.first().map(logs))
}

/// Waits until the federation has done what the owner wants, unless detached, and shows the job.
pub(super) async fn settle(
    client: &Client,
    job: &JobRef,
    wait: FederatedWait,
    goal: SettledGoal,
    printer: &Printer,
) -> Result<Code, Failure> {
    let mut looks = JobLooks::begin(client, job, wait, printer);
    let mut progress = FederatedProgress::begin(looks.begun);
    loop {
        let (view, away) = looks.look().await?;
        let is_there = view.is_settled(&away, goal.judged) && (!goal.ends || view.has_ended());
        if wait.detach || is_there {
            away_warn(&away, printer);
            printer.one(&view, FederatedJobView::text)?;
            let end = view.end().filter(|end| end.failed > 0 && !wait.detach);
            return end.map_or(Ok(Code::Done), |end| Err(ended_with_failures(job, &end)));
        }
        // Only an operator changes that.
        if view.lacks_cells() {
            printer.one(&view, FederatedJobView::text)?;
            let message =
                format!("{job}: the federation has no cells; it places the job once one has joined");
            return Err(
                Failure::new(Code::Failed, message).with_hint("borough cell join CELL --at HOST:PORT")
            );
        }
        if let Some(failure) = view.failure_text(goal.judged) {
            printer.one(&view, FederatedJobView::text)?;
            let cause = view.cause_hint().map_or_else(String::new, |cause| format!("{cause}; to go back: "));
            let another = format!("run another version of {job}");
            let hint = if view.can_undo() {
                format!("{cause}borough federation job undo {job}, or {another}")
            } else {
                another
            };
            return Err(Failure::new(Code::Failed, format!("{job}: {failure}")).with_hint(hint));
        }
        let late = goal.progress.filter(|most| !progress.is_within(&view, *most, looks.clock.monotonic()));
        if let Some(deadline) = late {
            return Err(looks.stuck(&view, deadline).await);
        }
        looks.pause(&view).await?;
    }
}
