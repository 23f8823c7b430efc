//! The auditor's rule of disruption budgets: healthy tasks that are ended by choice never exceed that of their job.
//!
//! It counts again what uses budget, by the rows alone.

use std::collections::BTreeMap;

use borough_model::job::{JobKind, JobRow, JobSpec, JobState, RolloutState};
use borough_model::task::{EndReason, StopReason, TaskRow, TaskState, Verdict};
use borough_model::{Delta, JobId, JournalEntry, TaskId};

use super::Auditor;
use super::rollout::is_healthy;

/// Tasks of a job of which every step reads all rows.
const COUNT_MAX: u32 = 1_024;

impl Auditor {
    /// Checks the attempts that drains and taints end, by the rows before the entry. An operator may force a drain.
    pub(super) fn moves_check(&mut self, entry: &JournalEntry) {
        if matches!(entry.action.as_str(), "task_move" | "rollout_replace") {
            self.allocs_moved_check(entry);
        }
        if entry.action != "task_move" {
            return;
        }
        let mut ended: BTreeMap<JobId, Vec<TaskId>> = BTreeMap::new();
        for delta in &entry.deltas {
            if let Delta::Task { row } = delta
                && !is_healthy(row)
                && row.alloc.is_none()
                && self.tasks.get(&row.id).is_some_and(is_healthy)
            {
                ended.entry(row.id.job).or_default().push(row.id);
            }
        }
        for (job, tasks) in ended {
            let Some((row, spec)) = self.jobs.get(&job).cloned().zip(self.specs.get(&job).cloned()) else {
                continue;
            };
            let serves = spec.kind == JobKind::Service && !spec.is_gang() && row.state == JobState::Running;
            if serves && row.count <= COUNT_MAX {
                self.moved_check(&row, &spec, &tasks);
            }
        }
    }

    /// Allocs leave with what is in them, so each job in them must be able to miss that. If an alloc has more tasks of
    /// a job than it may miss, it leaves while no other one is away. The controller ends what is in an alloc that ends
    /// for another reason: that is no choice.
    fn allocs_moved_check(&mut self, entry: &JournalEntry) {
        let allocs_end = entry.deltas.iter().any(|delta| {
            matches!(delta, Delta::Task { row } if self.jobs.get(&row.id.job).is_some_and(|job| job.alloc_members().is_some()))
        });
        let left = if allocs_end { self.alloc_left(entry) } else { BTreeMap::new() };
        for (job, tasks) in left {
            let Some((row, spec)) = self.jobs.get(&job).cloned().zip(self.specs.get(&job).cloned()) else {
                continue;
            };
            if spec.kind != JobKind::Service || row.state != JobState::Running {
                continue;
            }
            self.note("alloc_left_healthy");
            let count = row.count - row.surge();
            let serving = self.serving(&row, false);
            let gone =
                u64::try_from(tasks.iter().filter(|task| task.index < count).count()).unwrap_or(u64::MAX);
            let most = moved_max(&spec, count, false);
            let place = |task: &TaskId| {
                self.tasks.get(task).and_then(|row| row.alloc.as_ref()).map(|place| place.alloc)
            };
            let is_one = tasks.windows(2).all(|pair| place(&pair[0]) == place(&pair[1]));
            let fits = serving.saturating_sub(gone) + most >= u64::from(count);
            // One that comes back to an alloc on a drained node waits for the alloc, and goes nowhere before.
            let comes_back = |row: &&TaskRow| {
                let alloc = row.alloc.as_ref().map(|place| place.alloc);
                row.id.index < count
                    && row.state == TaskState::Pending
                    && alloc == tasks.first().and_then(place)
            };
            let of_job = self.tasks.values().filter(|row| row.id.job == job && entry.action == "task_move");
            let awaited = u64::try_from(of_job.filter(comes_back).count()).unwrap_or(u64::MAX);
            let alone = is_one && serving.saturating_add(awaited) >= u64::from(count);
            self.require(fits || alone, "alloc_budget", || {
                format!(
                    "{tasks:?} leave with their allocs, {serving} of {count} served, and {most} may be away"
                )
            });
        }
    }

    fn moved_check(&mut self, row: &JobRow, spec: &JobSpec, ended: &[TaskId]) {
        let surge = row.surge();
        let count = row.count - surge;
        let wanted = ended.iter().filter(|task| task.index < row.count).count();
        // A rollout that goes on ends by itself, so nothing needs to go on without what surges for it.
        let rolls = row.rollout.as_ref().is_some_and(|rollout| rollout.state == RolloutState::Rolling);
        let serves = if surge > 0 { rolls || self.surge_serves(row) } else { surges_first(spec, row) };
        let most = moved_max(spec, count, serves);
        let left = self.serving(row, false).saturating_sub(u64::try_from(wanted).unwrap_or(u64::MAX));
        self.note("moved_healthy");
        if surge > 0 {
            self.note("moved_with_surge");
        }
        self.require(wanted == 0 || left + most >= u64::from(count), "move_budget", || {
            format!("{ended:?} of {} are moved, and {left} of {count} are left: {most} may be away", row.id)
        });
    }

