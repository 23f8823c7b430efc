//! Waits for a job: lists its rows once, then watches them, and shows what delays it.

use std::sync::Arc;
use std::time::Duration;

use borough_client::{CellItem, Client, ItemStream, JobRef};
use borough_kv::env::{Clock, SystemClock};
use borough_proto::v1::{Job, JobSpec, Task, WatchFilter, watch_response::Change};
use futures::{FutureExt as _, StreamExt as _};

use super::deadline::{ProgressTimer, WaitLimits};
use super::progress::{Goal, JobProgress, KnownJob};
use super::tail::failing_log;
use crate::exit::{Code, Failure};
use crate::output::{ExplanationView, Printer, Progress, explanations_text};

/// After so long without a change, tasks that are not placed are explained.
const EXPLAIN_AFTER: Duration = Duration::from_millis(1500);

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
    let waited = Box::pin(async {
        tokio::select! {
            outcome = waiting.until(goal) => outcome,
            _ = tokio::signal::ctrl_c() => Err(Failure::new(
                Code::Interrupted,
                format!("interrupted; {}: borough job status {job}", goal.goes_on()),
            )),
        }
    });
    let Some(timeout) = limits.timeout else { return waited.await };
    let outcome = tokio::time::timeout(timeout, waited).await;
    outcome.unwrap_or_else(|_| {
        let after = humantime::format_duration(timeout);
        let on = goal.goes_on();
        let message = match progress.last() {
            "" => format!("{job}: its state did not come within {after}; {on}"),
            last => format!("{last} after {after}; {on}"),
        };
        Err(Failure::new(Code::Failed, message).with_hint(format!("borough job status {job}")))
    })
}

/// The rows of a job as a watch reports them.
pub(super) struct JobRows {
    pub(super) known: KnownJob,
    spec: Option<JobSpec>,
    changes: ItemStream<CellItem>,
}

/// A wait with what it shows.
pub(super) struct WaitingOutput<'w, 'p> {
    client: &'w Client,
    job: &'w JobRef,
    limits: WaitLimits,
    timer: ProgressTimer,
    clock: Arc<dyn Clock>,
    progress: &'w mut Progress<'p>,
    /// The explanation that was last shown.
    explained: String,
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
        Self { client, job, limits, timer, clock, progress, explained: String::new() }
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
        Ok(Waited { job: known.job, spec, text, task })
    }

    /// Lists the rows of the job, and watches them from there.
    pub(super) async fn open(&mut self) -> Result<JobRows, Failure> {
        let answer = self.client.job_get(self.job).await?;
        // A hundred thousand tasks are a hundred pages.
        self.progress.show(&format!("{}: reading its tasks", self.job));
        let (tasks, _) = self.client.task_list_of_job(self.job).await?;
        let mut known = KnownJob { job: answer.job.unwrap_or_default(), ..KnownJob::default() };
        known.tasks.extend(tasks.into_iter().map(|task| (task.index, task)));
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

    /// Waits until the job has reached the goal. Lists again if the watch cannot continue.
    pub(super) async fn reach(&mut self, watched: &mut JobRows, goal: Goal) -> Result<(), Failure> {
        loop {
            match watched.known.progress(goal) {
                JobProgress::Reached => return Ok(()),
                JobProgress::Lost(why) => return Err(self.lost(&watched.known, why).await),
                JobProgress::Underway => self.progress.show(&watched.known.text(goal)),
            }
            let deadline = self.limits.progress_deadline(watched.spec.as_ref());
            let Some(left) = self.timer.left(&watched.known, goal, deadline, self.clock.monotonic()) else {
                return Err(self.stuck(&watched.known, goal, deadline).await);
            };
            let next = tokio::time::timeout(EXPLAIN_AFTER.min(left), watched.changes.next());
            let first = match next.await {
                Ok(Some(item)) => item?,
                Ok(None) => {
                    *watched = self.open().await?;
                    continue;
                }
                Err(_) => {
                    self.explain(&watched.known, goal).await;
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
                match item {
                    CellItem::Change(message) => drop(changed(&mut watched.known, message.change)),
                    CellItem::Bookmark(_) => {}
                    CellItem::Resync(_) => {
                        *watched = self.open().await?;
                        break;
                    }
                }
            }
        }
    }

    /// The job can no longer reach its goal.
    async fn lost(&self, known: &KnownJob, why: String) -> Failure {
        let log = failing_log(self.client, self.job, known).await;
        let hint = format!("borough job status {0}; borough task logs {0}/INDEX", self.job);
        Failure::new(Code::Failed, why).with_details(log).with_hint(hint)
    }

    /// The progress deadline has passed. The job goes on, as after a time-out.
    async fn stuck(&self, known: &KnownJob, goal: Goal, deadline: Duration) -> Failure {
        let mut details = failing_log(self.client, self.job, known).await;
        if details.is_empty() && known.pending() > 0 {
            details = self.explained.lines().map(str::to_owned).collect();
        }
        let waited = humantime::format_duration(deadline);
        let why = format!("{}: no progress for {waited}; the job goes on", known.text(goal));
        let hint = format!("borough why {0}; borough task logs {0}/INDEX; borough job stop {0}", self.job);
        Failure::new(Code::Failed, why).with_details(details).with_hint(hint)
    }

    /// Shows why tasks are not placed, if that has changed. If the explanation fails, the wait continues without it.
    async fn explain(&mut self, known: &KnownJob, goal: Goal) {
        let index = match goal {
            Goal::Up if known.pending() > 0 => None,
            Goal::Again(next) if known.is_pending(next.index) => Some(next.index),
            _ => return,
        };
        let Ok(answer) = self.client.task_explain(self.job, index).await else { return };
        let views: Vec<ExplanationView> =
            answer.explanations.into_iter().map(ExplanationView::from).collect();
        let text = explanations_text(&views);
        if text != self.explained {
            self.progress.remark(text.trim_end());
            self.explained = text;
        }
    }
}

fn changed(known: &mut KnownJob, change: Option<Change>) -> bool {
    match change {
        Some(Change::Job(job)) => known.job_changed(job),
        Some(Change::Task(task)) => known.task_changed(task),
        _ => false,
    }
}
