//! `job restart`: one task at a time, the next one only when the last one is healthy again.

use std::time::Duration;

use borough_client::{Client, JobRef, TaskRef, count_with_surge};
use borough_kv::env::SystemClock;
use borough_proto::v1::{Job, JobState, Task, TaskState};

use super::bulk::restart_all;
use super::deadline::WaitLimits;
use super::progress::{Goal, KnownJob, NextAttempt};
use super::wait::WaitingOutput;
use crate::args::{Global, RestartArguments, RestartFrom};
use crate::command::attempts::TaskAttempts;
use crate::command::confirm::{Intent, confirm};
use crate::exit::{Code, Failure, RUN_AGAIN};
use crate::output::{LeftTaskView, Printer, Progress, RestartedView, ranges, tally, word};

pub(super) async fn restart(
    global: &Global,
    client: &Client,
    arguments: &RestartArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    arguments
        .check()
        .map_err(|message| Failure::new(Code::Usage, message).with_hint("borough job restart --help"))?;
    let [target] = arguments.choice.targets.as_slice() else {
        return restart_all(global, client, arguments, printer).await;
    };
    let job = target.resolve(client.user());
    let row = client.job_get(&job).await?.job.unwrap_or_default();
    running_check(&job, &row)?;
    let from = match arguments.from {
        Some(RestartFrom::Index(index)) => Some(index),
        Some(RestartFrom::Task(_)) | None => None,
    };
    let named = arguments.task.iter().map(|range| *range.end());
    absent_refuse(named.chain(from), &job, count_with_surge(&row))?;
    let what = match indexes(&arguments.task).as_slice() {
        [] => format!("restart the tasks of job {job}, one at a time"),
        chosen => format!("restart {} {} of job {job}", plural(chosen.len()), ranges(chosen)),
    };
    confirm(global, client, Intent::stop(&what), printer)?;
    let ended = restart_job(client, &job, arguments, from, printer).await;
    let view =
        ended.map_err(|RestartStopped { failure, at }| match at.filter(|_| arguments.task.is_empty()) {
            None => failure,
            Some(at) => {
                hint_add(failure, &format!("to go on with it: borough job restart {job} --from {at}"))
            }
        })?;
    printer.one(&view, |view, _| view.text())?;
    Ok(Code::Done)
}

/// Refuses a job without tasks to restart.
pub(super) fn running_check(job: &JobRef, row: &Job) -> Result<(), Failure> {
    if row.state() == JobState::Running {
        return Ok(());
    }
    let state = word(row.state().as_str_name(), "JOB_STATE_");
    let message = format!("job {job} is {state}, so none of its tasks runs that could be restarted");
    Err(Failure::new(Code::Refused, message).with_hint(RUN_AGAIN))
}

/// The failure with a further command in its hint.
pub(super) fn hint_add(failure: Failure, next: &str) -> Failure {
    let hint = failure.hint().map_or_else(|| next.to_owned(), |hint| format!("{hint}; {next}"));
    failure.with_hint(hint)
}

/// Why a restart of one job has ended early.
pub(super) struct RestartStopped {
    /// Without the command that goes on.
    pub(super) failure: Failure,
    /// The task that was restarted last; `None`: none was.
    pub(super) at: Option<u32>,
}

/// Restarts the tasks of one job.
pub(super) async fn restart_job(
    client: &Client,
    job: &JobRef,
    arguments: &RestartArguments,
    from: Option<u32>,
    printer: &Printer,
) -> Result<RestartedView, RestartStopped> {
    let mut rolling = Rolling { client, job, arguments, from, done: Vec::new(), left: Vec::new(), at: None };
    let mut progress = Progress::new(printer);
    let mut waiting = WaitingOutput::new(client, job, WaitLimits::default(), &mut progress);
    let ended = tokio::select! {
        ended = rolling.run(&mut waiting) => ended,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Code::Interrupted, "interrupted")),
    };
    if ended.is_ok() {
        progress.reached();
    }
    drop(progress);
    ended.map_err(|failure| match failure.dry_run() {
        Some(_) => RestartStopped { failure, at: None },
        None => rolling.stopped(&failure),
    })?;
    let Rolling { done, left, .. } = rolling;
    let (user, name) = (job.user.as_str().into(), job.name.as_str().into());
    Ok(RestartedView { user, name, restarted: done, left })
}

