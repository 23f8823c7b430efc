//! The jobs of a load, and where their tasks are, as an independent watcher of the journal sees them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use borough_model::task::{Attempt, TaskRow, TaskState};
use borough_model::{Delta, JobId, JobSpec, TaskId};
use parking_lot::Mutex;

/// The part of a workload that a job belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JobGroup {
    /// Placed before the measurement.
    Before,
    /// Admitted before the measurement, and never placed.
    Gated,
    Measured,
    /// Of the background load: it preempts others.
    Preempting,
}

/// A job as it was submitted.
#[derive(Clone, Debug)]
pub(super) struct LoadJob {
    pub group: JobGroup,
    pub user: String,
    pub name: String,
    pub tasks: u32,
    /// When it had to be submitted.
    pub due: Instant,
}

impl LoadJob {
    /// A job of a group, due at a moment.
    pub(super) fn of(group: JobGroup, spec: &JobSpec, due: Instant) -> Self {
        Self { group, user: spec.user.to_string(), name: spec.name.to_string(), tasks: spec.count, due }
    }
}

/// A job and the attempts of its tasks. All of them have a place.
#[derive(Clone, Debug)]
pub(super) struct PlacedJob {
    pub id: JobId,
    pub job: LoadJob,
    pub attempts: Vec<(TaskId, Attempt)>,
}

/// What is known of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TaskSeen {
    #[default]
    Never,
    Placed(Attempt),
    /// It had a place, and is evicted or ended.
    Gone,
}

struct WatchedJob {
    job: LoadJob,
    tasks: Vec<TaskSeen>,
    /// Tasks that never had a place.
    unseen: u32,
}

/// How many tasks of a group were submitted, were placed for the first time, and have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupTasks {
    pub submitted: u64,
    pub placed: u64,
    pub ended: u64,
    /// Those that have a place now: an evicted task has none until it is placed again.
    pub here: u64,
}

impl GroupTasks {
    /// Those that never had a place so far.
    pub(super) fn waiting(self) -> u64 {
        self.submitted.saturating_sub(self.placed)
    }

    /// Those that have not ended.
    pub(super) fn alive(self) -> u64 {
        self.submitted.saturating_sub(self.ended)
    }

    /// Those that have, or had, a place and have not ended.
    pub(super) fn resident(self) -> u64 {
        self.placed.saturating_sub(self.ended)
    }
}

#[derive(Default)]
struct WatchedState {
    jobs: BTreeMap<JobId, WatchedJob>,
    groups: BTreeMap<JobGroup, GroupTasks>,
    /// Jobs of earlier and measured tasks, in the order in which their last task was placed for the first time.
    whole: BTreeMap<JobGroup, VecDeque<JobId>>,
    /// Microseconds from when a measured task was due to when it was seen; absent: nobody asks.
    latencies_us: Option<Vec<u64>>,
}

/// The jobs of a load.
#[derive(Default)]
pub(super) struct LoadJobs {
    state: Mutex<WatchedState>,
}

impl LoadJobs {
    /// Records a job just before its submission.
    pub(super) fn submitted(&self, id: JobId, job: LoadJob) {
        let mut state = self.state.lock();
        state.groups.entry(job.group).or_default().submitted += u64::from(job.tasks);
        let tasks = (0..job.tasks).map(|_| TaskSeen::Never).collect();
        let unseen = job.tasks;
        state.jobs.insert(id, WatchedJob { job, tasks, unseen });
    }

    /// Follows the journal, which has reached `at`.
    pub(super) fn note(&self, deltas: &mut dyn Iterator<Item = &Delta>, at: Instant) {
        let mut state = self.state.lock();
        for delta in deltas {
            if let Delta::Task { row } = delta {
                state.task(row, at);
            }
        }
    }

    /// The counts of a group.
    pub(super) fn tasks(&self, group: JobGroup) -> GroupTasks {
        self.state.lock().groups.get(&group).copied().unwrap_or_default()
    }

