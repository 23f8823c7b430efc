//! The states of a job: `waiting → running → (stopping) → ended`.

use std::collections::{BTreeMap, VecDeque};

use crate::id::{JobId, Name, RequestId};
use crate::job::{
    After, AfterCondition, DaemonCounts, JobAlloc, JobKind, JobMoves, JobOutcome, JobRow, JobSpec, JobState,
    Rollout,
};

/// How a task ended for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskEnd {
    Succeeded,
    /// It failed, and does not restart.
    Failed,
    /// Its job was stopped or shrank.
    Stopped,
    /// Its daemon job does not serve its node any more.
    Withdrawn,
}

/// An event of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvent {
    /// All jobs that it waits for have ended as their conditions say.
    DependenciesMet,
    /// A job that it waits for has ended otherwise, so the condition can never be met.
    DependencyFailed,
    StopRequested,
    /// Its owner has scaled it, or what surges has changed.
    CountSet {
        count: u32,
        /// The tasks with an index below `count` that have succeeded.
        succeeded: u32,
        /// The tasks with an index below `count` that have failed for good.
        failed: u32,
        /// Its rollout from now on, if that changes as well.
        rollout: Option<Box<Rollout>>,
        /// What its moves leave in the row from now on, if that changes as well.
        moves: Option<Box<JobMoves>>,
    },
    /// The controller has given tasks of a daemon job to nodes, or nodes wait for the quota.
    NodesServed {
        /// The count of indexes from now on.
        count: u32,
        /// Withdrawn tasks that serve a node again.
        again: u32,
        unadmitted: u32,
        left: u32,
    },
    PrioritySet {
        priority: u32,
    },
    /// Its owner has changed its metadata: its spec has a new version.
    SpecReplaced {
        /// Its rollout from now on, if that changes as well.
        rollout: Option<Box<Rollout>>,
    },
    /// Its spec has a new version, which a rollout brings to its tasks.
    SpecUpdated {
        rollout: Box<Rollout>,
    },
    /// The state of its rollout has changed.
    RolloutSet {
        rollout: Box<Rollout>,
    },
    /// Moves of its tasks leave this in its row.
    MovesSet {
        moves: Box<JobMoves>,
    },
    /// A job was submitted into this alloc set. Others in it may have ended.
    MembersSet {
        members: Vec<JobId>,
    },
    /// A task with an index below the count has ended for good.
    TaskEnded {
        end: TaskEnd,
    },
    /// Tasks with an index below the count that had ended for good are wanted again.
    TasksRevived {
        /// How many of them had succeeded.
        succeeded: u32,
        /// How many of them had failed.
        failed: u32,
    },
    /// None of its tasks is charged to a node or lost any more.
    TasksGone,
}

/// Why an event does not apply to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobRefused {
    /// It is stopping, or has ended. Submit it again under the same name after it has ended.
    #[error("the job is {0}")]
    Over(JobState),
    /// It is not stopping. This is a defect of the caller.
    #[error("the job is {0}; only one that is stopping ends when its tasks are gone")]
    NotStopping(JobState),
}

/// The result of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTransition {
    /// The new row; the old one if nothing has changed.
    pub row: JobRow,
    pub changed: bool,
    /// Whether placements in flight may be wrong now. The caller then writes the gate of the job too.
    pub gate: bool,
}

/// The row of a newly admitted job.
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
        rollout: None,
        changes: None,
        daemon: (spec.kind == JobKind::Daemon).then(Box::default),
        moves: None,
        alloc: JobAlloc::of_new(spec),
        quota_groups: None,
    }
}

/// Applies `event`, which `request` has caused, to `row` at wall time `now_ms` (milliseconds since 1970).
///
/// A job with a count of 0 never ends by itself, so that it can be scaled again.
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
        // The dependencies were decided before: a controller repeats its report.
        JobEvent::DependenciesMet | JobEvent::DependencyFailed => {}
        JobEvent::StopRequested => next.state = stop_requested(row.state),
        JobEvent::CountSet { count, succeeded, failed, rollout, moves } => {
            job_alive(row)?;
            next.count = *count;
            next.rollout = rollout.clone().or(next.rollout);
            next.moves = moves.clone().or(next.moves);
            next.succeeded = *succeeded;
            next.failed = *failed;
            next.state = completed(&next);
        }
        JobEvent::NodesServed { count, again, unadmitted, left } => {
            job_alive(row)?;
            let before = next.daemon.as_deref().copied().unwrap_or_default();
            let stepped = before.steps == 0 || *again > 0 || *count != next.count;
            next.count = *count;
            // A step counts only if it has given a task to a node, or is the first one.
            next.daemon = Some(Box::new(DaemonCounts {
                withdrawn: before.withdrawn.saturating_sub(*again),
                unadmitted: *unadmitted,
                steps: before.steps.saturating_add(u64::from(stepped)),
                left: *left,
            }));
        }
        JobEvent::PrioritySet { priority } => {
            job_alive(row)?;
            next.priority = *priority;
        }
        JobEvent::SpecReplaced { rollout } => {
            job_alive(row)?;
            next.spec_version = row.spec_version.saturating_add(1);
            next.rollout = rollout.clone().or(next.rollout);
        }
        JobEvent::SpecUpdated { rollout } => {
            job_alive(row)?;
            next.spec_version = row.spec_version.saturating_add(1);
            next.rollout = Some(rollout.clone());
            // What surges for moves does so for the rollout from now on.
            if let Some(moves) = &mut next.moves {
                (moves.surge, moves.surge_refused) = (0, false);
            }
        }
        JobEvent::RolloutSet { rollout } => {
            job_alive(row)?;
            next.rollout = Some(rollout.clone());
        }
        JobEvent::MovesSet { moves } => {
            job_alive(row)?;
            next.moves = Some(moves.clone());
        }
        JobEvent::MembersSet { members } => next.alloc = Some(members_set(row, members)?),
        JobEvent::TaskEnded { end } => task_ended(&mut next, *end),
        JobEvent::TasksRevived { succeeded, failed } => tasks_revived(&mut next, *succeeded, *failed)?,
        JobEvent::TasksGone => next.state = tasks_gone(row.state)?,
    }
    Ok(job_changed(row, next, request, now_ms))
}