/// Refuses an index that the job does not have, before anything happens.
pub(super) fn absent_refuse(
    named: impl IntoIterator<Item = u32>,
    job: &JobRef,
    count: u32,
) -> Result<(), Failure> {
    let Some(absent) = named.into_iter().find(|index| *index >= count) else { return Ok(()) };
    let accepted = match count {
        0 => "it has no tasks".to_owned(),
        1 => "the only one is 0".to_owned(),
        count => format!("accepted: 0 to {}", count - 1),
    };
    Err(Failure::new(Code::NotFound, format!("job {job} has no task {absent}; {accepted}")))
}

fn plural(tasks: usize) -> &'static str {
    if tasks == 1 { "task" } else { "tasks" }
}

struct Rolling<'r> {
    client: &'r Client,
    job: &'r JobRef,
    arguments: &'r RestartArguments,
    /// The first task.
    from: Option<u32>,
    /// The tasks that are healthy again, in the order of their restarts.
    done: Vec<u32>,
    left: Vec<LeftTaskView>,
    /// The task that was restarted last.
    at: Option<RestartedTask>,
}

#[derive(Clone, Copy)]
struct RestartedTask {
    index: u32,
    /// Whether some attempt of it has written output.
    has_output: bool,
}

impl RestartedTask {
    fn of(index: u32, known: &KnownJob) -> Self {
        let task = known.seen.tasks.get(&index);
        Self { index, has_output: task.is_some_and(|task| TaskAttempts::of(task).has_output()) }
    }

    /// What shows why it is not healthy.
    fn hint(self, job: &JobRef) -> String {
        let Self { index, has_output } = self;
        if has_output {
            format!("borough task logs {job}/{index}; borough why {job}/{index}")
        } else {
            format!("borough why {job}/{index}")
        }
    }
}

impl Rolling<'_> {
    async fn run(&mut self, waiting: &mut WaitingOutput<'_, '_>) -> Result<(), Failure> {
        let mut watched = waiting.open().await?;
        let wanted = wanted(self.arguments, self.from, &watched.known);
        let inside = JobsInside::of(self.client, self.job).await?;
        for (place, &index) in wanted.iter().enumerate() {
            let idle = why_idle(watched.known.seen.tasks.get(&index), now_ms())
                .filter(|_| self.arguments.task.is_empty());
            if let Some(why) = idle {
                self.left.push(LeftTaskView { index, why });
                continue;
            }
            self.at = Some(RestartedTask::of(index, &watched.known));
            let task = TaskRef { job: self.job.clone(), index };
            let before = inside.healthy(self.client).await?;
            let ended = self.client.task_restart(&task).await.map_err(Failure::from);
            let rest = wanted.len().saturating_sub(place).saturating_sub(1);
            if rest > 0 && ended.as_ref().is_err_and(|failure| failure.dry_run().is_some()) {
                let further = tally(rest, "further task");
                waiting.step(&format!("{}: {further} would follow, one after the other", self.job));
            }
            let ended = ended?;
            waiting.step(&format!("{task}: restarting ({} of {})", place + 1, wanted.len()));
            let goal = Goal::Again(NextAttempt { index, after: ended.incarnation });
            let timeout = self.arguments.timeout;
            waiting.bound(Some(timeout));
            let reached = tokio::time::timeout(timeout, waiting.reach(&mut watched, goal)).await;
            self.at = Some(RestartedTask::of(index, &watched.known));
            match reached {
                Ok(reached) => reached?,
                Err(_) => {
                    let late = late_text(&watched.known.text(goal), timeout);
                    return Err(waiting.ended_early(Code::Failed, &late).await);
                }
            }
            inside.healthy_again(self.client, &before, timeout).await?;
            self.done.push(index);
        }
        Ok(())
    }

    /// The failure, with what was done before it.
    fn stopped(&self, failure: &Failure) -> RestartStopped {
        let before = match self.done.as_slice() {
            [] => "no task was restarted before".to_owned(),
            done => format!("restarted before: {} {}", plural(done.len()), ranges(done)),
        };
        let stopped = Failure::new(failure.code(), failure.message());
        let mut details = failure.details().to_vec();
        let Some(at) = self.at else {
            return RestartStopped { failure: stopped.with_details(details), at: None };
        };
        details.push(format!("stopped at task {}; {before}", at.index));
        let failure = stopped.with_details(details).with_hint(at.hint(self.job));
        RestartStopped { failure, at: Some(at.index) }
    }
}

