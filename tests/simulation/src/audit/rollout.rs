//! The auditor's rules of rollouts: they keep to the budget of their job, and what takes a version back is not taken
//! back itself.

use borough_model::job::{JobRow, JobSpec};
use borough_model::task::{Health, TaskRow, TaskState};
use borough_model::{Delta, JournalEntry, TaskId};

use super::Auditor;

impl Auditor {
    /// Checks an entry of a rollout by the rows before it.
    pub(super) fn rollout_check(&mut self, entry: &JournalEntry) {
        match entry.action.as_str() {
            "rollout_replace" => self.replace_check(entry),
            "rollout_fail" => self.fail_check(entry),
            _ => {}
        }
    }

    /// A rollout ends a healthy attempt only while the job may miss one more, whatever the others are missing for. One
    /// that surges stands in for one of the owner's. An attempt that is not healthy may always be ended, and gangs are
    /// replaced whole.
    fn replace_check(&mut self, entry: &JournalEntry) {
        let Some(row) = job_of(entry) else { return };
        let job = row.id;
        let Some(spec) = self.specs.get(&job).filter(|spec| !spec.is_gang()) else { return };
        let surge = row.surge();
        let count = if row.daemon.is_some() { self.daemon_answered_for(row) } else { row.count - surge };
        // The share is that of all nodes served.
        let away_max = unavailable_max(spec, row.wanted_count(), surge);
        let spec = spec.clone();
        let ended = entry.deltas.iter().filter_map(|delta| match delta {
            Delta::Task { row } if row.id.job == job && !is_healthy(row) => Some(row.id),
            _ => None,
        });
        let ended: Vec<TaskId> = ended
            .filter(|task| task.index < row.count && self.tasks.get(task).is_some_and(is_healthy))
            .collect();
        let (healthy, gone) = (self.serving(row, true), u64::try_from(ended.len()).unwrap_or(u64::MAX));
        // Before the promotion only what surges is replaced. It may stand in for a task that is away.
        let is_tried = row.canary_base().is_some();
        let fits = u64::from(count) + gone <= away_max + healthy;
        self.note("rollout_step");
        let owners = row.count - surge;
        // What surges may have kept a place that one of the owner's tasks waits for: that one goes on.
        let goes_on = |row: &TaskRow| matches!(row.state, TaskState::Assigned | TaskState::Starting);
        let own =
            |delta: &Delta| matches!(delta, Delta::Task { row } if row.id.index < owners && !goes_on(row));
        self.require(!is_tried || !entry.deltas.iter().any(own), "rollout_canary", || {
            format!("{job} is tried with canaries, and another attempt of it is replaced")
        });
        let owned = ended.iter().filter(|task| task.index < owners).count();
        let counted = row.rollout.as_ref().map_or(0, |rollout| rollout.disruptions);
        let before = self.jobs.get(&job).and_then(|row| row.rollout.as_ref());
        let before = before.map_or(0, |rollout| rollout.disruptions);
        let most = spec.update.and_then(|update| update.disruptions_max).unwrap_or(u32::MAX);
        let is_counted = row.rollout.is_none()
            || counted.checked_sub(before).and_then(|more| usize::try_from(more).ok()) == Some(owned);
        self.require(is_counted && (owned == 0 || counted <= most), "rollout_limit", || {
            format!("{owned} healthy tasks of {job} are ended after {before}, {counted} are counted: {most} may be")
        });
        if !ended.is_empty() {
            self.note("rollout_replaced_healthy");
        }
        if !ended.is_empty() && surge > 0 {
            self.note("rollout_replaced_with_surge");
        }
        self.require(ended.is_empty() || fits, "rollout_budget", || {
            format!(
                "{ended:?} of {job} are ended with {healthy} healthy ones for {count}: {away_max} may be missing"
            )
        });
    }

    /// A rollout that takes back a version ends when it fails, and takes no further one back.
    fn fail_check(&mut self, entry: &JournalEntry) {
        let Some(row) = job_of(entry) else { return };
        let Some(before) = self.jobs.get(&row.id) else { return };
        let took_back = before.rollout.as_ref().is_some_and(|rollout| rollout.reverts.is_some());
        let reverts = row.spec_version > before.spec_version;
        let (job, version) = (row.id, before.spec_version);
        self.note(if reverts { "rollout_reverts" } else { "rollout_stops" });
        self.require(!(took_back && reverts), "rollout_loop", || {
            format!("version {version} of {job} took one back, and is taken back itself")
        });
    }
}

/// The job that an entry changes, as it leaves it.
fn job_of(entry: &JournalEntry) -> Option<&JobRow> {
    entry.deltas.iter().rev().find_map(|delta| match delta {
        Delta::Job { row, .. } => Some(&**row),
        _ => None,
    })
}

pub(super) fn is_healthy(row: &TaskRow) -> bool {
    row.state == TaskState::Running && row.health == Health::Healthy
}

/// How many of `count` tasks may be without a healthy attempt while others surge.
fn unavailable_max(spec: &JobSpec, count: u32, surge: u32) -> u64 {
    let update = spec.update.unwrap_or_default();
    let share = u64::from(count) * u64::from(update.unavailable_percent_max.unwrap_or(0)) / 100;
    let most = share.max(u64::from(update.unavailable_max.unwrap_or(0)));
    let asked =
        update.surge_max.unwrap_or(0) > 0 || update.surge_percent_max.unwrap_or(0) > 0 || update.canaries > 0;
    if asked && surge > 0 && count > 0 { most } else { most.max(1) }
}
