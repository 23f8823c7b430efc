//! Waits for a job: lists its rows once, then watches them, and shows what delays it.

use std::sync::Arc;
use std::time::Duration;

use borough_client::{CellItem, Client, ItemStream, JobRef};
use borough_kv::env::{Clock, SystemClock};
use borough_proto::v1::watch_response::Change;
use borough_proto::v1::{EndReason, Exit, Job, JobSpec, JobState, Task, WatchFilter, WatchResponse};
use futures::{FutureExt as _, StreamExt as _};

use super::deadline::{ProgressTimer, WaitLimits};
use super::progress::{Goal, JobProgress, KnownJob, NextAttempt};
use super::tail::{failed_helper, failing_log};
use crate::command::attempts::TaskAttempts;
use crate::exit::{Code, Failure};
use crate::output::{ExplanationView, Printer, Progress, explanations_text};

/// After so long without a change, tasks that are not placed are explained.
const EXPLAIN_AFTER: Duration = Duration::from_millis(1500);

/// After so long, tasks that run and are not healthy are explained. Many need some time to come up.
const UNHEALTHY_AFTER_MS: u64 = 5_000;

/// Tasks of a page. A hundred thousand tasks are a hundred pages.
const PAGE_TASKS: u32 = 1_000;

/// What is read once the time of a wait is over takes no longer.
const LATE_DETAILS: Duration = Duration::from_secs(1);

/// Items of a watch between two looks at the progress.
const ITEMS_AT_ONCE: usize = 1_024;

pub(in crate::command) struct Waited {
    pub(super) job: Job,
    pub(super) spec: Option<JobSpec>,
    /// The final state of the job, in one line.
    pub(in crate::command) text: String,
    /// The task that the goal is about, if it is about one.
    pub(in crate::command) task: Option<Task>,
}

/// Waits until `job` has reached `goal`, can no longer reach it, or the time is over. The job itself continues in any
/// case.
pub(in crate::command) async fn wait(
    client: &Client,
    job: &JobRef,
    goal: Goal,
    limits: impl Into<WaitLimits>,
    printer: &Printer,
) -> Result<Waited, Failure> {
    let limits = limits.into();
    let mut progress = Progress::new(printer);
    let mut waiting = WaitingOutput::new(client, job, limits, &mut progress);
    waiting.bound(limits.timeout);
    let waited = Box::pin(async {
        tokio::select! {
            outcome = waiting.until(goal) => outcome,
            _ = tokio::signal::ctrl_c() => Err(Failure::new(
                Code::Interrupted,
                format!("interrupted; {}: borough job status {job}", goal.goes_on()),
            )),
        }
    });
    let outcome = match limits.timeout {
        Some(timeout) => tokio::time::timeout(timeout, waited).await,
        None => Ok(waited.await),
    };
    let absent = if outcome.is_err() { waiting.absent_now().await } else { None };
    let late = if outcome.is_err() && absent.is_none() { waiting.late_details().await } else { Vec::new() };
    let on = if waiting.is_paused { "the rollout stays paused" } else { goal.goes_on() };
    if let Ok(Ok(waited)) = &outcome {
        progress.end(&waited.text);
    }
    let failure = match outcome {
        Ok(Err(failure)) if failure.code() == Code::Unreachable => {
            Failure::new(Code::Unreachable, format!("{}; {on}", failure.message()))
        }
        Ok(outcome) => return outcome,
        Err(_) => {
            let after = humantime::format_duration(limits.timeout.unwrap_or_default());
            let message = match progress.last() {
                "" => format!("{job}: no answer about its state within {after}"),
                last => format!("{last}; the wait ended after {after}"),
            };
            match absent {
                // Nobody knows whether the job is up.
                Some(absent) => Failure::new(Code::Unreachable, format!("{message}; {absent}; {on}")),
                None => {
                    let failure = Failure::new(Code::Failed, format!("{message}; {on}"));
                    return Err(failure.with_details(late).with_hint(late_hint(job, goal)));
                }
            }
        }
    };
    Err(failure.with_hint(format!("borough job status {job}")))
}