/// The jobs in an alloc set. A restart of an alloc ends what is in it, so their budgets count as well.
struct JobsInside(Vec<JobRef>);

/// Time between two looks at the jobs in an alloc set.
const INSIDE_LOOK: Duration = Duration::from_millis(500);

impl JobsInside {
    /// None, if the job is no alloc set.
    async fn of(client: &Client, set: &JobRef) -> Result<Self, Failure> {
        let names = client.job_get(set).await?.job.unwrap_or_default().alloc_jobs;
        Ok(Self(names.into_iter().map(|name| JobRef::new(set.user.as_str(), name)).collect()))
    }

    /// How many tasks of each are healthy.
    async fn healthy(&self, client: &Client) -> Result<Vec<u32>, Failure> {
        let mut healthy = Vec::new();
        for job in &self.0 {
            let row = client.job_get(job).await?.job.unwrap_or_default();
            healthy.push(row.tasks.unwrap_or_default().healthy);
        }
        Ok(healthy)
    }

    /// Waits until as many tasks of each are healthy as before.
    async fn healthy_again(&self, client: &Client, before: &[u32], timeout: Duration) -> Result<(), Failure> {
        let waited = async {
            loop {
                let now = self.healthy(client).await?;
                if now.iter().zip(before).all(|(now, before)| now >= before) {
                    return Ok(());
                }
                tokio::time::sleep(INSIDE_LOOK).await;
            }
        };
        let late = |_| {
            let jobs: Vec<String> = self.0.iter().map(ToString::to_string).collect();
            let state = format!("the tasks of {} in the alloc are not all healthy again", jobs.join(", "));
            Failure::new(Code::Failed, late_text(&state, timeout))
        };
        tokio::time::timeout(timeout, waited).await.map_err(late)?
    }
}

fn late_text(state: &str, timeout: Duration) -> String {
    let after = humantime::format_duration(timeout);
    format!("{state}; not healthy after {after}; the other tasks are left alone")
}

/// The tasks to restart: those that the user names, or all from the first one on.
fn wanted(arguments: &RestartArguments, from: Option<u32>, known: &KnownJob) -> Vec<u32> {
    if arguments.task.is_empty() {
        return (from.unwrap_or(0)..known.seen.job.count).collect();
    }
    indexes(&arguments.task)
}

/// The tasks that the user names, each once.
pub(super) fn indexes(ranges: &[std::ops::RangeInclusive<u32>]) -> Vec<u32> {
    let mut named: Vec<u32> = ranges.iter().cloned().flatten().collect();
    named.sort_unstable();
    named.dedup();
    named
}

fn now_ms() -> i64 {
    SystemClock::shared().wall_ms()
}