    /// Tasks that are healthy, or that no budget waits for. `counts_unplaced`: one that was never placed is waited for.
    pub(super) fn serving(&self, row: &JobRow, counts_unplaced: bool) -> u64 {
        // A task that keeps failing counts up to this version: one that never served fails by itself.
        let newest = row.rollout.as_deref().and_then(|rollout| match rollout.state {
            RolloutState::Done => None,
            RolloutState::Rolling if counts_unplaced => rollout.version.checked_sub(1),
            _ if counts_unplaced => None,
            _ => Some(rollout.stable.last().copied().unwrap_or(0)),
        });
        let owned = row.count - row.surge();
        let mut serving = 0;
        for index in 0..row.count {
            let task = self.tasks.get(&TaskId { job: row.id, index });
            let is_owned = index < owned;
            let is_unplaced = task.is_none_or(|task| task.incarnation.0 == 0 || is_spared(task));
            let counts = match task {
                Some(task) if is_healthy(task) => true,
                _ if !is_owned => false,
                _ if is_unplaced => !counts_unplaced,
                Some(task) if task.state == TaskState::Dead => true,
                Some(task) => fails(task) && newest.is_none_or(|version| task.spec_version <= version),
                None => false,
            };
            serving += u64::from(counts);
        }
        serving
    }

    /// Whether some task that surges may serve.
    fn surge_serves(&self, row: &JobRow) -> bool {
        let mut surging = row.count - row.surge()..row.count;
        surging.any(|index| {
            let task = self.tasks.get(&TaskId { job: row.id, index });
            task.is_none_or(|task| !fails(task) && (task.state != TaskState::Dead || is_spared(task)))
        })
    }
}

/// It ended because its job had been smaller, and begins again.
fn is_spared(task: &TaskRow) -> bool {
    task.state == TaskState::Dead
        && matches!(task.stop, Some(StopReason::JobShrunk | StopReason::SurgeOver))
        && task.verdict == Some(Verdict::Stopped)
}

/// It has failed twice in a row or more, and is not healthy.
fn fails(task: &TaskRow) -> bool {
    let lost = task
        .exit
        .as_ref()
        .is_some_and(|exit| matches!(exit.reason, EndReason::NodeLost | EndReason::NodeRebooted));
    let paused = task.not_before_ms > 0 && !lost;
    let by_itself = matches!(task.stop, None | Some(StopReason::Unhealthy));
    task.failures > 1
        && match task.state {
            TaskState::Dead | TaskState::Lost => false,
            TaskState::Stopping => {
                task.stop == Some(StopReason::Unhealthy) || (paused && task.healthy_ms == 0)
            }
            TaskState::Releasing => by_itself && task.verdict == Some(Verdict::Again),
            _ => paused && !is_healthy(task),
        }
}

/// Whether a further task surges before the first one is moved: unless a rollout is open, or the quota had no room.
fn surges_first(spec: &JobSpec, row: &JobRow) -> bool {
    let update = spec.update.unwrap_or_default();
    let surges = update.surge_max.unwrap_or(0) > 0 || update.surge_percent_max.unwrap_or(0) > 0;
    let is_open = row
        .rollout
        .as_ref()
        .is_some_and(|rollout| matches!(rollout.state, RolloutState::Rolling | RolloutState::Paused));
    surges && !is_open && !row.moves.as_ref().is_some_and(|moves| moves.surge_refused)
}

/// How many of `count` tasks drains and taints may leave away. `surge_serves`: others stand in for them, or will.
fn moved_max(spec: &JobSpec, count: u32, surge_serves: bool) -> u64 {
    let update = spec.update.unwrap_or_default();
    let asked =
        update.surge_max.unwrap_or(0) > 0 || update.surge_percent_max.unwrap_or(0) > 0 || update.canaries > 0;
    let says = asked || update.unavailable_max.is_some() || update.unavailable_percent_max.is_some();
    if !says {
        return u64::from(count / 4).max(1);
    }
    let share = u64::from(count) * u64::from(update.unavailable_percent_max.unwrap_or(0)) / 100;
    let most = share.max(u64::from(update.unavailable_max.unwrap_or(0)));
    if asked && surge_serves && count > 0 { most } else { most.max(1) }
}