/// What shows why a wait has run out of time.
fn late_hint(job: &JobRef, goal: Goal) -> String {
    match goal {
        Goal::Up => format!("borough why {job}; borough job status {job}"),
        Goal::Over => format!("borough job status {job}"),
        Goal::Again(NextAttempt { index, .. }) => format!("borough why {job}/{index}"),
        Goal::RolledOut { .. } => format!("borough why {job}; borough rollout status {job}"),
    }
}

/// The rows of a job as a watch reports them.
pub(super) struct JobRows {
    pub(super) known: KnownJob,
    spec: Option<JobSpec>,
    changes: ItemStream<CellItem>,
}

/// A wait with what it shows.
pub(super) struct WaitingOutput<'w, 'p> {
    pub(super) client: &'w Client,
    pub(super) job: &'w JobRef,
    limits: WaitLimits,
    timer: ProgressTimer,
    pub(super) clock: Arc<dyn Clock>,
    /// When the caller ends the wait, by the monotonic clock; `None`: it does not.
    pub(super) end: Option<Duration>,
    pub(super) progress: &'w mut Progress<'p>,
    /// The explanation that was last shown.
    explained: String,
    /// Why tasks run and are not healthy, as it was last found, and as it was last shown.
    unhealthy: String,
    unhealthy_told: String,
    /// Why tasks had no node before the rollout failed; empty if all had one.
    unplaced: String,
    /// A task that fails or is not healthy, if there is one.
    culprit: Option<Task>,
    /// The last lines of an attempt of the version that has failed, read before a later attempt takes its place.
    failed_log: Option<Vec<String>>,
    /// Tasks that wait for nodes whose agents do not answer, as found after the last change.
    silent: Vec<UnansweredTasks>,
    /// Those that were last remarked.
    silent_told: Vec<UnansweredTasks>,
    /// That no gateway answers, as the failure would say it. `None`: one does.
    pub(super) absent: Option<String>,
    /// The rollout that is waited for stands still.
    is_paused: bool,
}

/// Tasks that wait for a node whose agent does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnansweredTasks {
    node: String,
    tasks: usize,
    /// Whether the cell counts the node as silent. Before that, it is only not connected.
    is_silent: bool,
}

impl<'w, 'p> WaitingOutput<'w, 'p> {
    pub(super) fn new(
        client: &'w Client,
        job: &'w JobRef,
        limits: WaitLimits,
        progress: &'w mut Progress<'p>,
    ) -> Self {
        let clock = SystemClock::shared();
        let timer = ProgressTimer::new(clock.monotonic());
        Self {
            client,
            job,
            limits,
            timer,
            clock,
            end: None,
            progress,
            explained: String::new(),
            unhealthy: String::new(),
            unhealthy_told: String::new(),
            unplaced: String::new(),
            culprit: None,
            failed_log: None,
            silent: Vec::new(),
            silent_told: Vec::new(),
            absent: None,
            is_paused: false,
        }
    }

    /// Shows the next of a few steps.
    pub(super) fn step(&mut self, text: &str) {
        self.progress.step(text);
    }

    async fn until(&mut self, goal: Goal) -> Result<Waited, Failure> {
        let mut watched = self.open().await?;
        self.reach(&mut watched, goal).await?;
        let JobRows { known, spec, .. } = watched;
        let (text, task) = (known.text(goal), known.task_of(goal).cloned());
        Ok(Waited { job: known.seen.job, spec, text, task })
    }

    /// Lists the rows of the job, and watches them from there.
    pub(super) async fn open(&mut self) -> Result<JobRows, Failure> {
        let answer = self.client.job_get(self.job).await?;
        if answer.job.as_ref().is_some_and(|job| job.count > PAGE_TASKS) {
            self.progress.show(&format!("{}: reading its tasks", self.job));
        }
        let (tasks, _) = self.client.task_list_of_job(self.job).await?;
        let mut known = KnownJob::of(answer.job.unwrap_or_default());
        known.seen.tasks.extend(tasks.into_iter().map(|task| (task.index, task)));
        let filter = WatchFilter {
            user: self.job.user.clone(),
            job: self.job.name.clone(),
            jobs: true,
            tasks: true,
            ..WatchFilter::default()
        };
        let changes = self.client.watch_cell(filter, answer.cursor);
        Ok(JobRows { known, spec: answer.spec, changes })
    }

