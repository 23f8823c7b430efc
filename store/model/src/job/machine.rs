//! A job's attempt: `waiting → running → (stopping) → ended`.

use crate::id::{JobId, Name, RequestId};
use crate::job::{AfterCondition, JobOutcome, JobRow, JobSpec, JobState};

/// How a task ended for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskEnd {
    Succeeded,
    /// It failed, and is not tried again.
    Failed,
    /// Its job was stopped or shrank.
    Stopped,
}

/// What happens to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEvent {
    /// The jobs it waits for have ended as they should.
    DependenciesMet,
    /// A job it waits for ended otherwise, and will never end as it should.
    DependencyFailed,
    /// Its owner stops it.
    StopRequested,
    /// Its owner wants another number of tasks.
    CountSet {
        /// How many.
        count: u32,
        /// Tasks with an index below `count` that have succeeded.
        succeeded: u32,
        /// Tasks with an index below `count` that have failed for good.
        failed: u32,
    },
    /// Its owner gives it another priority.
    PrioritySet {
        /// Which.
        priority: u32,
    },
    /// Its spec has a new version, with other metadata.
    SpecReplaced,
    /// A task with an index below the count ended for good.
    TaskEnded {
        /// How.
        end: TaskEnd,
    },
    /// No task of it is charged to a node any more, and none is lost.
    TasksGone,
}

/// Why an event does not apply to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobRefused {
    /// It is stopping or over: submit it again under the same name once it has ended.
    #[error("the job is {0:?}")]
    Over(JobState),
    /// It does not stop: a defect of the caller.
    #[error("the job is {0:?}; only one that is stopping ends when its tasks are gone")]
    NotStopping(JobState),
}

/// What an event does to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTransition {
    /// The new row; the old one where nothing has changed.
    pub row: JobRow,
    /// Whether anything has changed.
    pub changed: bool,
    /// Whether placements in flight may be wrong now: the job's gate is written too.
    pub gate: bool,
}

/// The row of a job that is admitted.
pub fn job_new(id: JobId, spec: &JobSpec, request: RequestId, now_ms: i64) -> JobRow {
    JobRow {
        id,
        user: spec.user.clone(),
        name: spec.name.clone(),
        state: if spec.after.is_empty() { JobState::Running } else { JobState::Waiting },
        count: spec.count,
        priority: spec.priority,
        spec_version: 1,
        revision: 1,
        submitted_ms: now_ms,
        changed_ms: now_ms,
        request,
        succeeded: 0,
        failed: 0,
    }
}

/// What `event`, caused by `request`, does to `row` at wall time `now_ms` (milliseconds since 1970).
///
/// A job with a count of 0 never ends by itself: it waits to be scaled.
pub fn job_transition(
    row: &JobRow,
    event: &JobEvent,
    request: RequestId,
    now_ms: i64,
) -> Result<JobTransition, JobRefused> {
    let mut next = row.clone();
    match event {
        JobEvent::DependenciesMet if row.state == JobState::Waiting => next.state = JobState::Running,
        JobEvent::DependencyFailed if row.state == JobState::Waiting => {
            next.state = JobState::Ended { outcome: JobOutcome::DependencyFailed };
        }
        // The dependencies were decided before; the report repeats.
        JobEvent::DependenciesMet | JobEvent::DependencyFailed => {}
        JobEvent::StopRequested => next.state = stop_requested(row.state),
        JobEvent::CountSet { count, succeeded, failed } => {
            job_alive(row)?;
            next.count = *count;
            next.succeeded = *succeeded;
            next.failed = *failed;
            next.state = completed(&next);
        }
        JobEvent::PrioritySet { priority } => {
            job_alive(row)?;
            next.priority = *priority;
        }
        JobEvent::SpecReplaced => {
            job_alive(row)?;
            next.spec_version = row.spec_version.saturating_add(1);
        }
        JobEvent::TaskEnded { end } => task_ended(&mut next, *end),
        JobEvent::TasksGone => next.state = tasks_gone(row.state)?,
    }
    Ok(job_changed(row, next, request, now_ms))
}

fn job_changed(row: &JobRow, mut next: JobRow, request: RequestId, now_ms: i64) -> JobTransition {
    let changed = next != *row;
    // With another priority others may give way to it, or it to others. With other labels it keeps apart from others.
    let gate = next.count < row.count
        || next.spec_version != row.spec_version
        || next.priority != row.priority
        || (next.state != row.state && next.state != JobState::Running);
    if changed {
        next.revision = row.revision.saturating_add(1);
        next.changed_ms = now_ms;
        next.request = request;
    }
    JobTransition { row: next, changed, gate }
}

fn job_alive(row: &JobRow) -> Result<(), JobRefused> {
    match row.state {
        JobState::Waiting | JobState::Running => Ok(()),
        JobState::Stopping | JobState::Ended { .. } => Err(JobRefused::Over(row.state)),
    }
}

/// A job that never ran has nothing to end.
fn stop_requested(state: JobState) -> JobState {
    match state {
        JobState::Waiting => JobState::Ended { outcome: JobOutcome::Stopped },
        JobState::Running | JobState::Stopping => JobState::Stopping,
        JobState::Ended { outcome } => JobState::Ended { outcome },
    }
}

fn tasks_gone(state: JobState) -> Result<JobState, JobRefused> {
    match state {
        JobState::Stopping => Ok(JobState::Ended { outcome: JobOutcome::Stopped }),
        JobState::Ended { outcome } => Ok(JobState::Ended { outcome }),
        JobState::Waiting | JobState::Running => Err(JobRefused::NotStopping(state)),
    }
}

fn task_ended(next: &mut JobRow, end: TaskEnd) {
    match end {
        TaskEnd::Succeeded => next.succeeded = next.succeeded.saturating_add(1),
        TaskEnd::Failed => next.failed = next.failed.saturating_add(1),
        TaskEnd::Stopped => {}
    }
    next.state = completed(next);
}

/// A running job is over when every task is.
fn completed(row: &JobRow) -> JobState {
    let over = row.succeeded.saturating_add(row.failed);
    match row.state {
        JobState::Running if row.count > 0 && over >= row.count => {
            let outcome = if row.failed == 0 { JobOutcome::Succeeded } else { JobOutcome::Failed };
            JobState::Ended { outcome }
        }
        state @ (JobState::Waiting | JobState::Running | JobState::Stopping | JobState::Ended { .. }) => {
            state
        }
    }
}

/// Whether a job that waits may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterDecision {
    /// Every job it waits for has ended as it should.
    Go,
    /// This one has not ended, or was never submitted.
    Wait(Name),
    /// This one has ended otherwise than it should.
    Never(Name),
}

/// Whether a job may go, given the state of each job it waits for; `None` for one that was never submitted.
pub fn after_decide(spec: &JobSpec, state_of: impl Fn(&Name) -> Option<JobState>) -> AfterDecision {
    let mut waits = None;
    for after in &spec.after {
        match (state_of(&after.job), after.condition) {
            (Some(JobState::Ended { outcome: JobOutcome::Succeeded }), AfterCondition::Succeeded)
            | (Some(JobState::Ended { .. }), AfterCondition::Finished) => {}
            (Some(JobState::Ended { .. }), AfterCondition::Succeeded) => {
                return AfterDecision::Never(after.job.clone());
            }
            (None | Some(JobState::Waiting | JobState::Running | JobState::Stopping), _) => {
                waits.get_or_insert_with(|| after.job.clone());
            }
        }
    }
    waits.map_or(AfterDecision::Go, AfterDecision::Wait)
}