/// Why a task has no attempt to end.
fn why_idle(task: Option<&Task>, now_ms: i64) -> Option<&'static str> {
    match task.map_or(TaskState::Pending, Task::state) {
        TaskState::Pending if task.is_some_and(|task| task.not_before_ms > now_ms) => {
            Some("it waits for the end of its back-off after a failure")
        }
        TaskState::Pending => Some("it waits for a node"),
        TaskState::Dead => Some("it is over"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Arguments, JobVerb, Verb};

    fn arguments(line: &str) -> RestartArguments {
        match Arguments::parse_from(line.split(' ')).verb {
            Verb::Job(JobVerb::Restart(arguments)) => arguments,
            other => panic!("{other:?}"),
        }
    }

    fn from_of(arguments: &RestartArguments) -> Option<u32> {
        match arguments.from {
            Some(RestartFrom::Index(index)) => Some(index),
            _ => None,
        }
    }

    #[test]
    fn all_tasks_are_restarted_in_order_or_those_that_are_named() {
        let known = KnownJob::of(Job { count: 4, ..Job::default() });
        let wanted = |line: &str| wanted(&arguments(line), from_of(&arguments(line)), &known);
        assert_eq!(wanted("borough job restart web"), [0, 1, 2, 3]);
        assert_eq!(wanted("borough job restart web --from 2"), [2, 3]);
        assert!(wanted("borough job restart web --from 4").is_empty());
        assert_eq!(wanted("borough job restart web --task 3 --task 1 --task 3"), [1, 3]);
        assert_eq!(
            wanted("borough job restart web --task 9,1"),
            [1, 9],
            "the gateway refuses what is not there"
        );
    }

    #[test]
    fn an_index_that_the_job_does_not_have_is_refused_before_anything_happens() {
        let job = JobRef::new("ann", "web");
        let refused = |line: &str, count| {
            let arguments = arguments(line);
            let named = arguments.task.iter().map(|range| *range.end()).chain(from_of(&arguments));
            let refused = absent_refuse(named, &job, count).err();
            refused.map(|failure| failure.message().to_owned()).unwrap_or_default()
        };
        assert_eq!(refused("borough job restart web --task 0,3", 4), "");
        assert_eq!(
            refused("borough job restart web --task 0,4", 4),
            "job ann/web has no task 4; accepted: 0 to 3"
        );
        assert_eq!(
            refused("borough job restart web --from 1", 1),
            "job ann/web has no task 1; the only one is 0"
        );
        assert_eq!(
            refused("borough job restart web --from 0", 0),
            "job ann/web has no task 0; it has no tasks"
        );
        assert_eq!(refused("borough job restart web", 0), "");
    }

    #[test]
    fn the_hint_has_no_logs_of_a_task_that_has_never_run() {
        let mut known = KnownJob::default();
        let task = |state: TaskState| Task { state: state.into(), incarnation: 1, ..Task::default() };
        known.seen.tasks.insert(0, Task::default());
        known.seen.tasks.insert(1, task(TaskState::Assigned));
        known.seen.tasks.insert(2, task(TaskState::Running));
        let hint = |index| RestartedTask::of(index, &known).hint(&JobRef::new("ann", "web"));
        assert_eq!(hint(0), "borough why ann/web/0");
        assert_eq!(hint(1), "borough why ann/web/1");
        assert_eq!(hint(2), "borough task logs ann/web/2; borough why ann/web/2");
        assert_eq!(hint(9), "borough why ann/web/9");
    }

    #[test]
    fn tasks_without_an_attempt_are_left_alone() {
        let task = |state: TaskState| Task { state: state.into(), ..Task::default() };
        let why_idle = |task: Option<&Task>| super::why_idle(task, 1_000);
        assert_eq!(why_idle(None), Some("it waits for a node"));
        let paused = |not_before_ms| Task { not_before_ms, ..task(TaskState::Pending) };
        assert_eq!(why_idle(Some(&paused(1_000))), Some("it waits for a node"));
        let back_off = Some("it waits for the end of its back-off after a failure");
        assert_eq!(why_idle(Some(&paused(1_001))), back_off);
        assert_eq!(why_idle(Some(&task(TaskState::Dead))), Some("it is over"));
        for state in [TaskState::Starting, TaskState::Running, TaskState::Stopping, TaskState::Lost] {
            assert_eq!(why_idle(Some(&task(state))), None, "{state:?}");
        }
    }
}