fn job_changed(row: &JobRow, mut next: JobRow, request: RequestId, now_ms: i64) -> JobTransition {
    let changed = next != *row;
    // Another priority changes who may evict whom. Other labels change which jobs keep apart from it.
    let gate = next.count < row.count
        || next.spec_version != row.spec_version
        || next.canary_base() != row.canary_base()
        // The task at the old count may have another version now.
        || (next.canary_base().is_some() && next.count != row.count)
        || next.priority != row.priority
        || (next.state != row.state && next.state != JobState::Running);
    if changed {
        next.revision = row.revision.saturating_add(1);
        next.changed_ms = now_ms;
        next.request = request;
    }
    JobTransition { row: next, changed, gate }
}

fn members_set(row: &JobRow, members: &[JobId]) -> Result<Box<JobAlloc>, JobRefused> {
    job_alive(row)?;
    Ok(Box::new(JobAlloc::Set { members: members.to_vec() }))
}

fn job_alive(row: &JobRow) -> Result<(), JobRefused> {
    match row.state {
        JobState::Waiting | JobState::Running => Ok(()),
        JobState::Stopping | JobState::Ended { .. } => Err(JobRefused::Over(row.state)),
    }
}

/// The state after a stop. A job that never ran has no tasks to end.
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

fn tasks_revived(next: &mut JobRow, succeeded: u32, failed: u32) -> Result<(), JobRefused> {
    job_alive(next)?;
    next.succeeded = next.succeeded.saturating_sub(succeeded);
    next.failed = next.failed.saturating_sub(failed);
    Ok(())
}

fn task_ended(next: &mut JobRow, end: TaskEnd) {
    match end {
        TaskEnd::Withdrawn => {
            if let Some(daemon) = &mut next.daemon {
                daemon.withdrawn = daemon.withdrawn.saturating_add(1);
            }
        }
        TaskEnd::Succeeded => next.succeeded = next.succeeded.saturating_add(1),
        TaskEnd::Failed => next.failed = next.failed.saturating_add(1),
        TaskEnd::Stopped => {}
    }
    next.state = completed(next);
}

/// The state after a change of the counts: a running job ends when every task has ended.
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

/// Whether a waiting job may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterDecision {
    /// Every condition is met.
    Go,
    /// This job has not ended, or was never submitted.
    Wait(Name),
    /// This job has ended, and its condition is not met.
    Never(Name),
}

/// Jobs that one search for a circle asks about: the spec of each takes some microseconds to decode.
const AFTER_CYCLE_JOBS_MAX: usize = 1_000;

/// The jobs by which `job` waits for itself, from it back to it; `None` if it does not, or only by way of more jobs
/// than one search asks about. `waits_for` gives the jobs that a job waits for; none if it is not waiting.
pub fn after_cycle(job: &Name, waits_for: impl Fn(&Name) -> Vec<Name>) -> Option<Vec<Name>> {
    let mut waiters: BTreeMap<Name, Name> = BTreeMap::new();
    let mut unread = VecDeque::from([job.clone()]);
    for _ in 0..AFTER_CYCLE_JOBS_MAX {
        let waiter = unread.pop_front()?;
        for next in waits_for(&waiter) {
            if next == *job {
                let back = std::iter::successors(Some(waiter), |name| waiters.get(name).cloned());
                let mut cycle: Vec<Name> = std::iter::once(next).chain(back).collect();
                cycle.reverse();
                return Some(cycle);
            }
            if !waiters.contains_key(&next) {
                waiters.insert(next.clone(), waiter.clone());
                unread.push_back(next);
            }
        }
    }
    None
}

/// Decides whether a job may start. `state_of` gives the state of each job that it waits for; `None`: never submitted.
pub fn after_decide(afters: &[After], state_of: impl Fn(&Name) -> Option<JobState>) -> AfterDecision {
    let mut waits = None;
    for after in afters {
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