    /// Lists the rows again. What was seen of a failed version stays.
    async fn reopen(&mut self, watched: &mut JobRows) -> Result<(), Failure> {
        let known = std::mem::take(&mut watched.known);
        *watched = self.open().await?;
        watched.known.seen_keep(known);
        Ok(())
    }

    /// Reads the specs of the job's versions, if the goal is a rollout and one of them is not known. They say which
    /// tasks the rollout concerns. Without them it concerns all.
    async fn specs_read(&self, known: &mut KnownJob, goal: Goal) {
        if !matches!(goal, Goal::RolledOut { .. }) || known.has_spec() {
            return;
        }
        let versions = self.client.job_history(self.job).await.unwrap_or_default();
        known.specs_add(&versions);
    }

    /// Reads what the attempt that failed has written, once the rollout has failed.
    async fn failed_log_read(&mut self, known: &KnownJob) {
        if self.failed_log.is_none() && known.is_rollout_failed() {
            self.failed_log = Some(failing_log(self.client, self.job, known.failed_attempt()).await);
        }
    }

    /// Waits until the job has reached the goal. Lists again if the watch cannot continue.
    pub(super) async fn reach(&mut self, watched: &mut JobRows, goal: Goal) -> Result<(), Failure> {
        loop {
            watched.known.goal_set(goal);
            let culprit = watched.known.failing().or_else(|| watched.known.unhealthy()).cloned();
            let attempt = |task: &Option<Task>| task.as_ref().map(|task| (task.index, task.incarnation));
            if attempt(&culprit) != attempt(&self.culprit) {
                // It was said of an attempt that is over.
                self.unhealthy.clear();
            }
            self.culprit = culprit;
            self.specs_read(&mut watched.known, goal).await;
            self.failed_log_read(&watched.known).await;
            if !watched.known.is_rollout_failed() && !watched.known.waits_for_node() {
                self.unplaced.clear();
            }
            self.is_paused = watched.known.is_paused();
            match watched.known.progress(goal) {
                JobProgress::Reached => return Ok(()),
                JobProgress::Lost(why) => return Err(self.lost(&watched.known, why).await),
                // The answer says it in a moment.
                JobProgress::Underway if watched.known.is_all_but_reached(goal) => {}
                JobProgress::Underway => self.progress.show(&self.state_text(&watched.known, goal)),
            }
            let deadline = self.limits.progress_deadline(watched.spec.as_ref());
            let Some(left) = self.timer.left(&watched.known, goal, deadline, self.clock.monotonic()) else {
                if let Some(unknown) = self.unknown_progress(&watched.known, goal, deadline).await {
                    return Err(unknown);
                }
                return Err(self.stuck(&watched.known, goal, deadline).await);
            };
            let progress_left = ProgressTimer::applies(&watched.known, goal).then_some(left);
            let next = tokio::time::timeout(EXPLAIN_AFTER.min(left), watched.changes.next());
            let first = match next.await {
                Ok(Some(item)) => item?,
                Ok(None) => {
                    self.reopen(watched).await?;
                    continue;
                }
                Err(_) => {
                    self.explain(&mut watched.known, goal).await;
                    continue;
                }
            };
            // What has come meanwhile counts at once: each look at the progress reads every task.
            let mut come = vec![first];
            while come.len() < ITEMS_AT_ONCE
                && let Some(Some(item)) = watched.changes.next().now_or_never()
            {
                come.push(item?);
            }
            for item in come {
                self.answered(&item, goal, progress_left);
                match item {
                    CellItem::Change(message) => {
                        if changed(&mut watched.known, *message, self.client.user()) {
                            // Its agent may have answered.
                            self.silent.clear();
                        }
                    }
                    CellItem::Bookmark(_) | CellItem::Absent(_) => {}
                    CellItem::Resync(_) => {
                        self.reopen(watched).await?;
                        break;
                    }
                }
            }
        }
    }