    /// Takes the job of a group whose tasks have had their places longest. Jobs with an evicted task go to the end of
    /// the queue.
    pub(super) fn oldest_take(&self, group: JobGroup) -> Option<PlacedJob> {
        let mut state = self.state.lock();
        let WatchedState { jobs, whole, .. } = &mut *state;
        let queue = whole.get_mut(&group)?;
        for _ in 0..queue.len() {
            let id = queue.pop_front()?;
            let Some(watched) = jobs.get(&id) else { continue };
            if let Some(attempts) = watched.attempts(id) {
                return Some(PlacedJob { id, job: watched.job.clone(), attempts });
            }
            queue.push_back(id);
        }
        None
    }

    /// Puts a job back that was taken and is not gone yet.
    pub(super) fn put_back(&self, job: &PlacedJob) {
        self.state.lock().whole.entry(job.job.group).or_default().push_back(job.id);
    }

    /// Forgets a job that was taken and is gone.
    pub(super) fn ended(&self, job: &PlacedJob) {
        let mut state = self.state.lock();
        if let Some(watched) = state.jobs.remove(&job.id) {
            let here = watched.tasks.iter().filter(|seen| matches!(seen, TaskSeen::Placed(_))).count();
            let tasks = state.groups.entry(job.job.group).or_default();
            tasks.ended += u64::from(job.job.tasks);
            tasks.here = tasks.here.saturating_sub(u64::try_from(here).unwrap_or(u64::MAX));
        }
    }

    /// Measures from now on when measured tasks are seen.
    pub(super) fn latencies_begin(&self) {
        self.state.lock().latencies_us = Some(Vec::new());
    }

    /// Ends this measurement. Returns microseconds.
    pub(super) fn latencies_end(&self) -> Vec<u64> {
        self.state.lock().latencies_us.take().unwrap_or_default()
    }
}

impl WatchedJob {
    /// The attempts of its tasks; `None` if one has no place.
    fn attempts(&self, id: JobId) -> Option<Vec<(TaskId, Attempt)>> {
        let attempt = |(index, seen): (u32, &TaskSeen)| match seen {
            TaskSeen::Placed(attempt) => Some((TaskId { job: id, index }, *attempt)),
            TaskSeen::Never | TaskSeen::Gone => None,
        };
        (0..).zip(&self.tasks).map(attempt).collect()
    }
}

impl WatchedState {
    fn task(&mut self, row: &TaskRow, at: Instant) {
        let Some(watched) = self.jobs.get_mut(&row.id.job) else { return };
        let Some(seen) = usize::try_from(row.id.index).ok().and_then(|index| watched.tasks.get_mut(index))
        else {
            return;
        };
        // A task that is only held for victims or a gang is no placement yet, and may never be one.
        let attempt = match row.state {
            TaskState::Pending | TaskState::Held | TaskState::Stopping | TaskState::Dead => None,
            _ => row.node.map(|node| Attempt { node, incarnation: row.incarnation }),
        };
        let before = *seen;
        let tasks = self.groups.entry(watched.job.group).or_default();
        match (before, attempt) {
            (TaskSeen::Placed(_), Some(attempt)) => *seen = TaskSeen::Placed(attempt),
            (TaskSeen::Never | TaskSeen::Gone, Some(attempt)) => {
                tasks.here += 1;
                *seen = TaskSeen::Placed(attempt);
            }
            (TaskSeen::Placed(_), None) => {
                tasks.here = tasks.here.saturating_sub(1);
                *seen = TaskSeen::Gone;
            }
            (TaskSeen::Never | TaskSeen::Gone, None) => {}
        }
        if before != TaskSeen::Never || attempt.is_none() {
            return;
        }
        watched.unseen = watched.unseen.saturating_sub(1);
        tasks.placed += 1;
        let job = &watched.job;
        if job.group == JobGroup::Measured
            && let Some(latencies_us) = &mut self.latencies_us
        {
            let latency = at.saturating_duration_since(job.due).as_micros();
            latencies_us.push(u64::try_from(latency).unwrap_or(u64::MAX));
        }
        if watched.unseen == 0 {
            self.whole.entry(job.group).or_default().push_back(row.id.job);
        }
    }
}