    /// The job can no longer reach its goal.
    async fn lost(&mut self, known: &KnownJob, text: String) -> Failure {
        if known.seen.job.state() == JobState::DependencyFailed {
            return self.never_starts(known, text).await;
        }
        let status = Some(format!("borough job status {}", self.job));
        if let Some(log) = self.failed_log.take() {
            // Nothing has failed of an attempt that was never healthy: its probe says most.
            let unhealthy = std::mem::take(&mut self.unhealthy);
            let unplaced = std::mem::take(&mut self.unplaced);
            let mut details: Vec<String> =
                unhealthy.lines().chain(unplaced.lines()).map(str::to_owned).collect();
            details.extend(log);
            let rollout = Some(format!("borough rollout status {}", self.job));
            let why = (!unplaced.is_empty()).then(|| format!("borough why {}", self.job));
            let logs = known.failed_logs().map(|logs| format!("borough task logs {}/{logs}", self.job));
            let undo = known.is_rollout_stopped().then(|| format!("borough rollout undo {}", self.job));
            let hint = joined([status, rollout, why, logs, undo]);
            return Failure::new(Code::Failed, text).with_details(details).with_hint(hint);
        }
        let log = failing_log(self.client, self.job, known.failing()).await;
        let hint = [status, self.logs_hint(known)];
        Failure::new(Code::Failed, text).with_details(log).with_hint(joined(hint))
    }

    /// A job in its `after` has failed. The explanation says which.
    async fn never_starts(&self, known: &KnownJob, text: String) -> Failure {
        let explained = self.client.task_explain(self.job, None).await.unwrap_or_default().explanations;
        let views = ExplanationView::all_of(&known.seen.job, explained);
        let details = explanations_text(&views).lines().map(str::to_owned).collect();
        Failure::new(Code::Failed, text).with_details(details).with_hint(format!("borough why {}", self.job))
    }

    /// Why a task is not healthy, and the last lines of one that fails or is not healthy.
    async fn unhealthy_details(&self) -> Vec<String> {
        let mut details: Vec<String> = self.unhealthy.lines().map(str::to_owned).collect();
        details.extend(failing_log(self.client, self.job, self.culprit.as_ref()).await);
        details
    }

    /// The same for a wait whose time is over. It ends soon all the same.
    async fn late_details(&self) -> Vec<String> {
        tokio::time::timeout(LATE_DETAILS, self.unhealthy_details()).await.unwrap_or_default()
    }

    /// The progress deadline has passed. The job goes on, as after a time-out.
    async fn stuck(&self, known: &KnownJob, goal: Goal, deadline: Duration) -> Failure {
        let mut details = self.unhealthy_details().await;
        if details.is_empty() && known.pending() > 0 {
            details = self.explained.lines().map(str::to_owned).collect();
        }
        let waited = humantime::format_duration(deadline);
        let state = self.state_text(known, goal);
        let why = format!("{state}; no progress for {waited}; the job goes on");
        let Self { job, .. } = self;
        let stop = Some(format!("borough job stop {job}"));
        let hint = [Some(format!("borough why {job}")), self.logs_hint(known), stop];
        Failure::new(Code::Failed, why).with_details(details).with_hint(joined(hint))
    }

    /// The command for the output of the failing task that the message is about; `None` without one. A task that could
    /// not be started has no output.
    fn logs_hint(&self, known: &KnownJob) -> Option<String> {
        let task = known
            .failing()
            .or_else(|| known.unhealthy())
            .filter(|task| TaskAttempts::of(task).has_output())?;
        let reason = task.exit.as_ref().map(Exit::reason);
        let helper = failed_helper(task);
        if !helper.is_empty() {
            return Some(format!(
                "borough task logs {}/{} --previous --helper {helper}",
                self.job, task.index
            ));
        }
        let verb = if reason == Some(EndReason::StartFailed) { "status" } else { "logs" };
        Some(format!("borough task {verb} {}/{}", self.job, task.index))
    }

    /// The state of the job, in one line.
    pub(super) fn state_text(&self, known: &KnownJob, goal: Goal) -> String {
        let mut text = known.text(goal);
        for UnansweredTasks { node, tasks, .. } in &self.silent {
            let wait = if *tasks == 1 { "task waits" } else { "tasks wait" };
            text.push_str(&format!("; {tasks} {wait} for node {node}, which does not answer"));
        }
        text
    }

    /// Shows why tasks are not placed, or that their nodes do not answer, if that has changed. If the explanation
    /// fails, the wait continues without it.
    async fn explain(&mut self, known: &mut KnownJob, goal: Goal) {
        let index = match goal {
            Goal::Up | Goal::RolledOut { .. } | Goal::Over => None,
            Goal::Again(next) => Some(next.index),
        };
        let pending = match goal {
            Goal::Up | Goal::RolledOut { .. } => known.waits_for_node(),
            Goal::Over => false,
            Goal::Again(next) => known.is_pending(next.index),
        };
        // The jobs in an alloc set may hold its rollout up, with every alloc healthy.
        let of_set = known.is_set() && matches!(goal, Goal::RolledOut { .. });
        if !pending && !of_set && !known.waits_for_agent(goal) {
            self.silent.clear();
            return;
        }
        let Ok(answer) = self.client.task_explain(self.job, index).await else { return };
        // The progress itself says how tasks fail.
        let mut views = ExplanationView::all_of(&known.seen.job, answer.explanations);
        views.retain(|view| view.failures == 0);
        let (unhealthy, views): (Vec<_>, Vec<_>) =
            views.into_iter().partition(ExplanationView::is_of_running);
        self.unhealthy_explain(&unhealthy);
        let (silent, mut waits): (Vec<_>, Vec<_>) =
            views.into_iter().partition(|view| view.silent_node.is_some());
        // What is said of no task is about the rollout itself.
        waits.retain(|view| pending || view.indexes.is_empty());
        known.surge_refused_set(waits.iter().any(|view| view.surges && !view.fits));
        let tasks = |view: &ExplanationView| {
            let node = view.silent_node.as_ref()?.to_string();
            let is_silent = view.silent_since_ms.is_some();
            Some(UnansweredTasks { node, tasks: view.indexes.len(), is_silent })
        };
        self.silent = silent.iter().filter_map(tasks).collect();
        let text = explanations_text(&waits);
        if !known.is_rollout_failed() {
            // The way out of a refused resize is none once its version has failed.
            let unplaced: Vec<_> = waits.into_iter().filter(|view| !view.resize_refused).collect();
            self.unplaced = explanations_text(&unplaced);
        }
        // How long a node is silent changes all the time, and is said once.
        if text == self.explained && self.silent == self.silent_told {
            return;
        }
        self.silent_told.clone_from(&self.silent);
        let text_silent = explanations_text(&silent);
        let all =
            [&text, &text_silent].map(|part| part.trim_end()).into_iter().filter(|part| !part.is_empty());
        let all = all.collect::<Vec<_>>().join("\n");
        if !all.is_empty() {
            self.progress.remark(&all);
        }
        self.explained = text;
    }

    /// Keeps why tasks run and are not healthy. Shows it once it has lasted for a while, and when it changes.
    fn unhealthy_explain(&mut self, views: &[ExplanationView]) {
        if views.is_empty() {
            return;
        }
        self.unhealthy = explanations_text(views);
        let now_ms = self.clock.wall_ms();
        let lasts = |view: &ExplanationView| {
            let since_ms = view.unhealthy_since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
            u64::try_from(since_ms).is_ok_and(|since_ms| since_ms >= UNHEALTHY_AFTER_MS)
        };
        if self.unhealthy != self.unhealthy_told && views.iter().any(lasts) {
            self.progress.remark(self.unhealthy.trim_end());
            self.unhealthy_told.clone_from(&self.unhealthy);
        }
    }
}

/// Commands one after the other.
fn joined<const N: usize>(commands: [Option<String>; N]) -> String {
    commands.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Records a change. `own` is the user of this program. Returns true if the rows have changed.
fn changed(known: &mut KnownJob, message: WatchResponse, own: &str) -> bool {
    match message.change {
        Some(Change::Job(job)) => {
            let is_stopped = matches!(job.state(), JobState::Stopping | JobState::Stopped);
            let newer = known.seen.job_changed(job);
            let other = message.actor.strip_prefix("user/").filter(|user| *user != own);
            if newer && is_stopped {
                known.stopped_by = known.stopped_by.take().or_else(|| other.map(str::to_owned));
            }
            newer
        }
        Some(Change::Task(task)) => known.task_changed(task),
        _ => false,
    }
}
